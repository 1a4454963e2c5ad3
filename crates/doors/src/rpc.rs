//! What an agent asks with, and how it is told no.

use aifo_acp::{RpcError, code};
use nix::errno::Errno;
use serde_json::Value;

/// What was asked for cannot be had, however often it is asked for.
pub(crate) fn invalid(message: impl Into<String>) -> RpcError {
    error(code::INVALID_PARAMS, message)
}

/// What was asked for is not there.
pub(crate) fn not_found(what: &str) -> RpcError {
    error(code::NOT_FOUND, format!("Resource not found: {what}"))
}

/// We could not do it.
pub(crate) fn failed(message: impl Into<String>) -> RpcError {
    error(code::INTERNAL, message)
}

/// What the system said about a path, as the agent is told. Nothing of a file is in it.
pub(crate) fn refused(path: &str, errno: Errno) -> RpcError {
    let why = match errno {
        Errno::ENOENT => return not_found(path),
        Errno::EXDEV => "leads out of the workspace",
        Errno::ELOOP => "is a symbolic link",
        Errno::EISDIR | Errno::ENXIO => "is not a regular file",
        Errno::ENOTDIR => "leads through something that is not a directory",
        Errno::ENAMETOOLONG => "has a name that is too long",
        Errno::EINVAL => "cannot be a path",
        errno => return failed(format!("'{path}': {}", errno.desc())),
    };
    invalid(format!("'{path}' {why}"))
}

/// A parameter that has to be there, and to be a text.
pub(crate) fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    let missing = || invalid(format!("'{name}' has to be a text"));
    params.get(name).and_then(Value::as_str).ok_or_else(missing)
}

/// A parameter that may be missing or `null`.
pub(crate) fn optional<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params.get(name).filter(|value| !value.is_null())
}

pub(crate) fn error(code: i64, message: impl Into<String>) -> RpcError {
    RpcError { code, message: message.into(), data: None }
}
