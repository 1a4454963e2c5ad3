//! `aifo-coder`: runs coding agents apart from their tools.
//!
//! Turns configuration files, environment and flags into a session configuration.
//! `aifo-launch` runs the session.

// Output goes through `console` and `paint`, which escape it for terminals.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod acp;
mod agents;
mod approve;
mod banner;
mod cache;
mod choice;
mod clean;
mod cli;
mod completions;
mod config_command;
mod doctor;
mod engines;
mod exec;
mod held;
mod history;
mod image_dialogue;
mod images;
mod in_pod;
mod kube;
mod log;
mod logging;
mod logout;
mod mailbox;
mod man;
mod net;
mod policy;
mod progress;
mod publish;
mod removals;
mod run;
mod serve;
mod session_log;
mod sessions;
mod settings;
mod setup;
mod start;
mod state;
mod stop;
#[cfg(feature = "web")]
mod web;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use aifo_config::{ConfigError, SessionError, UsageError};
use aifo_process::SignalSet;
use aifo_terminal::{console, guard_process};
use aifo_types::exit;
use tokio::signal::unix::SignalKind;

use crate::cli::Command;

fn main() -> ExitCode {
    if let Some(code) = internal_process() {
        return code;
    }
    let cli = cli::parse();
    let (ended, code) = match cli.command {
        Command::Run(flags) => (block_on_and_reap(|| run::run(*flags.0)), exit::NOTHING_RAN),
        Command::Prompt(flags) => (block_on_and_reap(|| acp::prompt(*flags.0)), exit::NOTHING_RAN),
        Command::Acp(flags) => (acp::acp(*flags.0), exit::NOTHING_RAN),
        #[cfg(feature = "web")]
        Command::Web(flags) => (block_on_and_reap(|| web::web(*flags.0)), exit::NOTHING_RAN),
        Command::Agents(flags) => (block_on(agents::list(&flags)), UNANSWERED),
        Command::Setup(flags) => (block_on(setup::setup(&flags)), UNANSWERED),
        Command::Images(flags) => (block_on(images::run(&flags.command)), UNANSWERED),
        Command::Kube(flags) => (block_on(kube::run(*flags.0)), UNANSWERED),
        Command::Serve(flags) => (block_on(serve::serve(*flags.0)), exit::NOTHING_RAN),
        Command::Exec(flags) => (block_on(exec::exec(*flags.0)), exit::NOTHING_RAN),
        Command::Mailbox(flags) => (block_on(mailbox::mailbox(*flags.0)), exit::NOTHING_RAN),
        Command::Why(flags) => (block_on(why::why(&flags)), UNANSWERED),
        Command::Log(flags) => (block_on(log::log(&flags)), UNANSWERED),
        Command::Changes(flags) => (block_on(history::changes(&flags)), UNANSWERED),
        Command::Undo(flags) => (block_on(history::undo(&flags)), UNANSWERED),
        Command::Net(flags) => (block_on(net::run(&flags)), UNANSWERED),
        Command::Ps(flags) => {
            let ended = match &flags.complete {
                Some(query) => block_on(completions::answer(query)),
                None => block_on(sessions::list(&flags)),
            };
            (ended, UNANSWERED)
        }
        Command::Attach(flags) => (block_on(held::attach(&flags)), UNANSWERED),
        Command::Detach(flags) => (block_on(held::detach(&flags)), UNANSWERED),
        Command::Approve(flags) => (block_on(approve::approve(&flags)), UNANSWERED),
        Command::Publish(flags) => (block_on(publish::publish(&flags)), UNANSWERED),
        Command::Stop(flags) => (block_on(stop::stop(&flags)), UNANSWERED),
        Command::Clean(flags) => (block_on(clean::clean(&flags)), UNANSWERED),
        Command::Cache(flags) => (block_on(cache::run(&flags.command)), UNANSWERED),
        Command::State(flags) => (block_on(state::run(&flags.command)), UNANSWERED),
        Command::Doctor(flags) => (block_on(doctor::doctor(&flags)), UNANSWERED),
        Command::Policy(flags) => (policy::run(&flags.command), UNANSWERED),
        Command::Config(flags) => (config_command::run(&flags.command), UNANSWERED),
        Command::Completions(flags) => (completions::print(flags.shell), UNANSWERED),
        Command::Man(flags) => (man::write(&flags.directory), UNANSWERED),
    };
    ended.unwrap_or_else(|error| {
        console::fail(&error);
        ExitCode::from(code_of(&error, code))
    })
}

/// Runs a process that this program starts of itself, if the command line is one's.
fn internal_process() -> Option<ExitCode> {
    let line: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (first, rest) = line.split_first()?;
    let ended = guard_process(first)
        .map(|ended| Ok(ended.map(|()| ExitCode::SUCCESS)?))
        .or_else(|| held::process(first, rest))
        .or_else(|| aifo_kube::in_pod::process(first, rest))?;
    Some(ended.unwrap_or_else(|error| {
        console::fail(&error);
        ExitCode::FAILURE
    }))
}

/// The exit code for an error: 2 for a wrong command line, else `otherwise`.
pub(crate) fn code_of(error: &anyhow::Error, otherwise: u8) -> u8 {
    let wrong_usage = error.downcast_ref().is_some_and(ConfigError::is_usage)
        || error.downcast_ref().is_some_and(SessionError::is_usage)
        || error.downcast_ref::<UsageError>().is_some();
    if wrong_usage { USAGE } else { otherwise }
}

/// Runs on a single-threaded runtime: many waits, little work.
pub(crate) fn block_on(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    // Set before the first free: this process is idle between tool calls.
    aifo_process::give_back_freed_memory();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Like [`block_on`], in another thread, which starts all children. Meanwhile this thread, the first one, reaps
/// the orphans of an agent on this machine that the process adopts.
pub(crate) fn block_on_and_reap<F>(work: impl FnOnce() -> F + Send) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
    let (child_ended, child_ends) = std::sync::mpsc::channel();
    let run = move || {
        block_on(async {
            let mut signals = tokio::signal::unix::signal(SignalKind::child())?;
            let reports = async {
                while signals.recv().await.is_some() && child_ended.send(()).is_ok() {}
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = work() => ended,
                () = reports => Ok(ExitCode::FAILURE),
            }
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("session".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, run)?;
        // Signals are the session's: of a held one, only its client's descriptor receives them.
        SignalSet::from_bits(!0).block()?;
        while child_ends.recv().is_ok() {
            aifo_process::reap_children_of_thread();
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The stack of the thread that runs a session; as large as that of a process.
const STACK: usize = 8 << 20;

/// Exit code: a query command failed.
const UNANSWERED: u8 = 1;
/// Exit code: wrong command line, as clap's.
const USAGE: u8 = 2;
