//! The pod that the launcher runs in, beside its sidecars (`spec/kubernetes.md`).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use aifo_types::{container_path, env};

use crate::session_dir::is_session_id;

/// A session in a pod: its id, and the directories that the launcher shares with the other containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSession {
    id: String,
    directory: PathBuf,
    _end: Arc<EndMarker>,
}

/// Marks the end of the launcher when it is dropped, for runners that still wait for it.
#[derive(Debug, PartialEq, Eq)]
struct EndMarker {
    sockets: PathBuf,
}

impl Drop for EndMarker {
    fn drop(&mut self) {
        for directory in fs::read_dir(&self.sockets).into_iter().flatten().flatten() {
            // Without it, the runner waits until its own time limit.
            let _ = fs::write(directory.path().join(container_path::LAUNCHER_ENDED), "");
        }
    }
}

/// Why the launcher is not in a pod.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// A variable is missing or invalid.
    #[error(
        "the variable '{}' has no id of a session\n\
         hint: the backend 'pod' is for pods of `aifo-coder kube render`",
        env::POD_SESSION
    )]
    NoSession,
    /// A directory is missing.
    #[error(
        "'{}' is not a directory\n\
         hint: the backend 'pod' is for pods of `aifo-coder kube render`",
        .0.display()
    )]
    NoDirectory(PathBuf),
}

impl PodSession {
    /// Returns the pod of this process. Errors: it is in none.
    pub fn of_environment() -> Result<Self, PodError> {
        let id = std::env::var(env::POD_SESSION).ok().filter(|id| is_session_id(id));
        PodSession::new(id.ok_or(PodError::NoSession)?, container_path::POD_DIR.into())
    }

    fn new(id: String, directory: PathBuf) -> Result<Self, PodError> {
        let end = Arc::new(EndMarker { sockets: directory.join(SOCKETS) });
        let session = PodSession { id, directory, _end: end };
        for directory in [session.frontend(), session.sockets(), session.tmp()] {
            if !directory.is_dir() {
                return Err(PodError::NoDirectory(directory));
            }
        }
        Ok(session)
    }

    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the directory of the proxy socket, which only the agent container has too.
    pub fn frontend(&self) -> PathBuf {
        self.directory.join("front")
    }

    /// Returns the directory with one for the socket of each runner, which only its container has too.
    pub fn sockets(&self) -> PathBuf {
        self.directory.join(SOCKETS)
    }

    /// Returns the temporary directory of agent and tools.
    pub fn tmp(&self) -> PathBuf {
        self.directory.join("tmp")
    }
}

const SOCKETS: &str = "back";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_all_its_directories_and_its_end_is_marked() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["front", "back", "tmp"] {
            let error = PodSession::new("x".to_owned(), directory.path().into()).unwrap_err();
            let missing = directory.path().join(name);
            assert!(matches!(&error, PodError::NoDirectory(path) if *path == missing), "{error}");
            fs::create_dir(missing).unwrap();
        }
        let sockets = directory.path().join("back/rust");
        fs::create_dir(&sockets).unwrap();
        let session = PodSession::new("x".to_owned(), directory.path().into()).unwrap();
        let ended = sockets.join(container_path::LAUNCHER_ENDED);
        drop(session.clone());
        assert!(!ended.exists());
        drop(session);
        assert!(ended.exists(), "a runner that still waits learns of the end");
    }
}
