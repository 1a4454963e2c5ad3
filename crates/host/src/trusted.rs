//! Programs of this machine that the launcher may start (`spec/trust.md#programs`).
//!
//! PATH may contain directories that an agent can write to, such as the project's virtual
//! environment or its `node_modules/.bin`. A program from there would run outside of every sandbox.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aifo_engine::{MissingProgram, Program, Programs};
use aifo_process::is_executable;

use crate::claim::Claim;
use crate::own_directories::{cache_directory, home, lies_in_session, real_path, states_directory};
use crate::project::recorded_roots;
use crate::running::running_sessions;

/// Finds the programs that the launcher starts on this machine: engines, git.
///
/// A program is trusted unless its real path lies in a directory that an agent can write to: the
/// workspace, the repository around it and the one it is linked to, workspaces of current and earlier sessions, session
/// directories, agents' state directories and aifo's copies of them, aifo's caches. Relative and empty entries of PATH are
/// ignored, as are directories and files that every user can write to.
#[derive(Clone, Debug)]
pub struct TrustedPrograms {
    /// PATH as given.
    path: OsString,
    /// Real paths of directories that an agent can write to.
    agent_writable: Vec<PathBuf>,
}

impl TrustedPrograms {
    /// For a workspace and its repository, with the PATH of this process. `states` are the directories of
    /// the user in which agents keep their state.
    pub fn for_workspace(workspace: &Path, states: &[PathBuf]) -> Self {
        let sessions = running_sessions().into_iter().map(|session| session.workspace);
        let workspace = real_path(workspace);
        let repository = repository_around(&workspace);
        let linked = Claim::of(&workspace).ok().flatten().map(|claim| claim.repository.common);
        let agent_writable = [workspace].into_iter().chain(repository).chain(linked);
        let agent_writable = agent_writable.chain(sessions).chain(recorded_roots());
        let agent_writable = agent_writable.chain(cache_directory()).chain(states_directory());
        let agent_writable = agent_writable.chain(states.iter().cloned());
        TrustedPrograms {
            path: std::env::var_os("PATH").unwrap_or_default(),
            agent_writable: agent_writable.map(|path| real_path(&path)).collect(),
        }
    }

    /// Replaces PATH.
    #[must_use]
    pub fn with_path(self, path: OsString) -> Self {
        TrustedPrograms { path, ..self }
    }

    /// Returns the trusted entries of PATH, for a trusted program's own helpers.
    pub fn path(&self) -> OsString {
        let kept = self.entries().filter(|directory| self.resolve(directory) == Ok(()));
        // Joining fails only for names with a ':', which splitting a PATH never gives.
        std::env::join_paths(kept).unwrap_or_default()
    }

    /// Returns the first trusted program of this name in PATH.
    pub fn program(&self, name: &str) -> Result<PathBuf, MissingProgram> {
        let (trusted, refused) = self.search(name);
        trusted.ok_or_else(|| match refused.into_iter().next() {
            Some((file, why)) => MissingProgram::Untrusted { file, why },
            None => MissingProgram::Absent,
        })
    }

    /// Returns the program at an absolute path, by the same rules. Errors: the reason.
    pub fn file(&self, path: &Path) -> Result<PathBuf, &'static str> {
        if !path.is_absolute() {
            return Err("the program is neither a name nor an absolute path");
        }
        if !is_executable(path) {
            return Err("it is not an executable file");
        }
        self.resolve(path).map(|()| path.to_owned())
    }

    /// Returns the first trusted program of this name, and the untrusted ones before it in PATH
    /// with the reasons.
    pub fn search(&self, name: &str) -> (Option<PathBuf>, Vec<(PathBuf, &'static str)>) {
        let mut refused = Vec::new();
        for file in self.entries().map(|directory| directory.join(name)) {
            if !is_executable(&file) {
                continue;
            }
            match self.resolve(&file) {
                Ok(()) => return (Some(file), refused),
                Err(why) => refused.push((file, why)),
            }
        }
        (None, refused)
    }

    fn entries(&self) -> impl Iterator<Item = PathBuf> + use<'_> {
        std::env::split_paths(OsStr::new(&self.path)).filter(|entry| entry.is_absolute())
    }

    /// Resolves an absolute path as the kernel does. Errors: why the file, or a directory in which a name
    /// of the path or of a link on the way is looked up, is not trusted.
    fn resolve(&self, path: &Path) -> Result<(), &'static str> {
        let mut real = PathBuf::from("/");
        let names = |path: &Path| {
            let names = path.components().rev().map(|name| name.as_os_str().to_owned());
            names.collect::<Vec<_>>()
        };
        let (mut rest, mut links) = (names(path), 0);
        while let Some(name) = rest.pop() {
            self.distrust_reason(&real).map_or(Ok(()), Err)?;
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(&name);
            let Ok(target) = real.read_link() else { continue };
            links += 1;
            if links > MAX_LINKS {
                return Err("it cannot be found");
            }
            real.pop();
            rest.extend(names(&target));
        }
        self.distrust_reason(&real).map_or(Ok(()), Err)
    }

    /// Returns the reason not to trust a file or directory; `None` if it is trusted.
    fn distrust_reason(&self, real: &Path) -> Option<&'static str> {
        if self.agent_writable.iter().any(|directory| real.starts_with(directory)) {
            return Some("an agent can write to its directory");
        }
        if lies_in_session(real) {
            return Some("it lies in the directory of a session");
        }
        real.ancestors().any(is_writable_by_all).then_some("every user can write to it")
    }
}

