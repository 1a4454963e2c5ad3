//! Opening a mailbox: everything before the first request, or nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aifo_mailbox::{
    Claim, CommandName, Directory, OrphanFilter, PidFile, PidFileError, Watch, remove_orphans,
    served_commands,
};
use aifo_policy::HostCommands;
use aifo_sidecar::{Fleet, SidecarError};
use tokio::sync::watch;

use crate::client::Client;
use crate::mailbox::Mailbox;
use crate::request::Shared;

/// What a mailbox is opened with.
#[derive(Debug)]
pub struct MailboxConfig {
    /// Where requests are placed.
    pub directory: Directory,
    /// Where commands run; a real path.
    pub workspace: PathBuf,
    /// The commands that are served, at least one.
    pub commands: Vec<Command>,
    /// The variables of a caller that pass to its command.
    pub variables: Vec<String>,
    /// What callers find in the directory.
    pub client: Client,
    /// How long a command may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// How long commands have to finish when the daemon is told to end.
    pub grace: Duration,
}

/// A command of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it is called, in requests and in the directory.
    pub name: CommandName,
    /// What is executed; an absolute path.
    pub program: PathBuf,
}

/// Why a mailbox cannot be opened. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    /// A command is served by somebody else, or its PID file cannot be made.
    #[error(transparent)]
    PidFile(#[from] PidFileError),
    /// The directory does not take what has to be put there.
    #[error("cannot put the client of '{command}' into the directory: {source}")]
    Client {
        /// Whose client.
        command: CommandName,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be watched, or read.
    #[error("cannot watch the directory: {0}")]
    Watch(#[from] io::Error),
    /// Nothing is there to run commands.
    #[error(transparent)]
    Runner(#[from] Arc<SidecarError>),
}

impl Mailbox {
    /// Takes the commands, removes what was left, answers what a daemon before left unanswered, and puts
    /// the clients there. Then requests may come.
    pub async fn open(config: MailboxConfig, fleet: Arc<Fleet>) -> Result<Self, MailboxError> {
        let MailboxConfig { directory, workspace, commands, variables, client, max_runtime, grace } =
            config;
        let names: Vec<_> = commands.iter().map(|command| command.name.clone()).collect();
        let mut taken = Taken { directory: &directory, pid_files: Vec::new(), clients: Vec::new() };
        for name in &names {
            let pid_file = PidFile::claim(&directory, name)?;
            if let Some(pid) = &pid_file.stale {
                tracing::warn!("the PID file of '{name}' was stale (PID {pid}), replaced");
            }
            taken.pid_files.push(pid_file);
        }
        // So that the first command need not wait for it, and nobody is let in without.
        fleet.host().await?;
        let watch = Watch::new().map_err(io::Error::from)?;
        watch.watch_directory(&directory).map_err(io::Error::from)?;
        answer_lost(&directory, &names)?;
        for name in &names {
            taken.clients.push(name);
            let put = client.put(&directory, name, &workspace, &variables);
            put.map_err(|source| MailboxError::Client { command: name.clone(), source })?;
        }
        let mut allowed = HostCommands::new(variables);
        for command in commands {
            allowed.allow(command.name.tool().clone(), command.program);
        }
        let pid_files = taken.keep();
        let ending = watch::Sender::new(false);
        let shared = Shared { directory, workspace, commands: allowed, fleet, max_runtime, ending };
        Ok(Mailbox::new(Arc::new(shared), names, pid_files, watch, grace)?)
    }
}

/// What has to be taken back if the mailbox does not open.
struct Taken<'a> {
    directory: &'a Directory,
    pid_files: Vec<PidFile>,
    clients: Vec<&'a CommandName>,
}

impl Taken<'_> {
    fn keep(mut self) -> Vec<PidFile> {
        self.clients.clear();
        std::mem::take(&mut self.pid_files)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.clients.iter().for_each(|command| Client::remove(self.directory, command));
        self.pid_files.drain(..).for_each(|pid_file| pid_file.remove(self.directory));
    }
}

/// Removes what is old, and tells the clients of a daemon that was killed that nobody knows.
fn answer_lost(directory: &Directory, names: &[CommandName]) -> io::Result<()> {
    let plain = names.len() == 1 && served_commands(directory) == names;
    let filter = OrphanFilter { commands: names, plain, now: SystemTime::now() };
    for id in remove_orphans(directory, &filter)? {
        if let Err(error) = Claim::answer_lost(directory, &id) {
            tracing::warn!(request = %id, %error, "a lost request is not answered");
        }
    }
    Ok(())
}
