//! Tools that belong to a project: virtual environments and node_modules.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path};

/// How a project's files change a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectTools {
    /// A directory to put before the sidecar's PATH, for the tool and its children.
    pub(crate) first_in_path: Option<PathBuf>,
    /// The active virtual environment.
    pub(crate) virtual_env: Option<PathBuf>,
    /// A program with arguments to run if the tool is not in PATH.
    pub(crate) fallback: Option<(&'static str, &'static [&'static str])>,
}

impl ProjectTools {
    /// Searches the working directory and its parents up to the workspace root.
    ///
    /// A python sidecar uses the nearest `.venv`; a node sidecar the nearest `tsc` of the project,
    /// else `npx tsc`. The search runs in the sidecar, because links and interpreters may resolve
    /// differently outside of the container.
    pub(crate) fn find(kind: &str, tool: &str, cwd: &Path, workspace: &Path) -> Self {
        let directories =
            || cwd.ancestors().take_while(|directory| directory.starts_with(workspace));
        match kind {
            "python" => {
                let venv = directories().map(|directory| directory.join(".venv"));
                let venv =
                    venv.into_iter().find(|venv| has_executable(&venv.join("bin"), "python3"));
                ProjectTools {
                    first_in_path: venv.as_ref().map(|venv| venv.join("bin")),
                    virtual_env: venv,
                    fallback: None,
                }
            }
            "node" if tool == "tsc" => {
                let bin = directories().map(|directory| directory.join("node_modules/.bin"));
                ProjectTools {
                    first_in_path: bin.into_iter().find(|bin| has_executable(bin, "tsc")),
                    virtual_env: None,
                    fallback: Some(("npx", &["tsc"])),
                }
            }
            _ => ProjectTools::default(),
        }
    }

    /// Returns the tools of the virtual environment that the caller has activated, else of the one whose
    /// interpreter is `program`; `None` without either.
    pub(crate) fn of_environment(
        kind: &str,
        activated: Option<&Path>,
        program: Option<&Path>,
    ) -> Option<Self> {
        if kind != "python" {
            return None;
        }
        let activated = activated.filter(|venv| has_executable(&venv.join("bin"), "python3"));
        let of_program = || program.and_then(|program| program.ancestors().nth(2));
        let venv =
            activated.or_else(|| of_program().filter(|venv| venv.join("pyvenv.cfg").is_file()))?;
        Some(ProjectTools {
            first_in_path: Some(venv.join("bin")),
            // Some tools, such as poetry, install into the active environment.
            virtual_env: activated.map(Path::to_owned),
            fallback: None,
        })
    }

    /// Returns the PATH of the call.
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

fn has_executable(directory: &Path, tool: &str) -> bool {
    matches!(find_in_path(tool, directory.as_os_str()), Lookup::Found(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_nearest_within_the_workspace_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
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
        let find = |kind, tool, cwd: &str| ProjectTools::find(kind, tool, &base.join(cwd), &ws);
        let venv = Some(ws.join(".venv"));
        for cwd in ["ws", "ws/a/b", "ws/broken"] {
            let project = find("python", "pip", cwd);
            assert_eq!(project.virtual_env, venv, "{cwd}");
            assert_eq!(project.path(OsStr::new("/bin")), {
                let mut path = ws.join(".venv/bin").into_os_string();
                path.push(":/bin");
                path
            });
        }
        assert_eq!(find("rust", "python3", "ws"), ProjectTools::default());
        assert_eq!(
            find("python", "python3", "elsewhere"),
            ProjectTools::default(),
            "outside the workspace"
        );
        // An activated environment comes first, then the one of a program that is called by its path.
        tool("ws/env/bin/python3");
        fs::write(ws.join("env/pyvenv.cfg"), "").unwrap();
        let (env, program) = (ws.join("env"), ws.join("env/bin/python3"));
        let of = |activated: Option<&Path>, program: Option<&Path>| {
            let found = ProjectTools::of_environment("python", activated, program)?;
            Some((found.first_in_path?, found.virtual_env))
        };
        let bin = env.join("bin");
        assert_eq!(of(None, Some(&program)), Some((bin.clone(), None)));
        assert_eq!(of(Some(&env), None), Some((bin.clone(), Some(env))));
        let active = ws.join(".venv");
        assert_eq!(of(Some(&active), Some(&program)), Some((active.join("bin"), venv)));
        assert_eq!(of(Some(&ws.join("a/.venv")), Some(&program)), Some((bin, None)), "no python3");
        assert_eq!(of(None, Some(&active.join("bin/python3"))), None, "no environment");
        assert_eq!(ProjectTools::of_environment("node", None, Some(&program)), None);

        let web = find("node", "tsc", "ws/web");
        assert_eq!(web.first_in_path, Some(ws.join("web/node_modules/.bin")));
        assert_eq!(find("node", "tsc", "ws").first_in_path, None);
        assert_eq!(find("node", "tsc", "ws").fallback, Some(("npx", &["tsc"][..])));
        assert_eq!(find("node", "node", "ws/web"), ProjectTools::default());
    }
}
