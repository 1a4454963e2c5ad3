//! Lexical checks of a call's working directory.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use aifo_types::{Refusal, normalise_path};

/// Removes `.`, `..` and repeated slashes from an absolute path.
///
/// The check is lexical: the runner resolves links and checks that the path is in the workspace.
/// Errors: [`Refusal::BadRequest`] for a relative path or one with a NUL.
pub fn normalise(cwd: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !cwd.starts_with(b"/") {
        return Err(Refusal::BadRequest("cwd must be absolute".to_owned()));
    }
    if cwd.contains(&0) {
        return Err(Refusal::BadRequest("cwd holds a NUL byte".to_owned()));
    }
    let plain = normalise_path(Path::new(OsStr::from_bytes(cwd)));
    Ok(plain.into_os_string().into_vec())
}

/// Returns whether the only argument is a version or help option. Agents call that from any
/// directory, so outside the session directories it runs at the workspace root.
pub fn asks_only_for_version(args: &[Vec<u8>]) -> bool {
    const OPTIONS: [&[u8]; 5] = [b"--version", b"-V", b"-v", b"version", b"--help"];
    matches!(args, [only] if OPTIONS.contains(&only.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let rows = [("/", "/"), ("//w///a/", "/w/a"), ("/w/../x", "/x")];
        for (cwd, path) in rows {
            assert_eq!(normalise(cwd.as_bytes()), Ok(path.as_bytes().to_vec()), "{cwd}");
        }
        assert_eq!(normalise(b"/\xff"), Ok(b"/\xff".to_vec()), "paths are bytes");
        for cwd in ["", "w", "./w", "~", "/a\0b"] {
            assert!(matches!(normalise(cwd.as_bytes()), Err(Refusal::BadRequest(_))), "{cwd:?}");
        }
    }

    #[test]
    fn version_queries() {
        let check = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            asks_only_for_version(&args)
        };
        for arg in ["--version", "-V", "-v", "version", "--help"] {
            assert!(check(&[arg]), "{arg}");
            assert!(!check(&[arg, "x"]) && !check(&["x", arg]), "{arg} is not the only argument");
        }
        assert!(!check(&[]) && !check(&["-h"]) && !check(&["test"]));
    }
}
