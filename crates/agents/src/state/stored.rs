//! Lists and removes the states of agents.

use std::path::{Path, PathBuf};
use std::{fs, io};

use aifo_host::{recorded_root, remove_tree, states_directory};
use aifo_sidecar::ProjectKey;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use super::{LOCK, lock_file};

/// The state of an agent for one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The agent name.
    pub agent: String,
    /// The project key.
    pub key: ProjectKey,
    /// Its directory.
    pub path: PathBuf,
}

/// Reasons for which a state could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A session uses it.
    #[error("a session uses it\nhint: end that session first; `aifo-coder ps` lists it")]
    InUse,
    /// The system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Lists the states of all agents.
pub fn stored_states() -> Vec<StoredState> {
    let mut states = Vec::new();
    for agent in states_directory().iter().flat_map(|directory| directories(directory)) {
        for path in directories(&agent) {
            let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
            let key = name(&path).and_then(|key| ProjectKey::parse(&key));
            if let (Some(agent), Some(key)) = (name(&agent), key) {
                states.push(StoredState { agent, key, path });
            }
        }
    }
    states.sort_by(|one, other| (&one.agent, &one.key).cmp(&(&other.agent, &other.key)));
    states
}

fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

impl StoredState {
    /// Returns the project root; `None` if no session on this machine has recorded it.
    pub fn project(&self) -> Option<PathBuf> {
        recorded_root(&self.key)
    }

    /// Removes it. Errors: a session uses it, or it cannot be removed.
    pub fn remove(&self) -> Result<(), StateError> {
        let lock = lock_file(&self.path.join(LOCK))?;
        match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EAGAIN)) => Err(StateError::InUse),
            Err((_, error)) => Err(io::Error::from(error).into()),
            Ok(_lock) => Ok(remove_tree(&self.path)?),
        }
    }
}
