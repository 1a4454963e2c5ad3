//! Permission requests: one answer each, by a rule or by the editor.

use super::*;

#[test]
fn a_rule_decides_without_the_editor() {
    let mut story = Story::prompted();
    story.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "rawInput": {"command": "ls"}}),
    );
    story.events();
    story.editor();
    story.ask_permission(7);
    let events = story.events();
    let [RelayEvent::Request(RequestEvent::Permission { id: asked, request })] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((asked, request.session.as_str()), (&id(7), "s"));
    assert_eq!(request.call.as_ref().unwrap().command(), Some("ls".to_owned()), "the merged call");
    assert_eq!(request.params, permission(7)["params"]);
    let unheard = PermissionOutcome::Select(json!("maybe"));
    assert!(!story.relay.decide(&id(7), &unheard, story.now), "not offered");
    assert!(!story.relay.respond(&id(7), Ok(json!({})), story.now), "not a request for the host");
    assert!(story.relay.decide(&id(7), &PermissionOutcome::Select(json!("no")), story.now));
    assert!(
        !story.relay.decide(&id(7), &PermissionOutcome::Select(json!("no")), story.now),
        "once"
    );
    assert_eq!((story.agent(), story.editor()), (vec![selected(7, "no")], vec![]));
}

#[test]
fn the_editor_is_asked_and_its_answer_forwarded() {
    let map = PathMap::default().map_directory("/h", "/i");
    let mut story = Story::new(RelayConfig { map, ..RelayConfig::default() });
    let mut ask = permission(7);
    ask["params"]["toolCall"] =
        json!({"toolCallId": "t", "locations": [{"path": "/i/a"}], "title": "/i/a"});
    ask["more"] = json!(1);
    story.agent_sends(ask.clone());
    let Some(RelayEvent::Request(RequestEvent::Permission { request, .. })) = story.events().pop()
    else {
        panic!()
    };
    assert_eq!(request.params, ask["params"], "with the agent's paths");
    assert!(request.call.is_some(), "also without a prompt");
    assert!(story.relay.ask_editor(&id(7), story.now));
    assert!(!story.relay.ask_editor(&id(7), story.now));
    assert!(
        !story.relay.decide(&id(7), &PermissionOutcome::Cancelled, story.now),
        "forwarded to the editor"
    );
    let mut expected = ask;
    expected["id"] = json!(1);
    expected["params"]["toolCall"]["locations"][0]["path"] = json!("/h/a");
    assert_eq!(story.editor(), [expected]);
    let answer =
        json!({"outcome": {"outcome": "selected", "optionId": "yes"}, "_meta": {"by": "me"}});
    story.editor_sends(json!({"id": 1, "result": answer}));
    story.editor_sends(json!({"id": 1, "result": answer}));
    assert_eq!(story.agent(), [ok(7, answer)]);
    assert_eq!(story.relay.protocol_errors(Side::Editor).duplicate_responses, 1);
}

#[test]
fn a_reason_is_added_to_what_the_editor_shows() {
    let text = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
    let asked = |mut call: Value, reason: &str| {
        call["toolCallId"] = json!("t");
        let mut story = Story::new(RelayConfig::default());
        let mut ask = permission(7);
        ask["params"]["toolCall"] = call;
        story.agent_sends(ask);
        story.relay.explain_permission(&id(7), reason);
        assert!(story.relay.ask_editor(&id(7), story.now));
        story.relay.explain_permission(&id(7), "late");
        let asked = story.editor().pop().unwrap();
        asked["params"]["toolCall"]["content"].clone()
    };
    assert_eq!(asked(json!({}), "why"), json!([text("why")]));
    assert_eq!(asked(json!({"content": [text("a")]}), "why"), json!([text("a"), text("why")]));
    assert_eq!(asked(json!({"content": null}), ""), json!(null));
}

#[test]
fn an_editors_error_reaches_the_agent() {
    let mut story = Story::start();
    story.ask_permission(7);
    story.relay.ask_editor(&id(7), story.now);
    story.collect();
    story.editor_sends(json!({"id": 1, "error": {"code": -32601, "message": "no"}}));
    assert_eq!(story.agent(), [error(7, -32601, "no")]);
}

#[test]
fn a_permission_request_cancelled_by_the_agent_is_answered() {
    let mut story = Story::prompted();
    let withdraw = |id: u64| json!({"method": "$/cancel_request", "params": {"requestId": id}});
    story.ask_permission(7);
    story.ask_permission(8);
    story.relay.ask_editor(&id(8), story.now);
    story.collect();
    story.events();
    story.editor();
    story.agent_sends(withdraw(7));
    assert_eq!(
        story.events(),
        [RelayEvent::Request(RequestEvent::Withdrawn { id: id(7), why: Withdrawal::ByAgent })]
    );
    assert_eq!(story.agent(), [cancelled(7)]);
    story.agent_sends(withdraw(8));
    assert_eq!((story.agent(), story.events()), (vec![cancelled(8)], vec![]));
    let cancellation =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}});
    assert_eq!(story.editor(), [cancellation]);
    story.editor_sends(selected(1, "yes"));
    story.agent_sends(withdraw(8));
    assert_eq!(story.agent(), [] as [Value; 0]);
    assert_eq!(story.relay.protocol_errors(Side::Agent).unknown_cancellations, 1);
}

#[test]
fn a_permission_request_without_a_session_is_rejected() {
    let mut story = Story::start();
    story.agent_sends(
        json!({"id": 7, "method": "session/request_permission", "params": {"options": []}}),
    );
    assert_eq!((story.agent(), story.events()), (vec![error(7, -32602, "no session")], vec![]));
}

#[test]
fn cancelling_leaves_other_sessions_permission_requests() {
    let mut story = Story::prompted();
    story.ask_permission(7);
    let mut other = permission(8);
    other["params"]["sessionId"] = json!("other");
    story.agent_sends(other);
    story.cancel();
    assert_eq!(story.agent()[1..], [cancelled(7)]);
    assert!(story.relay.decide(&id(8), &PermissionOutcome::Select(json!("yes")), story.now));
    assert_eq!(story.agent(), [selected(8, "yes")]);
}

#[test]
fn a_permission_request_too_long_for_the_editor_is_cancelled() {
    let limits = Limits { frame_out: 300, ..Limits::default() };
    let mut story = Story::new(RelayConfig { limits, ..RelayConfig::default() });
    let mut ask = permission(7);
    ask["params"]["long"] = json!("x".repeat(300));
    story.agent_sends(ask);
    assert!(story.relay.ask_editor(&id(7), story.now));
    assert_eq!((story.agent(), story.editor()), (vec![cancelled(7)], vec![]));
}
