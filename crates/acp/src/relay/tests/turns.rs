//! Prompts, one at a time, and the ends of turns.
//!
//! Proves `spec/acp-relay.md#forwarded-permission-requests`, `spec/acp-relay.md#turns`.

use super::*;

fn cancel() -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s", "_meta": 1}})
}

#[test]
fn a_queued_prompt_is_sent_when_the_first_is_answered() {
    let mut story = Story::prompted();
    story.prompt("q");
    story.prompt("r");
    story.editor_sends(prompt_of("other", "o"));
    let sent = story.agent();
    assert_eq!(sent.len(), 1, "the other session's");
    assert_eq!((&sent[0]["id"], &sent[0]["params"]["sessionId"]), (&json!(2), &json!("other")));
    story.stop(1, "end_turn");
    assert_eq!(story.editor(), [stopped("p", "end_turn")]);
    let sent = story.agent();
    assert_eq!((&sent[0]["id"], &sent[0]["params"]), (&json!(3), &prompt_of("s", "q")["params"]));
    story.agent_sends(json!({"id": 3, "error": {"code": -1, "message": "no", "data": 7}}));
    assert_eq!(story.agent()[0]["params"], prompt_of("s", "r")["params"]);
    story.stop(4, "brand_new");
    story.editor();
    let turns = story.turns();
    let outcomes: Vec<_> = turns.iter().map(|turn| (turn.turn, turn.outcome.clone())).collect();
    let expected = [
        (1, Ok(StopReason::EndTurn)),
        (2, Err(RpcError::new(-1, "no"))),
        (3, Ok(StopReason::Other("brand_new".into()))),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn queued_prompts_are_bounded_in_number_and_size() {
    let mut story =
        Story::new(RelayConfig { queued_prompts: 2, queued_bytes: 4000, ..RelayConfig::default() });
    for id in ["p", "q", "r", "s"] {
        story.prompt(id);
    }
    assert_eq!(story.editor(), [error("s", -32603, "busy")]);
    let mut long = prompt_of("other", "o");
    story.editor_sends(long.clone());
    long["id"] = json!("long");
    long["params"]["prompt"] = json!("x".repeat(4000));
    story.editor_sends(long);
    assert_eq!(story.editor(), [error("long", -32603, "busy")]);
    assert_eq!(story.relay.protocol_errors(Side::Editor).excess_requests, 2);
}

#[test]
fn cancelling_notifies_the_agent_then_answers_permissions_then_queued_prompts() {
    let mut story = Story::prompted();
    story.prompt("q");
    story.ask_permission(7);
    story.ask_permission(8);
    assert!(story.relay.ask_editor(&id(8), story.now));
    let asked = story.editor();
    assert_eq!(asked[0]["method"], "session/request_permission");
    story.events();
    story.cancel();
    assert_eq!(story.agent(), [cancel(), cancelled(7), cancelled(8)]);
    assert_eq!(story.editor(), [stopped("q", "cancelled")]);
    let withdrawn =
        RelayEvent::Request(RequestEvent::Withdrawn { id: id(7), why: Withdrawal::TurnCancelled });
    assert_eq!(story.events(), [withdrawn]);
    assert!(!story.relay.decide(&id(7), &PermissionOutcome::Cancelled, story.now));
    // Late answers of the editor are dropped; later requests of the agent are answered at once.
    story.editor_sends(selected(asked[0]["id"].clone(), "yes"));
    assert_eq!(story.agent(), [] as [Value; 0]);
    assert_eq!(story.relay.protocol_errors(Side::Editor).duplicate_responses, 1);
    story.ask_permission(9);
    assert_eq!((story.agent(), story.events()), (vec![cancelled(9)], vec![]));
    story.cancel();
    assert_eq!(story.agent(), [] as [Value; 0], "sent once");
    story.stop(1, "cancelled");
    assert_eq!(story.editor(), [stopped("p", "cancelled")]);
    let turns = story.turns();
    assert!(turns[0].was_cancelled);
    assert_eq!(turns[0].outcome, Ok(StopReason::Cancelled));
    story.prompt("n");
    assert_eq!(
        story.agent()[0]["params"],
        prompt_of("s", "n")["params"],
        "the next turn is a new one"
    );
}

#[test]
fn an_idle_session_is_not_cancelled() {
    let mut story = Story::prompted();
    story.stop(1, "end_turn");
    story.editor();
    story.cancel();
    story.editor_sends(json!({"method": "session/cancel"}));
    story.editor_sends(json!({"method": "session/cancel", "params": {"sessionId": "unheard of"}}));
    assert_eq!((story.agent(), story.editor()), (vec![], vec![]));
    // But a permission request between turns is answered.
    story.ask_permission(7);
    story.cancel();
    assert_eq!(story.agent(), [cancelled(7)]);
}

#[test]
fn a_prompt_after_a_cancel_is_sent_when_the_turn_ends() {
    let mut story = Story::prompted();
    story.cancel();
    story.prompt("q");
    assert_eq!(story.agent(), [cancel()]);
    story.stop(1, "end_turn");
    assert_eq!(story.agent()[0]["params"], prompt_of("s", "q")["params"]);
    assert_eq!(story.editor(), [stopped("p", "end_turn")]);
    assert!(story.turns()[0].was_cancelled, "whatever the stop reason");
}

#[test]
fn a_queued_prompt_can_be_cancelled() {
    let mut story = Story::prompted();
    story.prompt("q");
    story.prompt("r");
    story.editor_sends(json!({"method": "$/cancel_request", "params": {"requestId": "q"}}));
    assert_eq!(story.editor(), [stopped("q", "cancelled")]);
    story.stop(1, "end_turn");
    assert_eq!(story.agent()[0]["params"], prompt_of("s", "r")["params"]);
}

#[test]
fn an_overdue_agent_is_reported_once() {
    let mut story = Story::prompted();
    story.events();
    assert_eq!(story.relay.poll_timeout(), None, "turns have no timeout");
    story.cancel();
    let until = story.relay.poll_timeout().unwrap();
    assert_eq!(until, story.now + Limits::default().cancel_grace);
    story.wait(Duration::from_secs(4));
    assert_eq!(story.events(), []);
    story.wait(Duration::from_secs(1));
    assert_eq!(story.events(), [RelayEvent::Overdue { session: "s".into() }]);
    story.wait(Duration::from_secs(60));
    assert_eq!((story.events(), story.relay.poll_timeout()), (vec![], None));
    story.stop(1, "cancelled");
    assert_eq!(story.editor(), [stopped("p", "cancelled")], "late");
}

#[test]
fn a_turn_is_counted_and_its_tool_calls_are_reported() {
    let mut story = Story::prompted();
    story.update(
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}),
    );
    story.update(json!({"sessionUpdate": "agent_message_chunk"}));
    story.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}),
    );
    story.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "ls"}));
    story.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "status": "completed"}));
    story.update(json!({"no": "kind"}));
    story.agent_sends(json!({"method": "session/update", "params": {"update": {}}}));
    story.agent_sends(
        json!({"method": "session/update", "params": {"sessionId": "other", "update": {}}}),
    );
    assert_eq!(story.editor().len(), 8, "everything is forwarded");
    assert_eq!(story.relay.protocol_errors(Side::Agent).invalid_updates, 1);
    assert_eq!(story.relay.tools("s").unwrap().get("t").unwrap().title(), "ls");
    story.stop(1, "end_turn");
    let events = story.events();
    let tools = events.iter().filter(|event| matches!(event, RelayEvent::Tool { .. })).count();
    assert_eq!(tools, 2, "two changes of state");
    let Some(RelayEvent::TurnEnded(turn)) = events.last() else { panic!("{events:?}") };
    let counts: Vec<(&str, u64)> =
        turn.counts.kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(counts, [("agent_message_chunk", 2), ("tool_call", 1), ("tool_call_update", 2)]);
    story.update(json!({"sessionUpdate": "usage_update"}));
    assert_eq!(story.editor().len(), 2, "late ones are forwarded, too");
}

