//! Lists, refreshes and removes the states of agents.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use aifo_host::{Beneath, recorded_root, remove_tree, states_directory};
use aifo_sidecar::ProjectKey;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use super::import::{Existing, import_settings};
use super::{HOME, LOCK, lock_file};
use crate::agents::AgentSpec;

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
        let _lock = self.lock()?;
        Ok(remove_tree(&self.path)?)
    }

    /// Copies the settings of the user once more, over what the agent has changed in them. Returns a line for
    /// each file. Errors: a session uses it, or it cannot be written.
    pub fn refresh(&self, spec: &AgentSpec, home: &Path) -> Result<Vec<String>, StateError> {
        let _lock = self.lock()?;
        let (users, own) = (Beneath::open(home)?, Beneath::open(&self.path.join(HOME))?);
        let mut lines = Vec::new();
        for file in &spec.import {
            let imported = import_settings(file, &users, &own, Existing::Refreshed)?;
            lines.extend(imported.text().or_else(|| imported.skipped()));
        }
        Ok(lines)
    }

    fn lock(&self) -> Result<Flock<File>, StateError> {
        let lock = lock_file(&self.path.join(LOCK))?;
        Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
            Errno::EAGAIN => StateError::InUse,
            error => StateError::System(error.into()),
        })
    }
}
