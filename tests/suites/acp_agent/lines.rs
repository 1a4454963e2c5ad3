//! Lines that are no messages, and unusual messages.

use aifo_tests::{Script, Step};
use serde_json::{Value, json};

use crate::acp_agent::{PromptTest, turn};

/// Invalid messages of every kind, also with the ids of pending requests.
fn noise() -> Vec<Step> {
    let values = [
        json!("a text"),
        json!(17),
        json!(null),
        json!({"level": "info", "msg": "listening"}),
        json!({"id": 1, "level": "info"}),
        json!({"id": 2}),
        json!({"id": 3, "level": "info"}),
        json!([]),
        json!([[], 17, {"id": 3}]),
        json!({"id": null, "result": {}}),
        json!({"method": 7}),
    ];
    let mut steps = vec![
        Step::line("Loading credentials..."),
        Step::line(""),
        Step::line(" \t\r"),
        Step::line("{\"jsonrpc\": \"2.0\", \"id\": 3, \"result\":"),
        Step::Raw(b"{\"id\":3,\"result\":{\"x\":\"\xff\"}}\n".to_vec()),
        Step::line("\u{1b}[2J\u{1b}]0;owned\u{7}"),
    ];
    steps.extend(values.into_iter().map(Step::Send));
    steps
}

#[test]
fn noise_is_ignored_in_every_state() {
    let then = |step: Step| [noise(), vec![step]].concat();
    let script = Script::conforming()
        .at_start(noise())
        .on("initialize", then(Step::Answer(json!({"protocolVersion": 1}))))
        .on("session/new", then(Step::Answer(json!({"sessionId": "s"}))))
        .on(
            "session/prompt",
            [
                noise(),
                vec![Step::say("a")],
                noise(),
                vec![Step::say("b")],
                then(Step::stop("end_turn")),
            ]
            .concat(),
        );
    let test = PromptTest::with(&script);
    let result = test.ask(&[]);
    result.answered("ab");
    assert!(result.all("noise").len() > 30);
    let methods: Vec<Value> =
        test.agent.received().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt"], "noise is never answered");
}

#[test]
fn a_batch_is_processed_in_order() {
    let chunk = |text: &str| match Step::say(text) {
        Step::Send(message) => message,
        _ => unreachable!("it is sent"),
    };
    let end = json!({"jsonrpc": "2.0", "id": "$id", "result": {"stopReason": "end_turn"}});
    let batch = Step::Send(json!([chunk("a"), 17, chunk("b"), [chunk("x")], end]));
    PromptTest::with(&turn([batch])).ask(&[]).answered("ab");
}

#[test]
fn messages_are_taken_in_many_forms() {
    let content = json!([{"type": "text", "text": "no "}, {"content": {"text": "jsonrpc"}}]);
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let stop = json!({"stopReason": "end_turn"});
    let steps = [
        Step::Send(json!({"method": "session/update",
            "params": {"sessionId": "$session", "update": update}})),
        Step::Send(json!({"id": "1", "result": {}})),
        Step::Send(json!({"id": 1, "error": {"code": 1, "message": "again"}})),
        Step::Send(json!({"id": 99, "result": {}})),
        Step::Send(json!({"id": "ours?", "result": {}})),
        Step::Raw(format!("{{\"id\":\"3\",\"result\":{stop}}}\r\n").into_bytes()),
        Step::Send(json!({"id": 3, "result": {"stopReason": "refusal"}})),
    ];
    PromptTest::with(&turn(steps)).ask(&[]).answered("no jsonrpc");
}

#[test]
fn the_last_line_needs_no_end() {
    let last = "{\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}";
    let steps = [Step::say("short"), Step::Raw(last.as_bytes().to_vec()), Step::Exit(0)];
    PromptTest::with(&turn(steps)).ask(&[]).answered("short");
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let steps = [
        Step::say("a"),
        Step::Fill(b'x', 33 << 20),
        Step::line(""),
        Step::say("b"),
        Step::stop("end_turn"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.answered("ab");
    assert_eq!(result.all("too_long")[0]["bytes"], 33 << 20);
}

#[test]
fn an_answer_that_is_too_long_fails_its_request() {
    let steps = [
        Step::Raw(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"x\":\"".to_vec()),
        Step::Fill(b'x', 33 << 20),
        Step::line("\"}}"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.failed(&["too long"]);
}

#[test]
fn a_line_without_an_end_is_no_reason_to_wait() {
    let steps = [Step::say("a"), Step::Fill(b'{', 100 << 20), Step::Exit(1)];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.failed(&["exit status: 1"]);
    assert_eq!(result.all("too_long")[0]["bytes"], 100 << 20);
}

#[test]
fn a_long_message_is_read() {
    let mut steps = vec![
        Step::Raw(
            b"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"session-1\",\
            \"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":\""
                .to_vec(),
        ),
        Step::Fill(b'x', 20 << 20),
    ];
    steps.extend([Step::line("\"}}}"), Step::stop("end_turn")]);
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    assert_eq!(result.end()["text"].as_str().unwrap().len(), 20 << 20);
}

#[test]
fn a_prompt_of_a_silent_agent_ends_by_a_signal() {
    let test = PromptTest::with(&Script::default().on("initialize", []));
    let running = aifo_tests::Running::start(&mut test.prompt(&[]));
    aifo_tests::eventually("it is asked", || test.agent.received().len() == 1);
    running.signal(aifo_tests::Signal::SIGINT);
    test.result(running.finish()).outcome.exited(130);
}

#[test]
fn an_unknown_version_is_refused() {
    let script =
        Script::conforming().on("initialize", [Step::Answer(json!({"protocolVersion": 2}))]);
    let test = PromptTest::with(&script);
    test.ask(&[]).failed(&["version 2"]);
    assert_eq!(test.agent.received().len(), 1, "nothing more is asked of it");
}

#[test]
fn required_authentication_is_reported() {
    let methods = json!([{"id": "key", "name": "An API key"}]);
    let script = Script::conforming()
        .on("initialize", [Step::Answer(json!({"protocolVersion": "1", "authMethods": methods}))])
        .on("session/new", [Step::Error(-32000, "log in first".into())]);
    PromptTest::with(&script).ask(&[]).failed(&[
        "log in first",
        "An API key",
        "hint: log in to it in a terminal",
    ]);
}
