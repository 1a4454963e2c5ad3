//! From `initialize` to an open session, with failures.
//!
//! Proves `spec/acp.md#sessions`.

use super::*;
use crate::capabilities::UnsupportedVersion;
use crate::message::code;
use crate::update::UpdateScope;

fn failures(story: &Story) -> Vec<(&str, &Failure)> {
    let mut failures = Vec::new();
    for event in &story.events {
        if let Event::Failed { method, failure, .. } = event {
            failures.push((method.as_str(), failure));
        }
    }
    failures
}

#[test]
fn an_agent_of_another_version_is_rejected() {
    let mut story = Story::start(Config::default());
    let id = story.client.initialize("test", "1", story.now).unwrap();
    story.reply(id, &json!({"protocolVersion": 2}));
    let other = UnsupportedVersion { version: "2".to_owned() };
    assert_eq!(failures(&story), [("initialize", &Failure::UnsupportedVersion(other))]);
    assert_eq!(story.client.state(), &ConnectionState::Closing);
    assert_eq!(story.client.new_session(json!({}), story.now), Err(SendError::NotReady));
}

#[test]
fn no_request_is_sent_before_the_agent_is_ready() {
    let mut story = Story::start(serving_all());
    assert_eq!(story.client.prompt("s", json!([]), story.now), Err(SendError::NotReady));
    story.client.initialize("test", "1", story.now).unwrap();
    assert_eq!(story.client.initialize("test", "1", story.now), Err(SendError::NotReady));
    assert_eq!(
        story.client.request("session/list", json!({}), story.now),
        Err(SendError::NotReady)
    );
    let written = story.take_written();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["params"]["clientCapabilities"]["terminal"], true);
}

#[test]
fn required_authentication_is_reported_with_its_methods() {
    let mut story = Story::start(Config::default());
    let id = story.client.initialize("test", "1", story.now).unwrap();
    story.reply(id, &json!({"protocolVersion": "1", "authMethods": [{"id": "key"}]}));
    let id = story.client.new_session(json!({}), story.now).unwrap();
    let error = json!({"code": -32000, "message": "Authentication required"});
    story.receive(&json!({"id": id, "error": error}));
    let error = RpcError::new(code::AUTH_REQUIRED, "Authentication required");
    let expected = Failure::AuthRequired { error, methods: vec![json!({"id": "key"})] };
    assert_eq!(failures(&story), [("session/new", &expected)]);
    assert!(matches!(story.client.state(), ConnectionState::Ready(_)), "authenticate can be sent");
}

#[test]
fn requests_time_out() {
    let mut story = Story::start(Config::default());
    let id = story.client.initialize("test", "1", story.now).unwrap();
    assert_eq!(story.client.poll_timeout(), Some(story.now + 60 * SECOND));
    story.pass(59 * SECOND);
    assert_eq!(story.events, []);
    story.pass(SECOND);
    assert_eq!(failures(&story), [("initialize", &Failure::TimedOut)]);
    assert_eq!(
        (story.client.state(), story.client.poll_timeout()),
        (&ConnectionState::Closing, None)
    );
    story.reply(id, &json!({"protocolVersion": 1}));
    assert_eq!(story.client.protocol_errors().duplicate_responses, 1, "after the deadline");
    assert_eq!(story.client.state(), &ConnectionState::Closing);
}

#[test]
fn early_updates_are_applied_to_their_session() {
    let mut story = Story::ready(Config::default());
    let id = story.client.new_session(json!({}), story.now).unwrap();
    story.receive(&update_of("s", tool("tool_call", "t", "pending")));
    story.receive(&update_of("other", chunk("agent_message_chunk", "x")));
    assert_eq!(story.events, []);
    story.reply(id, &json!({"sessionId": "s"}));
    assert!(matches!(&story.events[0], Event::Opened { session, .. } if session == "s"));
    assert_eq!(story.scopes(), [UpdateScope::BeforeTurns]);
    assert!(story.client.session("s").unwrap().tools().get("t").is_some());
    assert_eq!(story.client.protocol_errors().unknown_session_updates, 1);
    story.receive(&update_of("other", chunk("agent_message_chunk", "x")));
    assert_eq!(story.client.protocol_errors().unknown_session_updates, 2);
}

#[test]
fn early_updates_are_bounded_in_number_and_size() {
    let limits = Limits { early_updates: 3, early_bytes: 4096, ..Limits::default() };
    let mut story = Story::ready(Config { limits, ..Config::default() });
    let id = story.client.new_session(json!({}), story.now).unwrap();
    story.receive(&update_of("s", chunk("agent_message_chunk", &"x".repeat(5000))));
    assert_eq!(story.client.protocol_errors().unknown_session_updates, 1);
    for _ in 0..5 {
        story.receive(&update_of("s", chunk("agent_message_chunk", "x")));
    }
    story.reply(id, &json!({"sessionId": "s"}));
    assert_eq!(
        (story.scopes().len(), story.client.protocol_errors().unknown_session_updates),
        (3, 3)
    );
}

