//! The client's events as JSON.

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::content::{Channel, Piece, pieces};
use crate::event::{Event, RequestEvent};
use crate::failure::Failure;
use crate::message::Id;
use crate::permission::{PermissionOutcome, PermissionRequest};
use crate::tool_call::{CallState, ToolCall};
use crate::tool_calls::ToolChange;
use crate::turn_end::{CancelCause, TurnEnd};
use crate::update::UpdateScope;
use crate::update::{Update, UpdateKind};

/// Converts an event to reports: objects with a `type` (`spec/acp.md#reports`). Usually one;
/// several for a chunk of several blocks, none for echoes of the user's message.
pub fn reports(event: &Event) -> Vec<Value> {
    let report = match event {
        Event::Update { update, scope, change } => {
            return update_reports(update, *scope, change.as_ref());
        }
        Event::Ready(agent) => {
            json!({"type": "agent", "name": agent.name, "loads_sessions": agent.loads_sessions})
        }
        Event::Opened { session, .. } => json!({"type": "session", "session": session}),
        Event::Answered { request, method, result } => {
            json!({"type": "answered", "request": request, "method": method, "result": result})
        }
        Event::Failed { request, method, failure } => {
            let error = failure_report(failure);
            json!({"type": "failed", "request": request, "method": method, "error": error})
        }
        Event::Dropped { session } => json!({"type": "dropped", "session": session}),
        Event::Request(RequestEvent::Permission { id, request }) => permission(id, request),
        Event::Request(RequestEvent::Host { id, method, .. }) => {
            json!({"type": "request", "id": id.to_value(), "method": method})
        }
        Event::Request(RequestEvent::Withdrawn { id, why }) => {
            json!({"type": "withdrawn", "id": id.to_value(), "why": why.word()})
        }
        Event::Notification { method, params } => {
            json!({"type": "notification", "method": method, "params": params})
        }
        Event::TurnEnded(end) => turn_end_report(end, end.answer.clone()),
        Event::Overdue { session } => json!({"type": "overdue", "session": session}),
        Event::NonJsonOutput(non_json) => json!({"type": "noise", "why": non_json.to_string()}),
        Event::TooLong { len } => json!({"type": "too_long", "bytes": len}),
        Event::Closed => json!({"type": "closed"}),
    };
    vec![report]
}

/// Reports the end of a turn. Takes the answer, which may be long, without copying it, and separates its
/// messages.
pub fn turn_end_report(end: &TurnEnd, mut answer: Answer) -> Value {
    answer.separate_messages();
    let (stop_reason, error) = match &end.outcome {
        Ok(reason) => (Some(reason.word()), Value::Null),
        Err(failure) => (None, failure_report(failure)),
    };
    let mut report = json!({
        "type": "final",
        "session": end.session,
        "turn": end.turn,
        "text": null,
        "content": null,
        "stop_reason": stop_reason,
        "error": error,
        "cancelled": end.cancelled.map(CancelCause::word),
        "usage": end.response.get("usage"),
        "updates": end.counts.kinds,
        "dropped": end.counts.dropped,
    });
    if let Value::Object(members) = &mut report {
        // `json!` would copy them.
        members.insert("text".to_owned(), Value::String(answer.text));
        members.insert("content".to_owned(), Value::Array(answer.blocks));
    }
    report
}

/// Reports a permission decision and the rule that made it.
pub fn decision_report(id: &Id, decision: &PermissionOutcome, rule: &str) -> Value {
    let option = match decision {
        PermissionOutcome::Select(option) => option.clone(),
        PermissionOutcome::Cancelled => Value::Null,
    };
    json!({"type": "decision", "id": id.to_value(), "option": option, "rule": rule})
}

/// Formats a report as one line without its end: the type, then the members as `name=value`, with
/// control characters escaped.
pub fn report_line(report: &Value) -> String {
    let mut line = report.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, value) in report.as_object().into_iter().flatten() {
        if name != "type" && !value.is_null() {
            line.extend([" ", name, "="]);
            push_value(&mut line, value);
        }
    }
    line
}

