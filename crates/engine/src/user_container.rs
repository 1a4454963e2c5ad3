//! A container of the user's own: inspects it, copies files into it and executes programs in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::command::EngineCommand;
use crate::container::Stdio;
use crate::engine::{Engine, EngineError};

/// A container that no session has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserContainer {
    /// The engine name of its state: `running`, `paused`, `exited`.
    pub state: String,
    /// The user of its processes; empty for root.
    user: String,
    mounts: Vec<MountPoint>,
}

/// A mounted directory or file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountPoint {
    /// The source on the host; `None` for a volume.
    from: Option<PathBuf>,
    to: PathBuf,
}

/// The user that executes a program in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecAs {
    /// The user of the container's own processes.
    ContainerUser,
    /// Root, which may remove files that the engine has copied.
    Root,
}

impl UserContainer {
    /// Returns whether programs can be executed in it.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }

    /// Returns whether its processes run as root.
    pub fn runs_as_root(&self) -> bool {
        let user = self.user.split(':').next().unwrap_or_default();
        ["", "0", "root"].contains(&user)
    }

    /// Returns the path in the container of a host directory, given by its real path. `None` if the
    /// directory is not mounted, or another mount hides it.
    pub fn path_inside(&self, directory: &Path) -> Option<PathBuf> {
        let seen = self.mounts.iter().filter_map(|mount| {
            // The engine returns a path as the user wrote it.
            let from = mount.from.as_ref()?;
            let from = from.canonicalize().unwrap_or_else(|_| from.clone());
            let below = directory.strip_prefix(&from).ok()?;
            let inside: PathBuf = mount.to.components().chain(below.components()).collect();
            // A mount further down hides the directory.
            let is_hidden = self.mounts.iter().any(|other| {
                other.to != mount.to
                    && other.to.starts_with(&mount.to)
                    && inside.starts_with(&other.to)
            });
            (!is_hidden).then_some((from, inside))
        });
        let nearest = seen.max_by_key(|(from, _)| from.components().count());
        nearest.map(|(_, inside)| inside)
    }
}

impl Engine {
    /// Inspects a container. Errors: there is none of this name.
    pub async fn user_container(&self, name: &str) -> Result<UserContainer, EngineError> {
        let command = self.inspect_container(name);
        let answer = self.output(&command).await?;
        parse(&answer).map_err(|error| EngineError::Failed {
            command: Box::new(command),
            reason: error.to_string(),
        })
    }

    /// Returns the command that inspects a container.
    pub fn inspect_container(&self, name: &str) -> EngineCommand {
        self.command().args(["container", "inspect", "--format", INSPECT_FORMAT, name])
    }

    /// Returns the command that copies a host directory into a container directory. Root owns the
    /// copy.
    pub fn copy_into(&self, directory: &Path, name: &str, into: &str) -> EngineCommand {
        self.command().arg("cp").arg(directory).arg(format!("{name}:{into}"))
    }

    /// Returns the command that executes a program in a container, with the command's stdin if `stdio`
    /// is [`Stdio::Attached`].
    pub fn exec<S: AsRef<OsStr>>(
        &self,
        name: &str,
        user: ExecAs,
        stdio: Stdio,
        words: impl IntoIterator<Item = S>,
    ) -> EngineCommand {
        let mut command = self.command().args(["exec", "--workdir", "/"]);
        if stdio == Stdio::Attached {
            command = command.arg("--interactive");
        }
        if user == ExecAs::Root {
            command = command.args(["--user", "0"]);
        }
        command.arg(name).args(words)
    }
}

/// A format that both engines print alike; their complete outputs differ.
const INSPECT_FORMAT: &str =
    r#"{"state":{{json .State.Status}},"user":{{json .Config.User}},"mounts":{{json .Mounts}}}"#;

#[derive(Deserialize)]
struct InspectOutput {
    state: String,
    user: String,
    mounts: Option<Vec<MountInfo>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MountInfo {
    r#type: String,
    #[serde(default)]
    source: PathBuf,
    destination: PathBuf,
}

fn parse(answer: &[u8]) -> Result<UserContainer, serde_json::Error> {
    let InspectOutput { state, user, mounts } = serde_json::from_slice(answer)?;
    let mounted = |mount: MountInfo| {
        let is_bind = mount.r#type == "bind";
        MountPoint { from: is_bind.then_some(mount.source), to: mount.destination }
    };
    let mounts = mounts.unwrap_or_default().into_iter().map(mounted).collect();
    Ok(UserContainer { state, user, mounts })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSPECT_OUTPUT: &str = r#"{"state":"running","user":"node:node","mounts":[
        {"Type": "bind", "Source": "/home/me/projects", "Destination": "/src", "RW": true},
        {"Type": "bind", "Source": "/home/me/projects/it", "Destination": "/app", "RW": true},
        {"Type": "volume", "Name": "v", "Source": "/var/lib/v", "Destination": "/src/hidden"}
    ]}"#;

    #[test]
    fn parses_inspect_output() {
        let container = parse(INSPECT_OUTPUT.as_bytes()).unwrap();
        assert!(container.is_running() && !container.runs_as_root());
        let rows = [
            ("/home/me/projects/it", Some("/app")),
            ("/home/me/projects/it/sub", Some("/app/sub")),
            ("/home/me/projects/item", Some("/src/item")),
            ("/home/me/projects", Some("/src")),
            ("/home/me/projects/hidden/x", None),
            ("/home/me", None),
            ("/var/lib/v", None),
        ];
        for (directory, inside) in rows {
            let found = container.path_inside(Path::new(directory));
            assert_eq!(found.as_deref(), inside.map(Path::new), "{directory}");
        }
        let bare = parse(br#"{"state":"exited","user":"","mounts":null}"#).unwrap();
        assert!(!bare.is_running() && bare.runs_as_root());
        assert_eq!(bare.path_inside(Path::new("/home/me")), None);
    }

    #[test]
    fn recognises_root() {
        for (user, is_root) in [
            ("", true),
            ("0", true),
            ("root:x", true),
            ("0:0", true),
            ("1000", false),
            ("o", false),
        ] {
            let user = user.to_owned();
            let container = UserContainer { state: String::new(), user, mounts: Vec::new() };
            assert_eq!(container.runs_as_root(), is_root, "{container:?}");
            assert!(!container.is_running());
        }
    }
}
