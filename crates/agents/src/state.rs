//! State of agents between sessions: a copy of their own for each project, or the user's
//! (`spec/agents.md#state`).

mod credential;
mod document;
mod import;
mod phantoms;
mod stored;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aifo_host::{Beneath, DirectoryError, Project, states_directory};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use tokio::task::JoinSet;

use self::credential::{Credential, Moment};
use self::import::{Existing, Imported, import_conversations, import_settings};
use self::phantoms::Phantoms;
pub use self::stored::{StateError, StoredState, stored_states};
use crate::agent_container::AgentContainerConfig;
use crate::agent_error::AgentError;
use crate::agents::{StateImport, StateMode};

/// The place of an agent state for one project.
#[derive(Clone, Debug)]
pub struct StatePlace {
    /// The directory of the agent and the project.
    directory: PathBuf,
}

/// The state of a running session. Dropping it copies the credentials a last time.
#[derive(Debug)]
pub struct OpenState {
    place: StatePlace,
    /// `None` if nothing was imported now.
    notice: Option<String>,
    credential: Option<Arc<Credential>>,
    watch: JoinSet<()>,
    /// Shared by the sessions that use this state; removal takes it exclusively.
    _lock: Option<Flock<File>>,
}

impl StatePlace {
    /// Returns the place of an agent's own state; `None` if it has none or works with the user's.
    pub fn of(agent: &AgentContainerConfig, workspace: &Path) -> Option<Self> {
        if agent.state == StateMode::Host || agent.home.is_none() || agent.spec.state.is_empty() {
            return None;
        }
        let key = Project::of(workspace).key();
        let directory = states_directory()?.join(&agent.spec.name).join(key.as_str());
        Some(StatePlace { directory })
    }

    /// Returns the directory that stands for the user's home.
    pub fn home(&self) -> PathBuf {
        self.directory.join(HOME)
    }

    /// Creates or opens the state: imports settings on first use, then copies the newer login.
    fn open(self, agent: &AgentContainerConfig) -> Result<OpenState, AgentError> {
        let opened = self.open_in(agent);
        Ok(opened.map_err(|source| DirectoryError::new(&self.directory, source))?)
    }

    fn open_in(&self, agent: &AgentContainerConfig) -> io::Result<OpenState> {
        let home = self.home();
        DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
        let lock = lock_file(&self.directory.join(LOCK))?;
        let lock = lock_within(lock, FlockArg::LockSharedNonblock)?;
        let own = Beneath::open(&home)?;
        for directory in agent.spec.state.iter().chain(agent.spec.private_in_state()) {
            own.create_directory(directory)?;
        }
        let users = agent.home.as_deref().map(Beneath::open).transpose()?;
        let users = users.ok_or(io::ErrorKind::NotFound)?;
        let notice = self.import(agent, &users, &own)?;
        let rows = agent.spec.keys.iter().filter_map(|row| row.login.as_ref());
        let keys = agent.keys.as_ref().map(|keys| keys.of_login().to_vec()).unwrap_or_default();
        let pointers = rows.map(|login| login.pointer.clone()).collect();
        let phantoms = Phantoms::new(pointers, keys, self.directory.join(PHANTOMS));
        let credential = agent.spec.credentials.clone().map(|file| {
            let agent = self.directory.parent().unwrap_or(&self.directory);
            let synced = self.directory.join(SYNCED);
            Arc::new(Credential::new(file, users, own, agent.join(LOCK), synced, phantoms))
        });
        if let Some(credential) = &credential {
            credential.sync_or_warn(Moment::Start);
        }
        Ok(OpenState {
            place: self.clone(),
            notice,
            credential,
            watch: JoinSet::new(),
            _lock: lock,
        })
    }

