//! `aifo-coder prompt`: runs one prompt non-interactively (`spec/acp-commands.md#prompt`).

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;

use aifo_acp::{CancelCause, Config, Limits, StopReason, TurnEnd};
use aifo_acp_io::{AgentConnection, agent_failure};
use aifo_host::EndSignals;
use aifo_launch::acp::{PromptEnd, PromptRequest, PromptRun, describe, process_limits, streaming};
use aifo_terminal::console;
use aifo_types::{Ending, exit};
use anyhow::{Context, bail};

use crate::acp::agent_session::{Prepared, prepare};
use crate::acp::output::Output;
use crate::acp::pod;
use crate::acp::resume::SavedSessions;
use crate::cli::Prompt;
use crate::start::signal_exit_code;

pub(crate) async fn prompt(flags: Prompt) -> anyhow::Result<ExitCode> {
    if let Some(config) = pod::selected(&flags.agent)? {
        return pod::prompt(flags, config).await;
    }
    let (agent, text) = flags.split()?;
    let text = match text {
        Some(text) if text != "-" => text.to_owned(),
        _ => read_stdin()?,
    };
    let agent = agent.map(str::to_owned);
    let mut signals = EndSignals::listen()?;
    let (format, timeout, resume) = (flags.format, flags.timeout, flags.resume);
    let (idle, fail_on_denied) = (flags.idle_timeout, flags.fail_on_denied);
    let is_quiet = flags.agent.session.quiet;
    let (agent_session, guard) = match prepare(flags.agent, agent.as_deref(), &mut signals).await? {
        Prepared::Ready(agent_session, guard) => (*agent_session, guard),
        Prepared::DryRun => return Ok(ExitCode::SUCCESS),
        Prepared::Cancelled(signal) => return Ok(signal_exit_code(signal)),
    };
    let sessions = SavedSessions::read();
    let resumed = match resume {
        None => None,
        Some(Some(session)) => Some(session),
        Some(None) => {
            let last = sessions.last(&agent_session.name, &agent_session.cwd).map(str::to_owned);
            if last.is_none() {
                tracing::warn!(
                    "no earlier session with {} here; starting a new one",
                    agent_session.name
                );
            }
            last
        }
    };
    let login_hint = login_hint(agent.as_deref());
    let request = PromptRequest {
        text,
        cwd: agent_session.cwd.clone(),
        resumed,
        login_hint: login_hint.clone(),
        history: agent_session.history.clone(),
    };
    let output = Output::new(format, is_quiet, agent_session.log.clone());
    let prompt_run = PromptRun::new(request, agent_session.judge, output);
    let limits = Limits {
        initialize: agent_session.profile.initialize,
        prompt_total: timeout.map(Duration::from_secs),
        // No limit.
        prompt_idle: Some(idle).filter(|secs| *secs > 0).map_or(Duration::MAX, Duration::from_secs),
        ..Limits::default()
    };
    let config =
        Config { limits, streaming: streaming(agent_session.profile.stream), ..Config::default() };
    let ending = process_limits(&agent_session.profile);
    let program = agent_session.command.as_std().get_program().to_string_lossy().into_owned();
    let started = AgentConnection::start(
        agent_session.command,
        config,
        ending,
        agent_session.log,
        agent_session.hosts,
    );
    let connection = match started {
        Ok(connection) => connection,
        Err(error) => {
            guard.close().await;
            return Err(error).with_context(|| format!("cannot start '{program}'"));
        }
    };
    let (output, end) = prompt_run.run(connection, &mut signals).await;
    if let Some(session) = &end.session
        && let Err(error) = sessions.note(&agent_session.name, &agent_session.cwd, session)
    {
        tracing::warn!(%error, "could not save the session for --resume");
    }
    guard.close().await;
    let code = finish(output, &agent_session.name, &end, &login_hint);
    match &end.denied {
        Some(denied) if fail_on_denied && code == 0 => {
            console::say(format_args!("the turn ended, but the agent was denied {denied}"));
            Ok(ExitCode::from(DENIED_WITHIN))
        }
        _ => Ok(ExitCode::from(code)),
    }
}

fn read_stdin() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        console::say("type the prompt, then Ctrl-D");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    if text.trim().is_empty() {
        bail!("no prompt on stdin\nhint: pass it as the last argument");
    }
    Ok(text)
}

/// Prints the final report and returns the exit code.
fn finish(mut output: Output, name: &str, end: &PromptEnd, login_hint: &str) -> u8 {
    let fail = |why: &str| {
        console::fail(&anyhow::Error::msg(agent_failure(name, why, &end.exit, &end.non_json)));
    };
    if let Some(turn) = &end.turn {
        if let Err(failure) = &turn.outcome
            && turn.cancelled.is_none()
        {
            fail(&describe(failure, login_hint));
        }
        // The agent stopped by itself.
        if let (Ok(StopReason::Cancelled), None, Some(denied)) =
            (&turn.outcome, turn.cancelled, &end.denied)
        {
            console::say(format_args!("the agent stopped after a denied {denied}"));
            return DENIED;
        }
        return exit_code(turn, end.signal);
    }
    let why = end.failure.clone().unwrap_or_default();
    // A failed write to stdout is already the failure, or its reader is gone.
    let _ = output.failed(&why);
    match end.signal {
        Some(signal) => Ending::Signaled(signal).exit_code(),
        None => {
            fail(&why);
            FAILED
        }
    }
}

/// The remedy for a missing login; `agent` is `None` for a command of the user's.
fn login_hint(agent: Option<&str>) -> String {
    match agent {
        Some(agent) => format!("log in once with `aifo-coder run {agent}`, or set its API key"),
        None => "log in to it in a terminal, or set its API key".to_owned(),
    }
}

/// The exit code for the turn's stop reason.
fn exit_code(end: &TurnEnd, signal: Option<u8>) -> u8 {
    match end.cancelled {
        Some(CancelCause::Requested) => {
            return Ending::Signaled(signal.unwrap_or_default()).exit_code();
        }
        Some(CancelCause::Idle | CancelCause::TooLong | CancelCause::PermissionTimeout) => {
            return exit::TIMED_OUT;
        }
        None => {}
    }
    match &end.outcome {
        Ok(StopReason::EndTurn) => 0,
        Ok(StopReason::Refusal) => 3,
        Ok(StopReason::MaxTokens) => 4,
        Ok(StopReason::MaxTurnRequests) => 5,
        Ok(StopReason::Other(_) | StopReason::Missing) => 6,
        Ok(StopReason::Cancelled) => 7,
        Err(_) => FAILED,
    }
}

/// Exit code: the agent failed.
const FAILED: u8 = 1;
/// Exit code: the agent cancelled the turn after a denied call.
const DENIED: u8 = 8;
/// Exit code: the turn ended after a denied request, and `--fail-on-denied` is set.
const DENIED_WITHIN: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_login_is_a_command_to_copy() {
        let hint = login_hint(Some("codex"));
        assert_eq!(hint, "log in once with `aifo-coder run codex`, or set its API key");
        assert!(!login_hint(None).contains("aifo-coder run"));
    }
}