#[test]
fn a_failed_session_leaves_nothing() {
    let mut story = Story::ready(Config::default());
    let id = story.client.new_session(json!({}), story.now).unwrap();
    story.receive(&update_of("s", chunk("agent_message_chunk", "x")));
    story.reply(id, &json!({"session": "s"}));
    assert_eq!(failures(&story), [("session/new", &Failure::Incomplete("sessionId"))]);
    assert_eq!(story.client.protocol_errors().unknown_session_updates, 1);
    assert!(story.client.session("s").is_none());
}

#[test]
fn a_new_session_does_not_replace_one_with_a_turn() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.agent_text("a");
    story.open_session("s");
    assert_eq!(failures(&story), [("session/new", &Failure::SessionInUse("s".to_owned()))]);
    story.stop(prompt, "end_turn");
    story.pass(SECOND);
    assert_eq!(story.ends()[0].answer.text, "a");
    story.open_session("s");
    assert!(matches!(story.events.last(), Some(Event::Opened { .. })), "an idle one is replaced");
}

#[test]
fn a_loaded_history_is_not_an_answer() {
    let mut story = Story::ready(Config::default());
    let id = story.client.load_session("s", json!({"cwd": "/w"}), story.now).unwrap();
    assert_eq!(story.take_written()[0]["params"], json!({"cwd": "/w", "sessionId": "s"}));
    let again = story.client.load_session("s", json!({}), story.now);
    assert_eq!(again, Err(SendError::AlreadyOpen("s".to_owned())));
    assert_eq!(
        story.client.prompt("s", json!([]), story.now),
        Err(SendError::Busy("s".to_owned()))
    );
    story.update(chunk("user_message_chunk", "before"));
    story.agent_text("long ago");
    story.update(tool("tool_call", "t", "completed"));
    assert_eq!(story.scopes(), [UpdateScope::History; 3]);
    story.reply(id, &json!(null));
    let prompt = story.prompt();
    story.agent_text("now");
    story.stop(prompt, "end_turn");
    story.pass(SECOND);
    assert_eq!(story.ends()[0].answer.text, "now");
    assert_eq!(story.client.session("s").unwrap().tools().len(), 1, "its calls are kept");
}

#[test]
fn session_load_may_be_empty_or_fail_or_be_unsupported() {
    let mut story = Story::ready(Config::default());
    let id = story.client.load_session("s", json!({}), story.now).unwrap();
    story.reply(id, &json!({}));
    assert!(matches!(&story.events[..], [Event::Opened { .. }]), "without history");

    let id = story.client.load_session("gone", json!({}), story.now).unwrap();
    let error = json!({"code": -32603, "message": "No previous sessions found"});
    story.receive(&json!({"id": id, "error": error}));
    assert_eq!(failures(&story)[0].0, "session/load");
    assert!(story.client.session("gone").is_none(), "the session is removed");

    let mut story = Story::start(Config::default());
    let id = story.client.initialize("test", "1", story.now).unwrap();
    story.reply(id, &json!({"protocolVersion": 1}));
    story.take_written();
    let refused = story.client.load_session("s", json!({}), story.now);
    assert_eq!(refused, Err(SendError::NotOffered("session/load")));
    assert_eq!(story.take_written(), [Value::Null; 0]);
}

#[test]
fn other_requests_are_answered() {
    let mut story = Story::ready(Config::default());
    let id = story.client.request("session/list", json!({}), story.now).unwrap();
    story.reply(id, &json!({"sessions": []}));
    let expected = Event::Answered {
        request: id,
        method: "session/list".to_owned(),
        result: json!({"sessions": []}),
    };
    assert_eq!(story.events, [expected]);
    let limits = Limits { frame_out: 400, ..Limits::default() };
    let mut story = Story::ready(Config { limits, ..Config::default() });
    let long = story.client.request("x", json!("x".repeat(500)), story.now);
    assert!(matches!(long, Err(SendError::TooLong(_))));
    assert_eq!((story.take_written().len(), story.client.poll_timeout()), (0, None));
}

#[test]
fn non_json_output_is_never_answered_and_affects_no_request() {
    let mut story = Story::ready(Config::default());
    let id = story.client.request("m", json!({}), story.now).unwrap();
    story.take_written();
    for line in [
        "",
        "  \r",
        "Loading credentials...",
        "17",
        "null",
        "[]",
        "[17, [\"x\"]]",
        "{\"id\":1,\"level\":\"info\"}",
        "{\"id\":null,\"error\":{\"code\":-32700}}",
        "{\"id\":[],\"method\":\"m\"}",
        "{\"method\":1}",
    ] {
        story.receive_line(line);
    }
    story.receive_line(&format!("{{\"id\":{id},\"level\":\"info\"}}"));
    story.client.receive(b"\xff\xfe\n", story.now);
    assert_eq!(story.take_written(), [Value::Null; 0]);
    assert!(story.events.iter().all(|event| matches!(event, Event::NonJsonOutput(_))));
    assert_eq!(story.events.last(), Some(&Event::NonJsonOutput(NonJsonOutput::NotUtf8)));
    assert!(story.client.non_json().starts_with("Loading credentials...\n17\n"));
    story.reply(id, &json!(1));
    assert!(matches!(story.events.last(), Some(Event::Answered { .. })));
}

