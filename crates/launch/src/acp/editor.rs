//! An editor with an agent of a session (`spec/acp-commands.md#acp`).

use aifo_acp::{RelayEvent, RequestEvent, Side, decision_report};
use aifo_acp_io::{AgentExit, Bridge, WireLog, WorkspaceHost, log_turn};
use aifo_host::{EndSignals, SessionHistory};
use aifo_types::escape_line;
use tokio::task::JoinSet;

use super::judge::PermissionJudge;
use super::own_commands;
use super::questions::EditorQuestions;

/// The end of a relay between an editor and an agent.
pub enum BridgeEnd {
    /// The editor has closed its connection.
    EditorGone,
    /// A signal with this number has arrived.
    Signaled(u8),
    /// The agent has exited.
    AgentGone {
        /// The end of its output that is no ACP.
        non_json: String,
        /// Its exit.
        end: AgentExit,
    },
}

/// Relays until the editor or the agent is gone, or a second signal arrives.
///
/// Rules answer the agent requests for permission, as far as they do; the editor answers the others, and questions
/// about the calls of tools.
pub async fn serve_editor(
    mut bridge: Bridge<WorkspaceHost>,
    judge: &PermissionJudge,
    log: Option<&WireLog>,
    history: Option<&SessionHistory>,
    signals: &mut EndSignals,
) -> BridgeEnd {
    let mut commands = JoinSet::new();
    let mut questions = EditorQuestions::new(judge.approvals.clone());
    let mut changes = judge.approvals.subscribe();
    let mut received = None;
    let mut is_released = false;
    loop {
        tokio::select! {
            event = bridge.next() => match event {
                Some(RelayEvent::Released) => is_released = true,
                Some(RelayEvent::Command { id, session, words, .. }) => {
                    let history = history.cloned();
                    commands.spawn(async move {
                        (id, session, own_commands::run(history.as_ref(), &words).await)
                    });
                }
                Some(event) => {
                    history.iter().for_each(|history| note_turn(history, &event));
                    take(event, &mut bridge, judge, &mut questions, log);
                }
                None => break,
            },
            Some(Ok((id, session, text))) = commands.join_next() => {
                bridge.with_relay(|relay, now| relay.answer_command(&id, &session, &text, now));
            }
            Ok(()) = changes.changed() => {
                bridge.with_relay(|relay, now| questions.update(relay, now));
            }
            () = questions.turn_may_run() => {
                bridge.with_relay(|relay, now| questions.update(relay, now));
            }
            signal = signals.recv() => {
                if received.replace(signal).is_some() {
                    // Dropping the bridge kills the agent.
                    return BridgeEnd::Signaled(signal);
                }
                // Same as a disconnect of the editor: cancels turns, then ends the agent.
                bridge.disconnect_editor();
            }
        }
    }
    let non_json = bridge.relay().non_json(Side::Agent).to_owned();
    // Editors wait for two seconds, send TERM, and soon after KILL, which would leave containers
    // behind. So TERM ends the agent at once.
    let end = tokio::select! {
        end = bridge.end() => end,
        signal = signals.recv() => return BridgeEnd::Signaled(signal),
    };
    match received {
        Some(signal) => BridgeEnd::Signaled(signal),
        None if is_released => BridgeEnd::EditorGone,
        None => BridgeEnd::AgentGone { non_json, end },
    }
}

fn note_turn(history: &SessionHistory, event: &RelayEvent) {
    match event {
        // The agent works after its model has answered.
        RelayEvent::TurnStarted => history.turn_started(),
        RelayEvent::TurnEnded(_) => history.turn_ended(),
        _ => {}
    }
}

/// A command line without secrets.
fn redacted(text: &str) -> String {
    let words = shlex::split(text).unwrap_or_else(|| vec![text.to_owned()]);
    aifo_policy::redact(&words.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

fn take(
    event: RelayEvent,
    bridge: &mut Bridge<WorkspaceHost>,
    judge: &PermissionJudge,
    questions: &mut EditorQuestions,
    log: Option<&WireLog>,
) {
    match event {
        RelayEvent::Request(RequestEvent::Permission { id, request }) => {
            let (decision, ruling) = judge.consult(&request);
            let rule = ruling.to_string();
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
                None => {
                    questions.forwarded(&id, judge, &request);
                    bridge.with_relay(|relay, now| {
                        relay.explain_permission(&id, &escape_line(&ruling.reason));
                        relay.ask_editor(&id, now)
                    })
                }
            };
        }
        RelayEvent::QuestionAnswered { question, option } => {
            questions.answered(&question, option.as_deref());
        }
        RelayEvent::PermissionAnswered { id, option } => {
            questions.permission_answered(&id, option.as_ref());
        }
        RelayEvent::TurnEnded(turn) => {
            let outcome = match &turn.outcome {
                Ok(reason) => reason.word().to_owned(),
                Err(error) => error.to_string(),
            };
            let traffic = bridge.relay().traffic(Side::Agent);
            log_turn(&turn.session, &outcome, &turn.counts, traffic);
        }
        RelayEvent::Tool { session, change } => {
            let before = change.before.as_ref().map(|state| state.word());
            let (call, after) = (&change.id, change.after.word());
            tracing::debug!(session, call, before, after, "tool call");
        }
        RelayEvent::NotificationRefused { method } => {
            tracing::debug!(method, "dropped a notification; allow it with --allow-request");
        }
        RelayEvent::NonJsonOutput { side, non_json } => {
            tracing::debug!(?side, noise = %non_json, "noise");
        }
        RelayEvent::TooLong { side, len } => {
            tracing::warn!(?side, bytes = len, "skipped a message that is too long");
        }
        RelayEvent::Overdue { session } => {
            tracing::warn!(session, "the agent ignores cancellation; ending it");
        }
        // Handled elsewhere.
        RelayEvent::Request(RequestEvent::Host { .. } | RequestEvent::Withdrawn { .. })
        | RelayEvent::Command { .. }
        | RelayEvent::TurnStarted
        | RelayEvent::Ended { .. }
        | RelayEvent::Released
        | RelayEvent::Closed => {}
    }
}
