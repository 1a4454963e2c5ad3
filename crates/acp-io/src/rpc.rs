//! Parameters of an agent's requests, and error responses.

use aifo_acp::{RpcError, code};
use nix::errno::Errno;
use serde_json::Value;

/// Invalid parameters: a retry cannot succeed.
pub(crate) fn invalid(message: impl Into<String>) -> RpcError {
    error(code::INVALID_PARAMS, message)
}

/// Resource not found.
pub(crate) fn not_found(what: &str) -> RpcError {
    error(code::NOT_FOUND, format!("Resource not found: {what}"))
}

/// Internal error.
pub(crate) fn failed(message: impl Into<String>) -> RpcError {
    error(code::INTERNAL, message)
}

/// A system error for a path. Contains nothing of the file.
pub(crate) fn refused(path: &str, errno: Errno) -> RpcError {
    let why = match errno {
        Errno::ENOENT => return not_found(path),
        Errno::EXDEV => "leads out of the workspace",
        Errno::ELOOP => "is a symbolic link",
        Errno::EISDIR | Errno::ENXIO => "is not a regular file",
        Errno::ENOTDIR => "leads through something that is not a directory",
        Errno::ENAMETOOLONG => "has a name that is too long",
        Errno::EINVAL => "is not a valid path",
        errno => return failed(format!("'{path}': {}", errno.desc())),
    };
    invalid(format!("'{path}' {why}"))
}

/// Returns a required string parameter.
pub(crate) fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    let missing = || invalid(format!("'{name}' must be a string"));
    params.get(name).and_then(Value::as_str).ok_or_else(missing)
}

/// Returns an optional parameter; `null` counts as missing.
pub(crate) fn optional<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params.get(name).filter(|value| !value.is_null())
}

pub(crate) fn error(code: i64, message: impl Into<String>) -> RpcError {
    RpcError { code, message: message.into(), data: None }
}