#[test]
fn responses_are_accepted_once_and_in_many_forms() {
    let mut story = Story::ready(Config::default());
    let ids = [(); 3].map(|()| story.client.request("m", json!({}), story.now).unwrap());
    story.receive(&json!([
        {"id": ids[2].to_string(), "result": 3},
        {"jsonrpc": "2.0", "id": ids[0], "result": 1},
        17,
        {"id": ids[1] as f64, "error": "no"},
    ]));
    let sent: Vec<u64> = story
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Answered { request, .. } | Event::Failed { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [ids[2], ids[0], ids[1]]);
    story.reply(ids[0], &json!(1));
    story.reply(99, &json!(1));
    story.receive(&json!({"id": "x", "result": 1}));
    let protocol_errors = story.client.protocol_errors();
    assert_eq!((protocol_errors.duplicate_responses, protocol_errors.unknown_responses), (1, 2));
}

#[test]
fn an_oversized_message_fails_its_request() {
    let limits = Limits { frame: 200, values: 100, ..Limits::default() };
    let mut story = Story::ready(Config { limits, ..serving_all() });
    let id = story.client.request("m", json!({}), story.now).unwrap();
    story.take_written();
    let line = format!("{{\"id\":{id},\"result\":\"{}\"}}", "x".repeat(300));
    story.receive_line(&line);
    let len = line.len() as u64;
    assert_eq!(failures(&story), [("m", &Failure::TooLong(len))]);
    assert_eq!(story.events.last(), Some(&Event::TooLong { len }));
    story.receive_line(&format!(
        "{{\"id\":7,\"method\":\"fs/write_text_file\",\"x\":\"{}\"}}",
        "x".repeat(300)
    ));
    assert_eq!(story.sent(), ["7 -32600"], "an oversized request is answered");
    story.receive_line(&"x".repeat(300));
    assert_eq!(story.sent(), [""; 0], "other oversized lines are not");
}

#[test]
fn unsupported_methods_are_rejected_at_all_times() {
    let mut story = Story::start(Config::default());
    let mut id = 100;
    let mut sent = |story: &mut Story, method: &str| {
        id += 1;
        story.take_written();
        story.receive(&json!({"id": id, "method": method, "params": {}}));
        assert_eq!(story.sent(), [format!("{id} -32601")], "{method}");
    };
    sent(&mut story, "craft/drainMidTurnQueue");
    let initialize = story.client.initialize("test", "1", story.now).unwrap();
    sent(&mut story, "terminal/create");
    story.reply(initialize, &json!({}));
    sent(&mut story, "fs/read_text_file");
    story.open_session("s");
    sent(&mut story, "fs/write_text_file");
    let prompt = story.prompt();
    story.ask_permission(7);
    sent(&mut story, "craft/drainMidTurnQueue");
    story.client.cancel("s", CancelCause::Requested, story.now);
    sent(&mut story, "elicitation/create");
    story.stop(prompt, "cancelled");
    sent(&mut story, "terminal/output");
    assert_eq!(story.client.protocol_errors().unknown_requests, 7);
    story.receive(&json!({"method": "qwen/notify/x", "params": 1}));
    assert!(matches!(story.events.last(), Some(Event::Notification { .. })));
    assert_eq!(story.take_written(), [Value::Null; 0]);
}

#[test]
fn served_requests_are_answered_once() {
    let limits = Limits { requests: 2, frame_out: 400, ..Limits::default() };
    let mut story = Story::open(Config { limits, ..serving_all() });
    for id in [json!(1), json!("1"), json!(1), json!(3)] {
        story.receive(&json!({"id": id, "method": "terminal/create", "params": {"x": 1}}));
    }
    let protocol_errors = story.client.protocol_errors();
    assert_eq!(
        (story.events.len(), protocol_errors.duplicate_requests, protocol_errors.excess_requests),
        (2, 1, 1)
    );
    assert_eq!((story.sent(), story.client.unanswered()), (vec!["3 -32603".to_owned()], 2));
    let (number, text) = (Id::from(1), Id::Text("1".to_owned()));
    story.receive(&json!({"method": "$/cancel_request", "params": {"requestId": "1"}}));
    let withdrawn =
        Event::Request(RequestEvent::Withdrawn { id: text.clone(), why: Withdrawal::ByAgent });
    assert_eq!(story.events.last(), Some(&withdrawn), "the caller must still answer it");
    let error = RpcError::new(code::CANCELLED, "withdrawn");
    assert!(story.client.respond(&text, Err(error), story.now));
    assert!(story.client.respond(&number, Ok(json!("x".repeat(500))), story.now));
    assert!(!story.client.respond(&number, Ok(json!(1)), story.now), "once");
    assert_eq!(
        story.sent(),
        ["\"1\" -32800", "1 -32603"],
        "an answer that is too long is an error"
    );
    for params in [json!({"requestId": 1}), json!({}), json!(null)] {
        story.receive(&json!({"method": "$/cancel_request", "params": params}));
    }
    assert_eq!(story.client.protocol_errors().unknown_cancellations, 3);
}