impl Programs for TrustedPrograms {
    fn find(&self, name: &str) -> Result<Program, MissingProgram> {
        // The path in PATH, not the real one: some programs depend on their name.
        let file = self.program(name)?;
        Ok(Program { file, path: self.path() })
    }
}

/// As the kernel's limit, ELOOP.
const MAX_LINKS: u32 = 40;

/// Returns the repository that contains a directory, searching up to the user's home.
fn repository_around(directory: &Path) -> Option<PathBuf> {
    let home = home().map(|home| real_path(&home));
    let below_home = directory.ancestors().take_while(|it| Some(*it) != home.as_deref());
    below_home.filter(|it| it.join(".git").symlink_metadata().is_ok()).last().map(PathBuf::from)
}

/// True if every user can replace this. In a sticky directory, such as `/tmp`, only owners can.
fn is_writable_by_all(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.mode() & 0o002 != 0 && it.mode() & 0o1000 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Creates a directory with an executable `name`.
    fn with_program(directory: PathBuf, name: &str) -> PathBuf {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), "#!/bin/sh\n").unwrap();
        mode(&directory.join(name), 0o755);
        directory
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn programs(path: &[&Path], agent_writable: &[&Path]) -> TrustedPrograms {
        TrustedPrograms {
            path: std::env::join_paths(path).unwrap(),
            agent_writable: agent_writable.iter().map(|path| real_path(path)).collect(),
        }
    }

    #[test]
    fn programs_that_an_agent_can_write_are_skipped() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let workspace = base.join("project");
        let venv = with_program(workspace.join(".venv/bin"), "docker");
        let open = with_program(base.join("open"), "docker");
        mode(&open, 0o777);
        let system = with_program(base.join("system"), "docker");
        let linked = base.join("linked");
        fs::create_dir(&linked).unwrap();
        symlink(venv.join("docker"), linked.join("docker")).unwrap();
        // The agent can point it elsewhere after the check.
        let planted = workspace.join("planted");
        fs::create_dir(&planted).unwrap();
        symlink(system.join("docker"), planted.join("docker")).unwrap();
        symlink(&system, workspace.join("system")).unwrap();
        let through = base.join("through");
        symlink(planted.join("docker"), &through).unwrap();

        let given = programs(&[], &[&workspace]);
        let why = "an agent can write to its directory";
        for (file, expected) in [
            (system.join("docker"), Ok(())),
            (venv.join("docker"), Err(why)),
            (linked.join("docker"), Err(why)),
            (planted.join("docker"), Err(why)),
            (workspace.join("system/docker"), Err(why)),
            (workspace.join("planted/../../system/docker"), Err(why)),
            (through, Err(why)),
            (open.join("docker"), Err("every user can write to it")),
            (system.join("absent"), Err("it is not an executable file")),
            ("bin/docker".into(), Err("the program is neither a name nor an absolute path")),
        ] {
            assert_eq!(given.file(&file).map(drop), expected, "{}", file.display());
        }
        let relative = Path::new("./node_modules/.bin");
        let within = workspace.join("system");
        let all = [
            &venv,
            &planted,
            &within,
            Path::new(""),
            Path::new("."),
            relative,
            &linked,
            &open,
            &system,
        ];
        let trusted = programs(&all, &[&workspace]);
        assert_eq!(trusted.program("docker").unwrap(), system.join("docker"));
        let expected = std::env::join_paths([&linked, &system]).unwrap();
        assert_eq!(trusted.path(), expected, "helpers are searched where programs are");

        let refused = |path: &[&Path]| programs(path, &[&workspace]).program("docker").unwrap_err();
        for entry in [&venv, &planted, &within, &linked, &open] {
            assert!(matches!(refused(&[entry]), MissingProgram::Untrusted { .. }), "{entry:?}");
        }
        assert_eq!(refused(&[Path::new("."), base]), MissingProgram::Absent);

        fs::write(system.join("docker"), "").unwrap();
        mode(&system.join("docker"), 0o644);
        assert_eq!(refused(&[&system]), MissingProgram::Absent, "it cannot be executed");
    }

    #[test]
    fn a_workspace_within_a_repository() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        fs::create_dir_all(base.join("repository/.git")).unwrap();
        fs::create_dir_all(base.join("repository/crates/one")).unwrap();
        let inner = base.join("repository/crates/one");
        assert_eq!(repository_around(&inner), Some(base.join("repository")));
        assert_eq!(repository_around(base), None);
    }
}
