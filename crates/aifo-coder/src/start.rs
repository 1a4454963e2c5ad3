//! Starts a session, or prints its engine commands.

use std::io::IsTerminal;
use std::process::ExitCode;

use aifo_agents::trusted_programs_here;
use aifo_host::{EndSignals, remove_killed_sessions};
use aifo_launch::{Session, SessionConfig};
use aifo_terminal::console::{self, PROGRESS};
use aifo_terminal::paint;
use aifo_types::Ending;

use crate::progress;

/// The exit code of a command that this signal ended.
pub(crate) fn signal_exit_code(signal: u8) -> ExitCode {
    ExitCode::from(Ending::Signaled(signal).exit_code())
}

/// A running session, or the number of the signal that cancelled its start.
pub(crate) enum Started {
    Running(Box<Session>),
    Cancelled(u8),
}

/// Removes what killed sessions left, then starts a session. A signal cancels the start and removes
/// what has been started.
pub(crate) async fn start(
    mut config: SessionConfig,
    signals: &mut EndSignals,
) -> anyhow::Result<Started> {
    config.reporter = progress::reporter(config.starts());
    let killed = tokio::select! {
        killed = remove_killed_sessions(trusted_programs_here) => killed,
        signal = signals.recv() => return Ok(Started::Cancelled(signal)),
    };
    if !killed.removed.is_empty() {
        let removed = sessions_named(&killed.removed);
        tracing::info!(target: PROGRESS, "removed what {removed} left");
    }
    if !killed.kept.is_empty() {
        tracing::warn!(
            "{} left files or containers, some still in use; run 'aifo-coder clean'",
            sessions_named(&killed.kept)
        );
    }
    let started = Session::start_or_cancel(config, signals.recv()).await;
    console::set_status("");
    Ok(match started? {
        Ok(session) => {
            if let Some(notice) = session.state_notice() {
                tracing::info!(target: PROGRESS, "{notice}");
            }
            for (address, port) in session.published() {
                tracing::info!(target: PROGRESS, "{address} reaches port {port} of the tools");
            }
            Started::Running(Box::new(session))
        }
        Err(signal) => Started::Cancelled(signal),
    })
}

/// Prints the engine commands of a session with this configuration.
pub(crate) async fn show_plan(config: &SessionConfig) -> anyhow::Result<ExitCode> {
    let commands = aifo_launch::plan(config).await?;
    if commands.is_empty() {
        console::say("no engine needed: tools run as processes of this machine");
    }
    let in_lines = std::io::stdout().is_terminal();
    let text = commands.iter().map(|command| match in_lines {
        true => format!("{command:#}\n"),
        false => format!("{command}\n"),
    });
    paint::print(&text.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// `killed session 5d0c3b7f9a21e846`, or `3 killed sessions`.
fn sessions_named(ids: &[String]) -> String {
    match ids {
        [id] => format!("killed session {id}"),
        ids => format!("{} killed sessions", ids.len()),
    }
}