#[test]
fn only_small_fields_of_a_tool_call_are_kept() {
    let mut story = Story::prompted();
    let (small, large) = ("x".repeat(1000), "x".repeat(100_000));
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "rawInput": small, "content": small});
    story.update(call);
    story.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": large}));
    assert_eq!(story.editor()[1]["params"]["update"]["content"], json!(large));
    let call = story.relay.tools("s").unwrap().get("t").unwrap();
    assert_eq!((call.member("rawInput"), call.member("content")), (Some(&json!(small)), None));
}

#[test]
fn sessions_are_bounded() {
    let mut story = Story::new(RelayConfig { sessions: 2, ..RelayConfig::default() });
    for session in ["a", "b"] {
        story.editor_sends(prompt_of(session, session));
    }
    story.editor_sends(prompt_of("c", "c"));
    assert_eq!(story.editor(), [error("c", -32603, "busy")], "both have a turn");
    story.stop(2, "end_turn");
    story.editor_sends(prompt_of("c", "d"));
    assert_eq!(story.editor(), [stopped("b", "end_turn")]);
    assert!(story.relay.tools("a").is_some() && story.relay.tools("b").is_none());
    story.stop(3, "end_turn");
    assert_eq!(story.editor(), [stopped("d", "end_turn")]);
}
