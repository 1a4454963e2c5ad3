//! The end of either stream, at any time.
//!
//! Proves `spec/acp-relay.md#disconnects`.

use super::*;

/// A turn with a queued prompt, another request of the editor, and three of the agent: a permission
/// request to decide, one at the editor, one to serve.
fn busy_story() -> Story {
    let mut story = Story::new(RelayConfig { files: MethodServer::Host, ..RelayConfig::default() });
    story.prompt("p");
    story.prompt("q");
    story.editor_sends(
        json!({"id": "m", "method": "session/set_mode", "params": {"sessionId": "s"}}),
    );
    story.ask_permission(7);
    story.ask_permission(8);
    story.relay.ask_editor(&id(8), story.now);
    story.agent_sends(json!({"id": 9, "method": "fs/read_text_file", "params": {}}));
    story.agent_sends(json!({"id": 10, "method": "elicitation/create", "params": {}}));
    assert_eq!((story.relay.unanswered(Side::Editor), story.relay.unanswered(Side::Agent)), (3, 4));
    story.editor();
    story.agent();
    story.events();
    story
}

#[test]
fn the_end_of_the_agent_fails_everything_with_the_reason() {
    let mut story = busy_story();
    story.relay.set_end_reason("exit code 1: no such model");
    story.eof(Side::Agent);
    let text = "the agent has ended: exit code 1: no such model";
    let withdrawn = |id: u64| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
    let expected = [
        error("p", -32603, text),
        error("m", -32603, text),
        error("q", -32603, text),
        withdrawn(1),
        withdrawn(2),
    ];
    assert_eq!(story.editor(), expected);
    assert_eq!(story.agent(), [] as [Value; 0]);
    let events = story.events();
    let withdrawn = |number: u64| {
        RelayEvent::Request(RequestEvent::Withdrawn { id: id(number), why: Withdrawal::Ended })
    };
    assert_eq!(events[1..], [withdrawn(7), withdrawn(9), RelayEvent::Ended { side: Side::Agent }]);
    let RelayEvent::TurnEnded(turn) = &events[0] else { panic!("{events:?}") };
    assert_eq!(turn.outcome, Err(RpcError::new(-32603, text)));
    assert!(!story.relay.decide(&id(7), &PermissionOutcome::Cancelled, story.now));
    assert!(!story.relay.respond(&id(9), Ok(json!({})), story.now));
    // Later requests of the editor get the same answer.
    story.prompt("late");
    story.cancel();
    story.editor_sends(json!({"id": 1, "result": {}}));
    assert_eq!((story.editor(), story.agent()), (vec![error("late", -32603, text)], vec![]));
    story.eof(Side::Editor);
    let expected =
        [RelayEvent::Ended { side: Side::Editor }, RelayEvent::Released, RelayEvent::Closed];
    assert_eq!(story.events(), expected);
    assert_eq!((story.relay.poll_timeout(), story.relay.poll_event()), (None, None));
}

#[test]
fn the_end_of_the_editor_cancels_every_turn() {
    let mut story = busy_story();
    story.eof(Side::Editor);
    let expected = [
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
        cancelled(7),
        cancelled(8),
        error(10, -32603, "the editor has ended"),
    ];
    assert_eq!(story.agent(), expected);
    let withdrawn =
        RelayEvent::Request(RequestEvent::Withdrawn { id: id(7), why: Withdrawal::TurnCancelled });
    assert_eq!(story.events(), [withdrawn, RelayEvent::Ended { side: Side::Editor }]);
    // Host requests are still served, the editor's are not.
    assert!(story.relay.respond(&id(9), Ok(json!({})), story.now));
    story.agent_sends(json!({"id": 11, "method": "elicitation/create"}));
    assert_eq!(story.agent(), [ok(9, json!({})), error(11, -32603, "the editor has ended")]);
    story.agent_sends(json!({"id": 2, "result": {}}));
    assert_eq!(story.events(), []);
    story.stop(1, "cancelled");
    let events = story.events();
    assert!(matches!(events[0], RelayEvent::TurnEnded(_)));
    assert_eq!(events[1..], [RelayEvent::Released]);
    let expected = [stopped("q", "cancelled"), ok("m", json!({})), stopped("p", "cancelled")];
    assert_eq!(story.editor(), expected, "the editor may still read");
    story.eof(Side::Agent);
    assert_eq!(story.events(), [RelayEvent::Ended { side: Side::Agent }, RelayEvent::Closed]);
}