fn update_reports(update: &Update, scope: UpdateScope, change: Option<&ToolChange>) -> Vec<Value> {
    let body = update.body();
    let report = match (update.kind(), change) {
        (UpdateKind::AgentMessage | UpdateKind::AgentThought | UpdateKind::UserMessage, _) => {
            return pieces(update)
                .into_iter()
                .filter_map(piece)
                .map(with_scope(update, scope))
                .collect();
        }
        (UpdateKind::Plan, _) => json!({"type": "plan", "entries": body.get("entries")}),
        (UpdateKind::Usage, _) => with_type("usage", rest(body, &[])),
        (UpdateKind::ToolCall | UpdateKind::ToolCallUpdate, Some(change)) => json!({
            "type": "tool_call",
            "id": change.id,
            "before": change.before.as_ref().map(CallState::word),
            "status": change.after.word(),
            "update": rest(body, &["toolCallId", "status"]),
        }),
        (kind, _) => json!({"type": "update", "kind": kind.name(), "update": rest(body, &[])}),
    };
    vec![with_scope(update, scope)(report)]
}

/// Reports a piece of a message; `None` for the user's.
fn piece((channel, piece): (Channel, Piece<'_>)) -> Option<Value> {
    let name = match channel {
        Channel::Answer => "draft",
        Channel::Thought => "thought",
        Channel::User => return None,
    };
    Some(match piece {
        Piece::Text(text) => json!({"type": name, "text": text}),
        Piece::Block(block) => json!({"type": name, "block": block}),
    })
}

/// Adds session and turn.
fn with_scope(update: &Update, scope: UpdateScope) -> impl Fn(Value) -> Value {
    move |report| {
        let mut report = report;
        if let Value::Object(members) = &mut report {
            members.insert("session".to_owned(), update.session().into());
            match scope {
                UpdateScope::Turn(turn) => _ = members.insert("turn".to_owned(), turn.into()),
                UpdateScope::Late(turn) => {
                    members.insert("turn".to_owned(), turn.into());
                    members.insert("late".to_owned(), true.into());
                }
                UpdateScope::History => _ = members.insert("history".to_owned(), true.into()),
                UpdateScope::BeforeTurns => {}
            }
        }
        report
    }
}

fn permission(id: &Id, request: &PermissionRequest) -> Value {
    let options = request
        .options
        .iter()
        .map(|option| json!({"id": option.id, "kind": option.kind.word(), "name": option.name}));
    let call = |call: &ToolCall| {
        json!({
            "id": call.id(),
            "title": call.title(),
            "kind": call.kind(),
            "command": call.command(),
        })
    };
    json!({
        "type": "permission",
        "id": id.to_value(),
        "session": request.session,
        "call": request.call.as_ref().map(call),
        "options": options.collect::<Vec<Value>>(),
    })
}

fn failure_report(failure: &Failure) -> Value {
    let text = failure.to_string();
    match failure {
        Failure::Agent(error) => {
            json!({"message": text, "code": error.code, "data": error.data})
        }
        Failure::AuthRequired { error, methods } => {
            json!({"message": text, "code": error.code, "data": error.data, "methods": methods})
        }
        Failure::UnsupportedVersion(_)
        | Failure::Incomplete(_)
        | Failure::SessionInUse(_)
        | Failure::TooLong(_)
        | Failure::TimedOut
        | Failure::Ended => json!({"message": text}),
    }
}

/// Returns an update's members without its kind and the named ones.
fn rest(body: &Value, without: &[&str]) -> Map<String, Value> {
    let members = body.as_object().into_iter().flatten();
    let is_more = |name: &str| name != "sessionUpdate" && !without.contains(&name);
    members
        .filter(|(name, _)| is_more(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn with_type(name: &str, mut members: Map<String, Value>) -> Value {
    members.insert("type".to_owned(), name.into());
    Value::Object(members)
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::String(text) if is_plain(text) => line.push_str(text),
        value => {
            for char in value.to_string().chars() {
                // JSON does not escape DEL and C1 control characters.
                if char.is_control() {
                    line.extend(char.escape_unicode());
                } else {
                    line.push(char);
                }
            }
        }
    }
}

fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:+,@%".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::client::{Client, Config};

    /// Reports of a client whose agent sends these messages during a turn and then ends.
    fn reported(messages: &[Value]) -> Vec<Value> {
        let mut now = Instant::now();
        let mut client = Client::new(Config::default(), now);
        let mut reported = Vec::new();
        let mut receive = |client: &mut Client, message: &Value, now| {
            client.receive(format!("{message}\n").as_bytes(), now);
            while let Some(event) = client.poll_event() {
                reported.extend(reports(&event));
            }
        };
        client.initialize("test", "1", now).unwrap();
        let agent = json!({"agentInfo": {"name": "gemini"}});
        receive(&mut client, &json!({"id": 1, "result": agent}), now);
        client.new_session(json!({"cwd": "/w"}), now).unwrap();
        receive(&mut client, &json!({"id": 2, "result": {"sessionId": "s"}}), now);
        client.prompt("s", json!([]), now).unwrap();
        messages.iter().for_each(|message| receive(&mut client, message, now));
        now += Duration::from_secs(1);
        client.handle_timeout(now);
        client.receive_eof(now);
        while let Some(event) = client.poll_event() {
            reported.extend(reports(&event));
        }
        reported
    }

    fn update(body: Value) -> Value {
        json!({"method": "session/update", "params": {"sessionId": "s", "update": body}})
    }

    /// Checks the reports of one message within a turn.
    #[track_caller]
    fn check(message: Value, expected: Value) {
        let reported = reported(&[message]);
        let between = reported.iter().filter(|report| {
            !["agent", "session", "final", "closed"].iter().any(|name| report["type"] == *name)
        });
        let between: Vec<Value> = between.cloned().collect();
        assert_eq!(Value::Array(between), expected);
    }

    #[test]
    fn a_turn_is_reported_from_initialize_to_final() {
        let chunk = |text: &str| {
            let content = json!({"type": "text", "text": text});
            update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
        };
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aa"});
        let shown = json!({"sessionUpdate": "agent_message_chunk", "content": image});
        let usage = json!({"totalTokens": 7});
        let end = json!({"id": 3, "result": {"stopReason": "end_turn", "usage": usage}});
        let reported = reported(&[chunk("Hello "), update(shown), chunk("World"), end, chunk("!")]);
        let text = |text: &str| json!({"type": "text", "text": text});
        let expected = [
            json!({"type": "agent", "name": "gemini", "loads_sessions": false}),
            json!({"type": "session", "session": "s"}),
            json!({"type": "draft", "session": "s", "turn": 1, "text": "Hello "}),
            json!({"type": "draft", "session": "s", "turn": 1, "block": image}),
            json!({"type": "draft", "session": "s", "turn": 1, "text": "World"}),
            json!({"type": "draft", "session": "s", "turn": 1, "late": true, "text": "!"}),
            json!({
                "type": "final",
                "session": "s",
                "turn": 1,
                "text": "Hello World!",
                "content": [text("Hello "), image, text("World!")],
                "stop_reason": "end_turn",
                "error": null,
                "cancelled": null,
                "usage": usage,
                "updates": {"agent_message_chunk": 4},
                "dropped": 0,
            }),
            json!({"type": "closed"}),
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn unknown_updates_have_reports_too() {
        let with_scope = |mut report: Value| {
            report["session"] = json!("s");
            report["turn"] = json!(1);
            json!([report])
        };
        let rows = [
            (
                json!({"sessionUpdate": "agent_thought_chunk", "content": "hm"}),
                json!({"type": "thought", "text": "hm"}),
            ),
            (
                json!({"sessionUpdate": "plan", "entries": [{"content": "a"}]}),
                json!({"type": "plan", "entries": [{"content": "a"}]}),
            ),
            (
                json!({"sessionUpdate": "usage_update", "used": 5, "size": 10, "type": "odd"}),
                json!({"type": "usage", "used": 5, "size": 10}),
            ),
            (
                json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls",
                    "status": "pending"}),
                json!({"type": "tool_call", "id": "t", "before": null, "status": "pending",
                    "update": {"title": "ls"}}),
            ),
            (
                json!({"sessionUpdate": "tool_call_update", "title": "of nothing"}),
                json!({"type": "update", "kind": "tool_call_update",
                    "update": {"title": "of nothing"}}),
            ),
            (
                json!({"sessionUpdate": "brand_new", "x": 1}),
                json!({"type": "update", "kind": "brand_new", "update": {"x": 1}}),
            ),
        ];
        for (body, expected) in rows {
            check(update(body), with_scope(expected));
        }
        check(update(json!({"sessionUpdate": "user_message_chunk", "content": "hi"})), json!([]));
    }

    #[test]
    fn a_chunk_of_several_blocks_gives_several_drafts() {
        let content = json!([{"type": "text", "text": "a"}, {"type": "image", "data": ""}]);
        check(
            update(json!({"sessionUpdate": "agent_message_chunk", "content": content})),
            json!([
                {"type": "draft", "session": "s", "turn": 1, "text": "a"},
                {"type": "draft", "session": "s", "turn": 1, "block": {"type": "image", "data": ""}},
            ]),
        );
    }

    #[test]
    fn a_permission_report_has_the_call_and_the_options() {
        let call = json!({"toolCallId": "t", "title": "ls", "kind": "execute",
            "rawInput": {"command": "ls -l"}});
        let options = json!([
            {"optionId": "y", "kind": "allow_once", "name": "Yes"},
            {"optionId": 2, "kind": "later", "name": "Later"},
        ]);
        let params = json!({"sessionId": "s", "toolCall": call, "options": options});
        let expected = json!([
            {
                "type": "permission",
                "id": "p",
                "session": "s",
                "call": {"id": "t", "title": "ls", "kind": "execute", "command": "ls -l"},
                "options": [
                    {"id": "y", "kind": "allow_once", "name": "Yes"},
                    {"id": 2, "kind": "later", "name": "Later"},
                ],
            },
            {"type": "withdrawn", "id": "p", "why": "ended"},
        ]);
        check(
            json!({"id": "p", "method": "session/request_permission", "params": params}),
            expected,
        );
        let id = Id::Text("p".into());
        assert_eq!(
            decision_report(&id, &PermissionOutcome::Select(json!("y")), "allow kind execute"),
            json!({"type": "decision", "id": "p", "option": "y", "rule": "allow kind execute"})
        );
        assert_eq!(decision_report(&id, &PermissionOutcome::Cancelled, "")["option"], json!(null));
    }

    #[test]
    fn failures_are_reported() {
        check(json!(17), json!([{"type": "noise", "why": "not a message: not an object"}]));
        check(
            json!({"method": "_x/news", "params": [1]}),
            json!([{"type": "notification", "method": "_x/news", "params": [1]}]),
        );
        let error = json!({"code": -32603, "message": "no credit", "data": {"x": 1}});
        let failed = reported(&[json!({"id": 3, "error": error})]);
        let last = &failed[failed.len() - 2];
        assert_eq!(last["stop_reason"], json!(null));
        assert_eq!(
            last["error"],
            json!({"message": "the agent answered: no credit (-32603)", "code": -32603,
                "data": {"x": 1}})
        );
        let ended = reported(&[]);
        assert_eq!(ended[ended.len() - 2]["error"], json!({"message": "the agent has ended"}));
    }

    #[test]
    fn report_lines_escape_control_characters() {
        let report = json!({"type": "draft", "text": "a b\n\u{1b}[2J\u{7f}\u{9b}", "turn": 1,
            "late": null});
        let line = report_line(&report);
        assert_eq!(line, r#"draft text="a b\n\u001b[2J\u{7f}\u{9b}" turn=1"#);
        assert_eq!(report_line(&json!({"type": "closed"})), "closed");
        assert_eq!(
            report_line(&json!({"type": "session", "session": "s-1", "x": ""})),
            r#"session session=s-1 x="""#
        );
    }
}
