//! Terminals of an ACP agent.

mod command;
mod leader;
mod terminal;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_acp::RpcError;
use aifo_process::{descriptor_path, file_id};
use aifo_types::{FileId, exit};
use serde_json::{Value, json};
use tokio::process::Command;

pub use self::command::TerminalCommand;
use self::terminal::{Terminal, WaitingCommand, exit_value};
use crate::rpc::{failed, not_found, optional, refused, text};
use crate::workspace::Workspace;

/// Builds a command that runs a program where the agent runs, with these variables added to its
/// environment. The caller sets arguments, directory and streams. No variable's value may become an
/// argument, which other users can read.
pub type CommandBuilder =
    Arc<dyn Fn(&OsStr, &[(String, String)]) -> io::Result<Command> + Send + Sync>;

/// Decides whether a command may run in this real directory below the workspace.
pub type TerminalJudge =
    Arc<dyn Fn(&TerminalCommand, (&Path, FileId)) -> TerminalVerdict + Send + Sync>;

/// The verdict on a terminal's command.
pub enum TerminalVerdict {
    /// It runs at once.
    Run {
        /// True if it runs without network.
        no_network: bool,
    },
    /// It runs once it is approved.
    Wait {
        /// The line for the agent.
        notice: String,
        /// The approval. Dropping it ends the wait.
        approval: Approval,
        /// True if it then runs without network.
        no_network: bool,
    },
    /// It does not run, for this reason, which is for the agent.
    Denied(String),
}

/// The wait for an approval. Errors: the command does not run, for this reason.
pub type Approval = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Serves `terminal/*` for one connection with an agent (`spec/acp-hosts.md#terminals`). Needs a tokio
/// runtime. Dropping it kills its commands.
#[derive(Debug)]
pub struct Terminals {
    config: TerminalConfig,
    open: Mutex<Open>,
}

/// The configuration of terminals.
#[derive(Clone)]
pub struct TerminalConfig {
    /// The workspace in which commands may run.
    pub workspace: Arc<Workspace>,
    /// The default directory: a path in the workspace.
    pub cwd: String,
    /// Builds the commands.
    pub builder: CommandBuilder,
    /// Decides which commands run.
    pub judge: TerminalJudge,
    /// The program and its first arguments that run a command without network.
    pub without_network: [String; 2],
    /// Maximum number of unreleased terminals. acpx and Zed have none.
    pub terminals: usize,
    /// Maximum bytes kept of a terminal output. Agents request 16 000 to 50 000.
    pub output: usize,
}

#[derive(Debug, Default)]
struct Open {
    terminals: HashMap<String, Terminal>,
    created: u64,
    ended: bool,
}

/// A command that was checked for a terminal.
enum Prepared {
    Denied(String),
    Command {
        child: Box<Command>,
        program: String,
        /// Open until the command has started.
        cwd: OwnedFd,
        /// The notice for the agent and the approval, if the command must wait for one.
        wait: Option<(String, Approval)>,
    },
}

impl TerminalConfig {
    /// Returns a configuration that permits every command, with the default limits.
    pub fn new(workspace: Arc<Workspace>, cwd: impl Into<String>, builder: CommandBuilder) -> Self {
        let judge: TerminalJudge = Arc::new(|_, _| TerminalVerdict::Run { no_network: false });
        TerminalConfig {
            workspace,
            cwd: cwd.into(),
            builder,
            judge,
            without_network: ["aifo-shim", "--without-network"].map(str::to_owned),
            terminals: 32,
            output: 1 << 20,
        }
    }
}

impl Terminals {
    /// Creates the host without terminals.
    pub fn new(config: TerminalConfig) -> Self {
        Terminals { config, open: Mutex::default() }
    }

