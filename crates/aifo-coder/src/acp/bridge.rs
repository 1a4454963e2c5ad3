//! `aifo-coder acp`: between an editor and an agent (`spec/acp-commands.md#acp`).

use std::process::ExitCode;

use aifo_acp::{
    MethodServer, PathMap, RelayConfig, RelayEvent, Requests, RpcError, Side, TerminalLogin, code,
    decision_report,
};
use aifo_acp_io::{AgentExit, Bridge, FIRST_REQUEST, Stdio, WireLog, refuse_editor};
use aifo_launch::AGENT_VARIABLE_PREFIX;
use aifo_types::exit;
use anyhow::Context;
use serde_json::json;

use crate::acp::hosts::Hosts;
use crate::acp::judge::Judge;
use crate::acp::profile::process_limits;
use crate::acp::stage::{Setting, Stage};
use crate::acp::summary;
use crate::acp::told::failed;
use crate::cli::{Acp, ServedBy};
use crate::code_of;
use crate::console;
use crate::run::called_off;
use crate::start::EndSignals;

pub(crate) async fn bridge(flags: Acp, name: Option<String>) -> anyhow::Result<ExitCode> {
    let mut signals = EndSignals::listen()?;
    match session(flags, name, &mut signals).await {
        Err(error) => Ok(refuse(&error, &mut signals).await),
        ended => ended,
    }
}

/// Reports why there is no agent: on stderr, and to the editor as the answer to its `initialize`.
async fn refuse(error: &anyhow::Error, signals: &mut EndSignals) -> ExitCode {
    console::fail(error);
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if let Ok(editor) = Stdio::start(&stdin, &stdout) {
        let error = editor_error(error);
        tokio::select! {
            () = refuse_editor(editor, &error, FIRST_REQUEST) => {}
            _ = signals.told() => {}
        }
    }
    ExitCode::from(code_of(error, exit::NOTHING_RAN))
}

/// An error as an editor shows it: the message has all of it, the data has the cause and the remedy.
fn editor_error(error: &anyhow::Error) -> RpcError {
    let text = console::story(error);
    let (details, hint) = match text.split_once("\nhint: ") {
        Some((details, hint)) => (details, Some(hint)),
        None => (text.as_str(), None),
    };
    let data = json!({"details": details, "hint": hint});
    RpcError { data: Some(data), ..RpcError::new(code::INTERNAL, text) }
}

async fn session(
    mut flags: Acp,
    name: Option<String>,
    signals: &mut EndSignals,
) -> anyhow::Result<ExitCode> {
    flags.agent.requests = Requests::Relayed;
    // What an editor says while the session comes up is read when that is there.
    let (stage, behind) = match Stage::set(flags.agent, name.as_deref(), signals).await? {
        Setting::Up(stage, behind) => (*stage, *behind),
        Setting::Shown => return Ok(ExitCode::SUCCESS),
        Setting::CalledOff(signal) => return Ok(called_off(signal)),
    };
    let (name, judge, log) = (stage.name.clone(), stage.judge.clone(), stage.log.clone());
    let started = start(stage, flags.files, flags.terminals);
    let bridge = match started {
        Ok(bridge) => bridge,
        Err(error) => {
            behind.close().await;
            return Err(error);
        }
    };
    let over = serve(bridge, &judge, log.as_deref(), signals).await;
    behind.close().await;
    Ok(match over {
        Over::EditorGone => ExitCode::SUCCESS,
        Over::ToldToEnd(signal) => called_off(signal),
        Over::AgentGone { non_json, end } => {
            console::fail(&failed(&name, "the agent has ended", &end, &non_json));
            ExitCode::FAILURE
        }
    })
}

/// Why it is over.
enum Over {
    EditorGone,
    ToldToEnd(u8),
    AgentGone { non_json: String, end: AgentExit },
}

fn start(
    stage: Stage,
    files: Option<ServedBy>,
    terminals: Option<ServedBy>,
) -> anyhow::Result<Bridge<Hosts>> {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (workspace, tmp) = (text(&stage.workspace), text(&stage.tmp));
    let mut map = PathMap::default().map_directory(&workspace, &workspace);
    if let Some(alias) = stage.place.workspace_alias() {
        map = map.map_alias(&text(alias), &workspace).map_directory(&tmp, &text(stage.place.tmp()));
    }
    let config = RelayConfig {
        files: served(files, stage.profile.fs),
        terminal: served(terminals, stage.profile.terminal),
        map,
        remedy: format!(
            "it is not in the workspace '{workspace}'; start aifo-coder acp with --workspace, or in \
             that directory"
        ),
        roots: vec![workspace],
        terminal_login: Some(TerminalLogin {
            words: Acp::own_words(),
            variable_prefix: AGENT_VARIABLE_PREFIX.to_owned(),
        }),
        ..RelayConfig::default()
    };
    let limits = process_limits(&stage.profile);
    let editor = || Stdio::start(&std::io::stdin(), &std::io::stdout());
    let program = stage.command.as_std().get_program().to_string_lossy().into_owned();
    let bridge = Bridge::start(stage.command, config, limits, stage.log, stage.hosts, editor);
    bridge.with_context(|| format!("cannot start '{program}'"))
}

