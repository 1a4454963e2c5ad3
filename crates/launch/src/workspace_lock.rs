//! Lock that admits one agent per workspace.

use std::fs::File;
use std::path::Path;

use aifo_host::{WorkspaceError, real_directory, running_sessions};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::error::LaunchError;

/// Lock on a workspace directory. The kernel releases it when the launcher ends.
#[derive(Debug)]
pub struct WorkspaceLock {
    /// `None` where the file system has no locks, as some network file systems.
    _lock: Option<Flock<File>>,
}

impl WorkspaceLock {
    /// Locks the workspace. Errors: it cannot be opened, or another agent has it.
    pub fn acquire(workspace: &Path) -> Result<Self, LaunchError> {
        let workspace = real_directory(workspace)?;
        let directory = File::open(&workspace)
            .map_err(|source| WorkspaceError::NotADirectory { path: workspace.clone(), source })?;
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(WorkspaceLock { _lock: Some(lock) }),
            Err((_, Errno::EAGAIN)) => Err(locked_by_other(&workspace)),
            Err(_) => Ok(WorkspaceLock { _lock: None }),
        }
    }
}

fn locked_by_other(workspace: &Path) -> LaunchError {
    let sessions = running_sessions().into_iter();
    let mut holders = sessions.filter(|session| session.workspace == workspace);
    let holder = holders.find_map(|session| Some((session.agent.clone()?, session)));
    LaunchError::WorkspaceLocked {
        workspace: workspace.to_owned(),
        holder: match holder {
            Some((agent, session)) => format!("{agent}, session {}", session.id),
            None => "another program".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_fails() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let lock = WorkspaceLock::acquire(directory).unwrap();
        let error = WorkspaceLock::acquire(directory).unwrap_err();
        assert!(matches!(error, LaunchError::WorkspaceLocked { .. }), "{error}");
        drop(lock);
        WorkspaceLock::acquire(directory).unwrap();
    }
}