#[test]
fn an_agent_that_does_not_answer_is_released_after_the_grace_period() {
    let mut story = Story::prompted();
    story.ask_permission(7);
    story.eof(Side::Editor);
    story.events();
    story.wait(Duration::from_secs(4));
    assert_eq!(story.events(), []);
    story.wait(Duration::from_secs(1));
    let expected = [RelayEvent::Overdue { session: "s".into() }, RelayEvent::Released];
    assert_eq!(story.events(), expected);
    assert_eq!(story.relay.poll_timeout(), None);
    story.relay.set_end_reason("ended");
    story.eof(Side::Agent);
    assert_eq!(story.editor(), [error("p", -32603, "the agent has ended: ended")]);
}

/// Between turns: a permission request to decide, one at the editor, a file request to serve, and
/// another request at the editor.
fn idle_story() -> Story {
    let mut story = Story::new(RelayConfig { files: MethodServer::Host, ..RelayConfig::default() });
    for number in [7, 8] {
        story.ask_permission(number);
    }
    story.relay.ask_editor(&id(8), story.now);
    story.agent_sends(json!({"id": 9, "method": "fs/read_text_file", "params": {}}));
    story.agent_sends(json!({"id": 10, "method": "elicitation/create", "params": {}}));
    assert_eq!(story.relay.unanswered(Side::Agent), 4);
    story.editor();
    story.events();
    story
}

#[test]
fn an_editor_that_ends_between_turns_leaves_no_pending_request() {
    let mut story = idle_story();
    // Unparsed input of the agent.
    story.relay.receive(Side::Agent, format!("{}\n", permission(11)).as_bytes(), story.now);
    story.relay.receive_eof(Side::Editor, story.now);
    let mut events = Vec::new();
    while let Some(event) = story.relay.poll_event() {
        if let RelayEvent::Request(RequestEvent::Permission { id, .. }) = &event {
            story.relay.ask_editor(id, story.now);
        }
        events.push(event);
    }
    let withdrawn =
        RelayEvent::Request(RequestEvent::Withdrawn { id: id(9), why: Withdrawal::Ended });
    assert_eq!(events.last(), Some(&withdrawn), "the answers are not read yet");
    assert!(!story.relay.respond(&id(9), Ok(json!({})), story.now), "it is answered");
    story.agent_sends(json!({"id": 12, "method": "fs/read_text_file", "params": {}}));
    let gone = |id: u64| error(id, -32603, "the editor has ended");
    let mut answers = story.agent();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let expected = [cancelled(7), cancelled(8), gone(9), gone(10), cancelled(11), gone(12)];
    assert_eq!(answers, expected);
    assert_eq!(story.events(), [RelayEvent::Released]);
    assert_eq!((story.relay.unanswered(Side::Agent), story.relay.poll_timeout()), (0, None));
}

#[test]
fn an_agent_that_does_not_read_is_released_after_the_grace_period() {
    let mut story = idle_story();
    story.relay.receive_eof(Side::Editor, story.now);
    while story.relay.poll_event().is_some() {}
    assert!(story.relay.backlog(Side::Agent) > 0);
    story.now += Duration::from_secs(4);
    story.relay.handle_timeout(story.now);
    assert_eq!(story.relay.poll_event(), None);
    story.now += Duration::from_secs(1);
    story.relay.handle_timeout(story.now);
    assert_eq!(story.relay.poll_event(), Some(RelayEvent::Released));
    assert_eq!((story.relay.poll_event(), story.relay.poll_timeout()), (None, None));
}

#[test]
fn an_editor_without_pending_requests_is_released_at_once() {
    let mut story = Story::start();
    story.eof(Side::Editor);
    assert_eq!(story.events(), [RelayEvent::Ended { side: Side::Editor }, RelayEvent::Released]);
    assert_eq!((story.agent(), story.relay.poll_timeout()), (vec![], None));
    // Without an editor only a rule can decide a later permission request.
    story.ask_permission(7);
    assert!(story.relay.ask_editor(&id(7), story.now));
    assert_eq!((story.agent(), story.editor()), (vec![cancelled(7)], vec![]));
}

#[test]
fn a_last_line_without_a_newline_is_read() {
    let mut story = Story::prompted();
    story.relay.receive(Side::Agent, br#"{"id":1,"result":{"stopReason":"end_turn"}}"#, story.now);
    story.eof(Side::Agent);
    assert_eq!(story.editor(), [stopped("p", "end_turn")]);
    assert!(!story.relay.should_read(Side::Agent) && story.relay.should_read(Side::Editor));
}

#[test]
fn an_error_without_a_reason_has_none() {
    let mut story = Story::prompted();
    story.eof(Side::Agent);
    assert_eq!(story.editor(), [error("p", -32603, "the agent has ended")]);
}