/// Passes on what the two say, until one of them has gone.
async fn serve(
    mut bridge: Bridge<Hosts>,
    judge: &Judge,
    log: Option<&WireLog>,
    signals: &mut EndSignals,
) -> Over {
    let mut told = None;
    let mut is_released = false;
    loop {
        tokio::select! {
            event = bridge.next() => match event {
                Some(RelayEvent::Released) => is_released = true,
                Some(event) => take(event, &mut bridge, judge, log),
                None => break,
            },
            signal = signals.told() => {
                if told.replace(signal).is_some() {
                    // Dropping the bridge kills the agent.
                    return Over::ToldToEnd(signal);
                }
                // As if the editor had gone: turns are cancelled, then the agent is ended.
                bridge.disconnect_editor();
            }
        }
    }
    let non_json = bridge.relay().non_json(Side::Agent).to_owned();
    // Editors wait for two seconds, then send TERM, and soon after it KILL, which would leave our
    // containers to themselves: so TERM ends the agent at once.
    let end = tokio::select! {
        end = bridge.end() => end,
        signal = signals.told() => return Over::ToldToEnd(signal),
    };
    match told {
        Some(signal) => Over::ToldToEnd(signal),
        None if is_released => Over::EditorGone,
        None => Over::AgentGone { non_json, end },
    }
}

/// A command as a log may have it.
fn redacted(text: &str) -> String {
    let words = shlex::split(text).unwrap_or_else(|| vec![text.to_owned()]);
    aifo_policy::redact(&words.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

fn take(event: RelayEvent, bridge: &mut Bridge<Hosts>, judge: &Judge, log: Option<&WireLog>) {
    match event {
        RelayEvent::Permission { id, request } => {
            let (decision, rule) = judge.consult(&request);
            let call = request.call.as_ref();
            let (kind, command) =
                (call.map_or("", |call| call.kind()), call.and_then(|call| call.command()));
            let is_asked = decision.is_none();
            let command = command.map(|text| redacted(&text));
            tracing::debug!(kind, command, rule, is_asked, "permission");
            match decision {
                Some(decision) => {
                    if let Some(log) = log {
                        log.record_decision(decision_report(&id, &decision, &rule));
                    }
                    bridge.with_relay(|relay, now| relay.decide(&id, &decision, now))
                }
                None => bridge.with_relay(|relay, now| relay.ask_editor(&id, now)),
            };
        }
        RelayEvent::TurnEnded(turn) => {
            let outcome = match &turn.outcome {
                Ok(reason) => reason.word().to_owned(),
                Err(error) => error.to_string(),
            };
            let traffic = bridge.relay().traffic(Side::Agent);
            summary::tell(&turn.session, &outcome, &turn.counts, traffic);
        }
        RelayEvent::Tool { session, change } => {
            let before = change.before.as_ref().map(|state| state.word());
            let (call, after) = (&change.id, change.after.word());
            tracing::debug!(session, call, before, after, "tool call");
        }
        RelayEvent::NonJsonOutput { side, non_json } => {
            tracing::debug!(?side, noise = %non_json, "noise");
        }
        RelayEvent::TooLong { side, len } => {
            tracing::warn!(?side, bytes = len, "a message is too long, and was skipped");
        }
        RelayEvent::Overdue { session } => {
            tracing::warn!(session, "the agent does not stop, so it is ended");
        }
        // Answered, or told, elsewhere.
        RelayEvent::Request { .. }
        | RelayEvent::Withdrawn { .. }
        | RelayEvent::Ended { .. }
        | RelayEvent::Released
        | RelayEvent::Closed => {}
    }
}

/// What the user says, or else the agent's profile.
fn served(said: Option<ServedBy>, by_profile: bool) -> MethodServer {
    match said {
        Some(ServedBy::Aifo) => MethodServer::Host,
        Some(ServedBy::Editor) => MethodServer::Editor,
        Some(ServedBy::None) => MethodServer::Neither,
        None if by_profile => MethodServer::Host,
        None => MethodServer::Neither,
    }
}
