//! Opens a mailbox; a failure removes everything that was created.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aifo_policy::HostCommands;
use aifo_sidecar::{Fleet, SidecarError};
use tokio::sync::watch;

use crate::approval::CallApprovals;
use crate::mailbox::changes::Changes;
use crate::mailbox::client::{put_client, remove_client};
use crate::mailbox::daemon::Mailbox;
use crate::mailbox::files::{
    Claim, CommandName, Directory, OrphanFilter, PidFile, PidFileError, remove_orphans,
    served_commands,
};
use crate::mailbox::request::MailboxState;

/// A mailbox configuration.
#[derive(Debug)]
pub struct MailboxConfig {
    /// The directory of requests.
    pub directory: Directory,
    /// The directory in which commands run; a real path.
    pub workspace: PathBuf,
    /// The served commands, at least one.
    pub commands: Vec<ServedCommand>,
    /// Names of the caller's variables that pass to its command.
    pub variables: Vec<String>,
    /// The verdicts on calls, and the calls that wait for approval.
    pub approvals: CallApprovals,
    /// The time limit of a command; `None` for no limit.
    pub max_runtime: Option<Duration>,
    /// The grace period of running commands when the daemon stops.
    pub grace: Duration,
}

/// A command of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCommand {
    /// The name in requests and in the directory.
    pub name: CommandName,
    /// The program; an absolute path.
    pub program: PathBuf,
}

/// Why a mailbox cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    /// Another daemon serves a command, or its PID file cannot be created.
    #[error(transparent)]
    PidFile(#[from] PidFileError),
    /// A client cannot be created in the directory.
    #[error("cannot create the client of '{command}' in the directory: {source}")]
    Client {
        /// The command name.
        command: CommandName,
        /// The system's error.
        source: io::Error,
    },
    /// The directory cannot be read.
    #[error("cannot read the directory: {0}")]
    Directory(#[from] io::Error),
    /// The runner could not be started.
    #[error(transparent)]
    Runner(#[from] Arc<SidecarError>),
}

impl Mailbox {
    /// Locks the commands, removes old files, answers requests that a previous daemon left, and creates
    /// the clients.
    pub async fn open(config: MailboxConfig, fleet: Arc<Fleet>) -> Result<Self, MailboxError> {
        let MailboxConfig {
            directory,
            workspace,
            commands,
            variables,
            approvals,
            max_runtime,
            grace,
        } = config;
        let names: Vec<_> = commands.iter().map(|command| command.name.clone()).collect();
        let mut taken = Taken { directory: &directory, pid_files: Vec::new(), clients: Vec::new() };
        for name in &names {
            let pid_file = PidFile::claim(&directory, name)?;
            if let Some(pid) = &pid_file.stale {
                tracing::warn!("the PID file of '{name}' was stale (PID {pid}), replaced");
            }
            taken.pid_files.push(pid_file);
        }
        // Started now, so that the first command does not wait, and a failure prevents opening.
        fleet.host().await?;
        // Before the directory is read, so no request is missed.
        let changes = Changes::of(&directory);
        answer_lost(&directory, &names)?;
        for name in &names {
            taken.clients.push(name);
            let put = put_client(&directory, name, &workspace, &variables);
            put.map_err(|source| MailboxError::Client { command: name.clone(), source })?;
        }
        let mut allowed = HostCommands::new(variables);
        for command in commands {
            allowed.allow(command.name.tool().clone(), command.program);
        }
        let pid_files = taken.keep();
        let ending = watch::Sender::new(false);
        let shared = MailboxState {
            directory,
            workspace,
            commands: allowed,
            fleet,
            approvals,
            max_runtime,
            ending,
        };
        Ok(Mailbox::new(Arc::new(shared), names, pid_files, changes, grace))
    }
}

/// Undoes the opening on a failure.
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
        self.clients.iter().for_each(|command| remove_client(self.directory, command));
        self.pid_files.drain(..).for_each(|pid_file| pid_file.remove(self.directory));
    }
}

/// Removes old files, and answers requests of a killed daemon with an unknown result.
fn answer_lost(directory: &Directory, names: &[CommandName]) -> io::Result<()> {
    let plain = names.len() == 1 && served_commands(directory) == names;
    let filter = OrphanFilter { commands: names, plain, now: SystemTime::now() };
    for id in remove_orphans(directory, &filter)? {
        if let Err(error) = Claim::answer_lost(directory, &id) {
            tracing::warn!(request = %id, %error, "cannot answer a lost request");
        }
    }
    Ok(())
}
