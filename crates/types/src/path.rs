//! Lexical operations on paths.

use std::path::{Component, Path, PathBuf};

/// Returns an absolute path without `.`, `..` and repeated slashes. Links are not resolved.
pub fn normalise_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalised_paths() {
        let rows = [
            ("/", "/"),
            ("/w", "/w"),
            ("/w/", "/w"),
            ("//workspace//a/", "/workspace/a"),
            ("/w/./a", "/w/a"),
            ("/workspace/./a/../..", "/"),
            ("/workspace/../opt/x", "/opt/x"),
            ("/../..", "/"),
            ("/a/..b/...", "/a/..b/..."),
        ];
        for (path, expected) in rows {
            let plain = normalise_path(Path::new(path));
            assert_eq!(plain.as_os_str(), expected, "{path}");
        }
    }
}
