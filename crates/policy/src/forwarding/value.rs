//! Checks of variables' values.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::normalise;

/// Returns whether the value contains a URL with a user name or password: `https://me:secret@host`.
pub(crate) fn has_credentials(value: &[u8]) -> bool {
    const SCHEME_END: &[u8] = b"://";
    let mut rest = value;
    while let Some(at) = rest.windows(SCHEME_END.len()).position(|bytes| bytes == SCHEME_END) {
        rest = rest.get(at + SCHEME_END.len()..).unwrap_or_default();
        let ends = |byte: &u8| b"/?#,|;\"'".contains(byte) || byte.is_ascii_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        if authority.contains(&b'@') {
            return true;
        }
    }
    false
}

/// Returns whether one of the paths, separated by `:`, is absolute and outside the workspace, whose
/// paths are `workspace`.
/// Relative and empty paths refer to the call directory, which is the tool's too.
pub(crate) fn has_path_outside(value: &[u8], workspace: &[PathBuf]) -> bool {
    value.split(|byte| *byte == b':').any(|path| is_outside(path, workspace))
}

/// Returns whether a word, or the part after its `=`, is an absolute path outside the workspace.
/// The path may be quoted or a `file://` URL.
pub(crate) fn has_option_outside(value: &[u8], workspace: &[PathBuf]) -> bool {
    let separates = |byte: &u8| byte.is_ascii_whitespace() || b"=\"'".contains(byte);
    value.split(separates).any(|word| {
        let path = word.strip_prefix(b"file://").unwrap_or(word);
        is_outside(path, workspace)
    })
}

/// Returns whether the value contains make's jobserver option, which names descriptors or a pipe of
/// the caller's make.
pub(crate) fn has_jobserver(value: &[u8]) -> bool {
    const OPTION: &[u8] = b"--jobserver";
    value.windows(OPTION.len()).any(|bytes| bytes == OPTION)
}

fn is_outside(path: &[u8], workspace: &[PathBuf]) -> bool {
    let inside = |path: Vec<u8>| {
        workspace.iter().any(|root| Path::new(OsStr::from_bytes(&path)).starts_with(root))
    };
    path.starts_with(b"/") && !normalise(path).is_ok_and(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins() {
        let rows = [
            ("https://me:pw@host/x", true),
            ("https://ghp_x@github.com", true),
            ("a, b https://x.example|http://u@h", true),
            ("https://host/@scope/pkg", false),
            ("https://host?mail=a@b", false),
            ("me@host", false),
            ("://@", true),
            ("://", false),
            ("", false),
        ];
        for (value, expected) in rows {
            assert_eq!(has_credentials(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn paths() {
        let rows = [
            ("/w", false),
            ("/w/src:/w/lib", false),
            ("", false),
            (":", false),
            ("src::../lib", false),
            ("/w/../w/x", false),
            ("/w/../x", true),
            ("/wx", true),
            ("/w:/opt", true),
            ("//opt", true),
            ("/w\0", true),
            ("/v/src:/w", false),
        ];
        let roots = ["/w", "/v"].map(PathBuf::from);
        for (value, expected) in rows {
            assert_eq!(has_path_outside(value.as_bytes(), &roots), expected, "{value:?}");
        }
    }

    #[test]
    fn options() {
        let rows = [
            ("--max-old-space-size=4096", false),
            ("--require ./setup.js", false),
            ("--require=/w/setup.js --inspect", false),
            ("--require /opt/editor/boot.js", true),
            ("--require=/opt/x.js", true),
            ("--import \"file:///opt/x.mjs\"", true),
            ("--import file:///w/x.mjs", false),
            ("--import https://esm.example/x", false),
        ];
        for (value, expected) in rows {
            let found = has_option_outside(value.as_bytes(), &[PathBuf::from("/w")]);
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn jobservers() {
        for value in [" -j4 --jobserver-auth=3,4", "-j --jobserver-fds=fifo:/tmp/x"] {
            assert!(has_jobserver(value.as_bytes()), "{value}");
        }
        assert!(!has_jobserver(b"-j8") && !has_jobserver(b""));
    }
}
