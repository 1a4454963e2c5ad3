//! Virtual environments of the workspace that another system created
//! (`spec/agents.md#interpreters`).

use std::fs;
use std::path::{Path, PathBuf};

use aifo_policy::{KindSpec, kinds};
use aifo_types::{escape_line, normalise_path};

/// The usual names of a project environment.
const NAMES: [&str; 2] = [".venv", "venv"];

/// Warns of an environment whose interpreter is in no container: its programs fail with the kernel's
/// error, which does not name the interpreter.
pub fn warn_of_foreign_environments(workspace: &Path) {
    for (name, interpreter) in foreign_environments(workspace) {
        let interpreter = interpreter.display().to_string();
        tracing::warn!(
            "'{name}' was created with '{}', which containers do not have; \
             create it again in the session: python3 -m venv --clear {name}",
            escape_line(&interpreter)
        );
    }
}

fn foreign_environments(workspace: &Path) -> Vec<(&'static str, PathBuf)> {
    let interpreter = |name: &str| {
        let bin = workspace.join(name).join("bin");
        let target = ["python3", "python"].map(|python| link_target(&bin.join(python), workspace));
        target.into_iter().flatten().next()
    };
    let covered: Vec<_> = kinds().iter().flat_map(KindSpec::interpreter_paths).collect();
    let found = NAMES.into_iter().filter_map(|name| Some((name, interpreter(name)?)));
    found.filter(|(_, interpreter)| !covered.contains(interpreter)).collect()
}

/// Follows the links of a program while they are in the workspace; returns the first path outside.
/// `None` if the program is in the workspace. Links are followed as text: a target need not exist on
/// this machine.
pub fn link_target(program: &Path, workspace: &Path) -> Option<PathBuf> {
    let mut path = program.to_owned();
    for _ in 0..MAX_LINKS {
        if !path.starts_with(workspace) {
            return Some(path);
        }
        let next = fs::read_link(&path).ok()?;
        path = normalise_path(&path.parent()?.join(next));
    }
    None
}

/// The kernel's limit on links in a path.
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn environments_of_another_system_are_found() {
        let root = std::env::temp_dir().join(format!("aifo-environments-{}", std::process::id()));
        let root = normalise_path(&root);
        let link = |target: &str, path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            symlink(target, path).unwrap();
        };
        fs::create_dir_all(&root).unwrap();
        assert_eq!(foreign_environments(&root), []);
        link("/usr/bin/python3", ".venv/bin/python3");
        link("python", "venv/bin/python3");
        link("/opt/host/bin/python3.12", "venv/bin/python");
        assert_eq!(foreign_environments(&root), [("venv", "/opt/host/bin/python3.12".into())]);
        link("../../loop", ".venv/bin/python3");
        link("loop", "loop");
        link("../../own", "venv/bin/python");
        fs::write(root.join("own"), "").unwrap();
        assert_eq!(foreign_environments(&root), []);
        fs::remove_dir_all(&root).unwrap();
    }
}
