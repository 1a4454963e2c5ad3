//! Terminals of an ACP agent.

mod command;
mod leader;
mod tail;
mod terminal;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_acp::RpcError;
use aifo_types::exit;
use serde_json::{Value, json};
use tokio::process::Command;

pub use self::command::TerminalCommand;
use self::terminal::Terminal;
use crate::rpc::{failed, not_found, optional, refused, text};
use crate::workspace::Workspace;

/// Makes a command that runs a program in the agent's place, with these variables over those that are
/// there. Arguments, directory and streams are to be set; no value may become an argument.
pub type InPlace = Arc<dyn Fn(&OsStr, &[(String, String)]) -> io::Result<Command> + Send + Sync>;

/// Decides whether a command may run in this real directory below the workspace. The error text is for
/// the agent.
pub type TerminalJudge = Arc<dyn Fn(&TerminalCommand, &Path) -> Result<(), String> + Send + Sync>;

/// Serves `terminal/*` for one connection with an agent (`spec/acp-hosts.md#terminals`). When it goes,
/// so does all that it runs. It wants a runtime around it.
#[derive(Debug)]
pub struct Terminals {
    config: TerminalConfig,
    open: Mutex<Open>,
}

/// The configuration of terminals.
#[derive(Clone)]
pub struct TerminalConfig {
    /// Where commands may run.
    pub workspace: Arc<Workspace>,
    /// Where they do that name no directory: a path that the workspace knows.
    pub cwd: String,
    /// How they get into the agent's place.
    pub place: InPlace,
    /// Which of them run.
    pub judge: TerminalJudge,
    /// Terminals that are not released, at once. acpx and Zed have no bound.
    pub terminals: usize,
    /// Bytes of output that one keeps, whatever its agent asks for. Real ones ask for 16 000 to
    /// 50 000.
    pub output: usize,
}

#[derive(Debug, Default)]
struct Open {
    terminals: HashMap<String, Terminal>,
    made: u64,
    ended: bool,
}

/// A command on its way to a terminal.
enum Prepared {
    Denied(String),
    Command {
        child: Box<Command>,
        program: String,
        /// Open until it has started.
        _cwd: OwnedFd,
    },
}

impl TerminalConfig {
    /// One in which every command runs, with the limits as they are by default.
    pub fn new(workspace: Arc<Workspace>, cwd: impl Into<String>, place: InPlace) -> Self {
        let judge: TerminalJudge = Arc::new(|_, _| Ok(()));
        TerminalConfig { workspace, cwd: cwd.into(), place, judge, terminals: 32, output: 1 << 20 }
    }
}

impl Terminals {
    /// None so far.
    pub fn new(config: TerminalConfig) -> Self {
        Terminals { config, open: Mutex::default() }
    }

    /// `terminal/create`: answers with a `terminalId` as soon as the command has started. One that is
    /// denied, or cannot be started, is a terminal too: agents show people the JSON of an error.
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
            Prepared::Denied(reason) => Terminal::over(exit::NOT_EXECUTABLE, &reason, limit),
            Prepared::Command { child, program, .. } => Terminal::start(*child, &program, limit),
        };
        open.made += 1;
        let id = format!("terminal-{}", open.made);
        open.terminals.insert(id.clone(), terminal);
        Ok(json!({"terminalId": id}))
    }

    /// `terminal/output`: what there is by now, and how the command ended if it has.
    pub fn output(&self, params: &Value) -> Result<Value, RpcError> {
        self.with(params, Terminal::output)
    }

    /// `terminal/wait_for_exit`: waits for the command's end, and tells it as often as it is asked.
    pub async fn wait_for_exit(&self, params: &Value) -> Result<Value, RpcError> {
        let mut exit = self.with(params, Terminal::exit)?;
        let lost = |_| failed("the terminal was lost");
        let exit = exit.wait_for(Option::is_some).await.map_err(lost)?;
        Ok(exit.as_ref().map(leader::Exit::to_value).unwrap_or_default())
    }

    /// `terminal/kill`: kills what there is of the command. The terminal stays.
    pub fn kill(&self, params: &Value) -> Result<Value, RpcError> {
        self.with(params, Terminal::kill).map(|()| json!({}))
    }

    /// `terminal/release`: kills what there is of the command, and forgets the terminal. Answers when
    /// the command has ended; it does so, too, if nobody waits for that.
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
        if let Err(reason) = (self.config.judge)(&command, &real) {
            return Ok(Prepared::Denied(reason));
        }
        let mut argv = command.argv.into_iter();
        let program = argv.next().unwrap_or_default();
        let made = (self.config.place)(program.as_ref(), &command.variables);
        let mut child = made.map_err(|error| failed(format!("cannot run commands: {error}")))?;
        // The directory that was looked at, whatever has its name by now. Ours is none of its
        // business.
        child
            .args(argv)
            .current_dir(format!("/proc/self/fd/{}", cwd.as_raw_fd()))
            .env_remove("PWD");
        Ok(Prepared::Command { child: Box::new(child), program, _cwd: cwd })
    }

    fn with<T>(&self, params: &Value, ask: impl FnOnce(&Terminal) -> T) -> Result<T, RpcError> {
        let id = text(params, "terminalId")?;
        self.open().terminals.get(id).map(ask).ok_or_else(|| unknown(id))
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

/// A terminal that is not there, or not any more. Nobody's id is long.
fn unknown(id: &str) -> RpcError {
    not_found(id.get(..id.len().min(64)).unwrap_or("a terminal"))
}