    /// Imports settings on first use, and conversations once. Returns the line for the user.
    fn import(
        &self,
        agent: &AgentContainerConfig,
        users: &Beneath,
        own: &Beneath,
    ) -> io::Result<Option<String>> {
        let mut imported = Vec::new();
        let [settings, conversations] =
            [SETTINGS_IMPORTED, CONVERSATIONS_IMPORTED].map(|name| self.directory.join(name));
        let is_new = !settings.exists();
        if is_new {
            for file in &agent.spec.import {
                imported.push(import_settings(file, users, own, Existing::Kept)?);
            }
            fs::write(&settings, "")?;
        }
        if agent.state_import == StateImport::Conversations && !conversations.exists() {
            for path in &agent.spec.conversations {
                imported.push(import_conversations(path, users, own)?);
            }
            fs::write(&conversations, "")?;
        }
        let texts = imported.iter().filter_map(Imported::text).collect::<Vec<_>>();
        let skipped = imported.iter().filter_map(Imported::skipped).collect::<Vec<_>>();
        for reason in skipped {
            tracing::warn!("{reason}");
        }
        if !is_new && texts.is_empty() {
            return Ok(None);
        }
        let what = if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") };
        let name = &agent.spec.name;
        let has_left_out = imported.iter().any(|it| matches!(it, Imported::Part(..)));
        let why = match has_left_out {
            true => "; what can start a program is left out, and what aifo does not know",
            false => "",
        };
        Ok(Some(format!(
            "{name} has a state of its own in this project, '{}'; imported: {what}{why}; {name} on this \
             machine does not see its sessions; to take later changes of yours: aifo-coder state refresh \
             {name}; to mount your own state instead: --state host",
            self.directory.display()
        )))
    }
}

impl OpenState {
    /// Opens the agent's own state, if it has one, and watches its login. Must be called on a tokio
    /// runtime.
    pub fn of(
        agent: Option<&AgentContainerConfig>,
        workspace: &Path,
    ) -> Result<Option<Self>, AgentError> {
        let place = agent.and_then(|agent| Some((agent, StatePlace::of(agent, workspace)?)));
        let Some((agent, place)) = place else { return Ok(None) };
        let mut state = place.open(agent)?;
        state.watch();
        Ok(Some(state))
    }

    /// Returns the directory that stands for the user's home.
    pub fn home(&self) -> PathBuf {
        self.place.home()
    }

    /// Returns the line about the import; `None` if nothing was imported now.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Copies the login from now on whenever one side changes.
    fn watch(&mut self) {
        let Some(credential) = self.credential.clone() else { return };
        self.watch.spawn(async move {
            let mut ticks = tokio::time::interval(POLL);
            loop {
                ticks.tick().await;
                credential.poll();
            }
        });
    }
}

impl Drop for OpenState {
    fn drop(&mut self) {
        self.watch.abort_all();
        if let Some(credential) = &self.credential {
            credential.sync_or_warn(Moment::End);
        }
    }
}

/// Opens a lock file, which is created if it is missing.
fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Locks a file; waits for [`LOCK_TIME`] while another process has it. `None` where the file system
/// has no locks, as some network file systems.
fn lock_within(mut file: File, how: FlockArg) -> io::Result<Option<Flock<File>>> {
    let deadline = std::time::Instant::now() + LOCK_TIME;
    loop {
        match Flock::lock(file, how) {
            Ok(lock) => return Ok(Some(lock)),
            Err((_, error)) if !matches!(error, Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err((_, error)) if std::time::Instant::now() > deadline => return Err(error.into()),
            Err((back, _)) => file = back,
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Names below the directory of an agent and project. The container only mounts from `home`.
const HOME: &str = "home";
const LOCK: &str = "lock";
/// The hash of the login that both sides had last.
const SYNCED: &str = "synced";
const PHANTOMS: &str = "phantoms";
const SETTINGS_IMPORTED: &str = "settings-imported";
const CONVERSATIONS_IMPORTED: &str = "conversations-imported";

/// The interval at which both copies of a login are inspected: two `fstat`, no reads.
const POLL: Duration = Duration::from_secs(1);
/// Holders copy a small file.
const LOCK_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
