//! Tools that belong to a project: virtual environments and node_modules.

use std::path::{Path, PathBuf};

/// How a project's files change a call in a sidecar.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectTools {
    /// A directory to put before the sidecar PATH, for the tool and its children.
    pub first_in_path: Option<PathBuf>,
    /// The active virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// Programs to run if the tool is not in PATH.
    pub substitutes: &'static [Substitute],
}

/// A program that stands for a tool which is absent.
#[derive(Debug, PartialEq, Eq)]
pub struct Substitute {
    /// Looked up in PATH.
    pub program: &'static str,
    /// Replace `argv[0]`; none if it stays as typed.
    pub words: &'static [&'static str],
}

const NPX: &[Substitute] = &[Substitute { program: "npx", words: &["npx", "tsc"] }];
/// Many systems have only `python3`.
const PYTHON: &[Substitute] = &[Substitute { program: "python3", words: &[] }];

impl ProjectTools {
    /// Finds the environment that the caller has activated, else that of the interpreter `program`, else what
    /// the directory or the nearest of its parents up to the workspace root has: a python sidecar uses
    /// `.venv`, a node sidecar `tsc` of `node_modules`. The caller says which paths are regular files, and
    /// which of them it may execute.
    pub fn find(
        (kind, tool): (&str, &str),
        (activated, program): (Option<&Path>, Option<&Path>),
        (cwd, workspace): (&Path, &Path),
        (is_file, is_executable): (impl Fn(&Path) -> bool, impl Fn(&Path) -> bool),
    ) -> Self {
        let directories =
            || cwd.ancestors().take_while(|directory| directory.starts_with(workspace));
        let has = |directory: &Path, name: &str| is_executable(&directory.join(name));
        let substitutes = match (kind, tool) {
            ("node", "tsc") => NPX,
            (_, "python") => PYTHON,
            _ => &[],
        };
        let found = match kind {
            "python" => {
                let is_active = |venv: &PathBuf| has(&venv.join("bin"), "python3");
                let activated = activated.map(Path::to_owned).filter(is_active);
                let of_program = || {
                    let venv = program?.ancestors().nth(2)?;
                    is_file(&venv.join("pyvenv.cfg")).then(|| venv.to_owned())
                };
                let nearest = || directories().map(|it| it.join(".venv")).find(is_active);
                // Some tools, such as poetry, install into the active environment. An interpreter that is called
                // by its path activates none.
                match (activated, of_program()) {
                    (None, Some(venv)) => (Some(venv.join("bin")), None),
                    (activated, _) => {
                        let venv = activated.or_else(nearest);
                        (venv.as_ref().map(|venv| venv.join("bin")), venv)
                    }
                }
            }
            "node" if tool == "tsc" => {
                let mut bin = directories().map(|directory| directory.join("node_modules/.bin"));
                (bin.find(|bin| has(bin, "tsc")), None)
            }
            _ => (None, None),
        };
        ProjectTools { first_in_path: found.0, virtual_env: found.1, substitutes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executables, and `pyvenv.cfg`.
    const FILES: [&str; 6] = [
        "/.venv/bin/python3",
        "/ws/.venv/bin/python3",
        "/ws/a/.venv/bin/python",
        "/ws/env/bin/python3",
        "/ws/env/pyvenv.cfg",
        "/ws/web/node_modules/.bin/tsc",
    ];

    fn is_there(path: &Path) -> bool {
        FILES.iter().any(|file| Path::new(file) == path)
    }

    fn find(of: (&str, &str), cwd: &str) -> ProjectTools {
        ProjectTools::find(
            of,
            (None, None),
            (Path::new(cwd), Path::new("/ws")),
            (is_there, is_there),
        )
    }

    #[test]
    fn the_nearest_within_the_workspace_counts() {
        for cwd in ["/ws", "/ws/a/b", "/ws/broken"] {
            let project = find(("python", "pip"), cwd);
            assert_eq!(project.virtual_env, Some("/ws/.venv".into()), "{cwd}");
            assert_eq!(project.first_in_path, Some("/ws/.venv/bin".into()), "{cwd}");
        }
        for (of, cwd) in [
            (("rust", "python3"), "/ws"),
            (("python", "python3"), "/elsewhere"),
            (("node", "node"), "/ws/web"),
        ] {
            assert_eq!(find(of, cwd), ProjectTools::default(), "{of:?} in {cwd}");
        }
        let tsc = |cwd| find(("node", "tsc"), cwd).first_in_path;
        assert_eq!(tsc("/ws/web"), Some("/ws/web/node_modules/.bin".into()));
        assert_eq!(tsc("/ws"), None);
        assert_eq!(find(("node", "tsc"), "/ws").substitutes, NPX);
        assert_eq!(find(("rust", "python"), "/ws").substitutes, PYTHON);
    }

    #[test]
    fn an_activated_environment_comes_first_then_that_of_the_program() {
        let found = |activated: Option<&str>, program: Option<&str>| {
            let given = (activated.map(Path::new), program.map(Path::new));
            let places = (Path::new("/ws"), Path::new("/ws"));
            let found = ProjectTools::find(("python", "x"), given, places, (is_there, is_there));
            (found.first_in_path.unwrap(), found.virtual_env)
        };
        let env = Some(PathBuf::from("/ws/env"));
        let nearest = Some(PathBuf::from("/ws/.venv"));
        let bin = |venv: &str| PathBuf::from(venv).join("bin");
        let program = Some("/ws/env/bin/python3");
        assert_eq!(found(None, program), (bin("/ws/env"), None));
        assert_eq!(found(Some("/ws/env"), None), (bin("/ws/env"), env));
        assert_eq!(found(Some("/ws/.venv"), program), (bin("/ws/.venv"), nearest.clone()));
        assert_eq!(found(Some("/ws/a/.venv"), program), (bin("/ws/env"), None), "no python3");
        let no_environment = Some("/ws/.venv/bin/python3");
        assert_eq!(found(None, no_environment), (bin("/ws/.venv"), nearest), "no pyvenv.cfg");
    }
}