    /// `terminal/create`: returns a `terminalId` once the command has started or waits for approval. A denied
    /// command, or one
    /// that cannot be started, gets an ended terminal: agents show the JSON of an error to their users.
    pub fn create(&self, params: &Value) -> Result<Value, RpcError> {
        let command = TerminalCommand::parse(params, &self.config.cwd)?;
        let prepared = self.prepare(command)?;
        let limit = optional(params, "outputByteLimit").and_then(Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(usize::MAX).min(self.config.output);
        let mut open = self.open();
        if open.ended {
            return Err(failed("the connection is closed"));
        }
        if open.terminals.len() >= self.config.terminals {
            let most = self.config.terminals;
            return Err(failed(format!("{most} terminals are open, and no more: release one")));
        }
        let terminal = match prepared {
            Prepared::Denied(reason) => Terminal::ended(exit::NOT_EXECUTABLE, &reason, limit),
            Prepared::Command { child, program, wait: None, .. } => {
                Terminal::start(*child, &program, limit)
            }
            Prepared::Command { child, program, cwd, wait: Some((notice, approval)) } => {
                let waiting = WaitingCommand { approval, command: *child, program, cwd };
                Terminal::waiting(waiting, &notice, limit)
            }
        };
        open.created += 1;
        let id = format!("terminal-{}", open.created);
        open.terminals.insert(id.clone(), terminal);
        Ok(json!({"terminalId": id}))
    }

    /// `terminal/output`: returns the output so far, and the exit status if the command has ended.
    pub fn output(&self, params: &Value) -> Result<Value, RpcError> {
        self.with(params, Terminal::output)
    }

    /// `terminal/wait_for_exit`: waits for the command's exit and returns the status; may be repeated.
    pub async fn wait_for_exit(&self, params: &Value) -> Result<Value, RpcError> {
        let mut exit = self.with(params, Terminal::exit)?;
        let lost = |_| failed("the terminal was lost");
        let exit = exit.wait_for(Option::is_some).await.map_err(lost)?;
        Ok(exit.map(exit_value).unwrap_or_default())
    }

    /// `terminal/kill`: kills the command's process group. The terminal remains.
    pub fn kill(&self, params: &Value) -> Result<Value, RpcError> {
        self.with(params, Terminal::kill).map(|()| json!({}))
    }

    /// `terminal/release`: kills the command's process group, removes the terminal, and returns when the
    /// command has ended. It ends even if this future is dropped.
    pub async fn release(&self, params: &Value) -> Result<Value, RpcError> {
        let id = text(params, "terminalId")?;
        let terminal = self.open().terminals.remove(id).ok_or_else(|| unknown(id))?;
        terminal.end().await;
        Ok(json!({}))
    }

    /// Ends all terminals and waits for them. No more can be created.
    pub async fn end_all(&self) {
        let terminals = {
            let mut open = self.open();
            open.ended = true;
            std::mem::take(&mut open.terminals)
        };
        terminals.values().for_each(Terminal::kill);
        for terminal in terminals.into_values() {
            terminal.end().await;
        }
    }

    /// Builds the child, or returns why it cannot run.
    fn prepare(&self, command: TerminalCommand) -> Result<Prepared, RpcError> {
        let cwd = self.config.workspace.directory(&command.cwd)?;
        let real = self.config.workspace.real_path(cwd.as_fd());
        let real = real.map_err(|errno| refused(&command.cwd, errno))?;
        let id = file_id(&cwd).map_err(|errno| refused(&command.cwd, errno))?;
        let (wait, no_network) = match (self.config.judge)(&command, (&real, id)) {
            TerminalVerdict::Run { no_network } => (None, no_network),
            TerminalVerdict::Wait { notice, approval, no_network } => {
                (Some((notice, approval)), no_network)
            }
            TerminalVerdict::Denied(reason) => return Ok(Prepared::Denied(reason)),
        };
        let wrapper = self.config.without_network.iter().filter(|_| no_network).cloned();
        let mut argv = wrapper.chain(command.argv);
        let program = argv.next().unwrap_or_default();
        let built = (self.config.builder)(program.as_ref(), &command.variables);
        let mut child = built.map_err(|error| failed(format!("cannot run commands: {error}")))?;
        // The checked directory, even if it was renamed or replaced since. aifo's own PWD is dropped.
        child.args(argv).current_dir(descriptor_path(&cwd)).env_remove("PWD");
        Ok(Prepared::Command { child: Box::new(child), program, cwd, wait })
    }

    fn with<T>(&self, params: &Value, call: impl FnOnce(&Terminal) -> T) -> Result<T, RpcError> {
        let id = text(params, "terminalId")?;
        self.open().terminals.get(id).map(call).ok_or_else(|| unknown(id))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TerminalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TerminalConfig { workspace, cwd, terminals, output, .. } = self;
        f.debug_struct("TerminalConfig")
            .field("workspace", workspace)
            .field("cwd", cwd)
            .field("terminals", terminals)
            .field("output", output)
            .finish_non_exhaustive()
    }
}

/// Returns the error for an unknown terminal. Ids that this host made are short.
fn unknown(id: &str) -> RpcError {
    not_found(id.get(..id.len().min(64)).unwrap_or("a terminal"))
}
