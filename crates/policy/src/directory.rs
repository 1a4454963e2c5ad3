//! The directory a call asks to run in, as far as its spelling tells.

use aifo_types::Refusal;

/// The directory a client sent, without `.`, `..` and doubled slashes.
///
/// Only the spelling is looked at. Where the path really leads, and whether that is inside the
/// workspace, is told where the tool runs. Errors: [`Refusal::BadRequest`] for a relative path or
/// one with a NUL.
pub fn normalise(cwd: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !cwd.starts_with(b"/") {
        return Err(Refusal::BadRequest("cwd must be absolute".to_owned()));
    }
    if cwd.contains(&0) {
        return Err(Refusal::BadRequest("cwd holds a NUL byte".to_owned()));
    }
    let mut components: Vec<&[u8]> = Vec::new();
    for component in cwd.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                components.pop();
            }
            name => components.push(name),
        }
    }
    let mut path = vec![b'/'];
    path.extend(components.join(&b'/'));
    Ok(path)
}

/// Whether a call only asks a tool what it is. Agents do so from anywhere, so such a call runs at
/// the workspace root if its own directory is not one of the session's.
pub fn asks_only_for_version(args: &[Vec<u8>]) -> bool {
    const QUESTIONS: [&[u8]; 5] = [b"--version", b"-V", b"-v", b"version", b"--help"];
    matches!(args, [only] if QUESTIONS.contains(&only.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let rows = [
            ("/", "/"),
            ("/w", "/w"),
            ("/w/", "/w"),
            ("//w///a", "/w/a"),
            ("/w/./a", "/w/a"),
            ("/w/../x", "/x"),
            ("/../..", "/"),
            ("/w/a/../..", "/"),
            ("/w/..a/...", "/w/..a/..."),
        ];
        for (cwd, path) in rows {
            assert_eq!(normalise(cwd.as_bytes()), Ok(path.as_bytes().to_vec()), "{cwd}");
        }
        assert_eq!(normalise(b"/\xff"), Ok(b"/\xff".to_vec()), "paths are bytes");
        for cwd in ["", "w", "./w", "~", "/a\0b"] {
            assert!(matches!(normalise(cwd.as_bytes()), Err(Refusal::BadRequest(_))), "{cwd:?}");
        }
    }

    #[test]
    fn questions() {
        let ask = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            asks_only_for_version(&args)
        };
        for arg in ["--version", "-V", "-v", "version", "--help"] {
            assert!(ask(&[arg]), "{arg}");
            assert!(!ask(&[arg, "x"]) && !ask(&["x", arg]), "{arg} is not the only argument");
        }
        assert!(!ask(&[]) && !ask(&["-h"]) && !ask(&["test"]));
    }
}
