//! Tools that a project brings along.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path};

/// What a project's own files change about a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Project {
    /// A directory that comes before the sidecar's PATH, for the tool and for what it starts.
    pub(crate) first_in_path: Option<PathBuf>,
    /// The virtual environment that is in use.
    pub(crate) virtual_env: Option<PathBuf>,
    /// A program that stands in for a name the PATH does not have, with its first arguments.
    pub(crate) fallback: Option<(&'static str, &'static [&'static str])>,
}

impl Project {
    /// Looks around in the directory of a call, and above it up to the workspace root.
    ///
    /// In a python sidecar the nearest `.venv` counts, in a node sidecar the nearest `tsc` of the
    /// project, else `npx tsc`. Looked up here, where the tool runs: links and interpreters on the
    /// other side of a container's wall may lead elsewhere.
    pub(crate) fn around(kind: &str, tool: &str, cwd: &Path, workspace: &Path) -> Self {
        let folders = || cwd.ancestors().take_while(|folder| folder.starts_with(workspace));
        match kind {
            "python" => {
                let venv = folders().map(|folder| folder.join(".venv"));
                let venv = venv.into_iter().find(|venv| has(&venv.join("bin"), "python3"));
                Project {
                    first_in_path: venv.as_ref().map(|venv| venv.join("bin")),
                    virtual_env: venv,
                    fallback: None,
                }
            }
            "node" if tool == "tsc" => {
                let bin = folders().map(|folder| folder.join("node_modules/.bin"));
                Project {
                    first_in_path: bin.into_iter().find(|bin| has(bin, "tsc")),
                    virtual_env: None,
                    fallback: Some(("npx", &["tsc"])),
                }
            }
            _ => Project::default(),
        }
    }

    /// The PATH of the call.
    pub(crate) fn path(&self, path: &OsStr) -> OsString {
        match &self.first_in_path {
            None => path.to_owned(),
            Some(first) => {
                let mut joined = first.clone().into_os_string();
                joined.push(":");
                joined.push(path);
                joined
            }
        }
    }
}

fn has(folder: &Path, tool: &str) -> bool {
    matches!(find_in_path(tool, folder.as_os_str()), Lookup::Found(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_nearest_one_within_the_workspace() {
        let base = std::env::temp_dir().join(format!("aifo-project-{}", std::process::id()));
        let tool = |path: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        tool(".venv/bin/python3");
        tool("ws/.venv/bin/python3");
        tool("ws/a/.venv/bin/python");
        tool("ws/web/node_modules/.bin/tsc");
        fs::create_dir_all(base.join("ws/broken/.venv/bin")).unwrap();
        symlink("/nonexistent", base.join("ws/broken/.venv/bin/python3")).unwrap();
        fs::create_dir_all(base.join("ws/a/b")).unwrap();

        let ws = base.join("ws");
        let around = |kind, tool, cwd: &str| Project::around(kind, tool, &base.join(cwd), &ws);
        let venv = Some(ws.join(".venv"));
        for cwd in ["ws", "ws/a/b", "ws/broken"] {
            let project = around("python", "pip", cwd);
            assert_eq!(project.virtual_env, venv, "{cwd}");
            assert_eq!(project.path(OsStr::new("/bin")), {
                let mut path = ws.join(".venv/bin").into_os_string();
                path.push(":/bin");
                path
            });
        }
        assert_eq!(around("rust", "python3", "ws"), Project::default());
        assert_eq!(around("python", "python3", "elsewhere"), Project::default(), "not ours");
        let web = around("node", "tsc", "ws/web");
        assert_eq!(web.first_in_path, Some(ws.join("web/node_modules/.bin")));
        assert_eq!(around("node", "tsc", "ws").first_in_path, None);
        assert_eq!(around("node", "tsc", "ws").fallback, Some(("npx", &["tsc"][..])));
        assert_eq!(around("node", "node", "ws/web"), Project::default());
        fs::remove_dir_all(&base).unwrap();
    }
}
