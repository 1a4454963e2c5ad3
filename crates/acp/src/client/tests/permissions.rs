//! Permission requests: decided, timed out, cancelled; each answered once.

use super::*;
use crate::permission::{PermissionAnswer, PermissionRequest};

fn requests(story: &Story) -> Vec<&PermissionRequest> {
    let mut requests = Vec::new();
    for event in &story.events {
        if let Event::Request(RequestEvent::Permission { request, .. }) = event {
            requests.push(&**request);
        }
    }
    requests
}

#[test]
fn a_decision_is_answered_once_with_its_option() {
    for (verdict, option) in [(PermissionAnswer::Allow, "yes"), (PermissionAnswer::Deny, "no")] {
        let mut story = Story::open(Config::default());
        story.prompt();
        story.take_written();
        story.ask_permission(7);
        let decision = requests(&story)[0].choose(verdict, None).unwrap();
        let id = Id::from(7);
        let invented = PermissionOutcome::Select(json!("allow-once"));
        assert!(!story.client.decide(&id, &invented, story.now), "not offered");
        assert!(story.client.decide(&id, &decision, story.now));
        assert!(!story.client.decide(&id, &decision, story.now), "once");
        let expected = json!({"jsonrpc": "2.0", "id": 7,
            "result": {"outcome": {"outcome": "selected", "optionId": option}}});
        assert_eq!(story.take_written(), [expected]);
        assert_eq!(story.client.unanswered(), 0);
    }
}

#[test]
fn a_permission_request_has_the_known_call() {
    let mut story = Story::open(Config::default());
    story.prompt();
    story.ask_permission(7);
    let call = requests(&story)[0].call.as_ref().unwrap();
    assert_eq!((call.id(), call.title()), ("t", ""));
    story.update(json!({"sessionUpdate": "tool_call", "toolCallId": "u", "title": "ls",
        "rawInput": {"command": "ls"}}));
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "u", "status": "pending"}});
    story.receive(&json!({"id": "p", "method": "session/request_permission", "params": params}));
    let call = requests(&story)[1].call.as_ref().unwrap();
    assert_eq!((call.title(), call.command().as_deref()), ("ls", Some("ls")));
    assert_eq!(requests(&story)[1].options, []);
    let params = json!({"sessionId": "s"});
    story.receive(&json!({"id": 9, "method": "session/request_permission", "params": params}));
    assert_eq!(requests(&story)[2].call, None);
    assert_eq!(story.client.session("s").unwrap().tools().len(), 2, "no duplicate call");
}

#[test]
fn a_permission_request_without_a_session_is_rejected() {
    let mut story = Story::open(Config::default());
    for params in [json!({"sessionId": "x"}), json!({}), json!(null)] {
        story.receive(&json!({"id": 7, "method": "session/request_permission", "params": params}));
        assert_eq!(story.sent(), ["7 -32602"]);
    }
    assert_eq!(story.events, []);
}

#[test]
fn a_timeout_cancels_the_turn_then_the_permission_request() {
    let mut story = Story::open(Config::default());
    story.prompt();
    story.ask_permission(7);
    story.take_written();
    story.pass(299 * SECOND);
    assert_eq!(story.sent(), [""; 0]);
    story.pass(SECOND);
    assert_eq!(story.sent(), ["session/cancel", "7 \"cancelled\""]);
    let withdrawn =
        Event::Request(RequestEvent::Withdrawn { id: Id::from(7), why: Withdrawal::TimedOut });
    assert_eq!(story.events.last(), Some(&withdrawn));
    story.pass(5 * SECOND);
    assert_eq!(story.events.last(), Some(&Event::Overdue { session: "s".to_owned() }));
    assert_eq!(story.sent(), [""; 0]);
}

#[test]
fn a_timeout_between_turns_cancels_no_turn() {
    let mut story = Story::open(Config::default());
    story.ask_permission(7);
    story.pass(300 * SECOND);
    assert_eq!(story.sent(), ["7 \"cancelled\""]);
    assert_eq!(story.client.poll_timeout(), None);
}

#[test]
fn a_cancelled_permission_request_is_answered_once() {
    let mut story = Story::open(Config::default());
    story.prompt();
    story.take_written();
    story.ask_permission(7);
    for _ in 0..2 {
        story.receive(&json!({"method": "$/cancel_request", "params": {"requestId": 7}}));
    }
    assert_eq!(story.sent(), ["7 \"cancelled\""]);
    let withdrawn =
        Event::Request(RequestEvent::Withdrawn { id: Id::from(7), why: Withdrawal::ByAgent });
    assert_eq!(story.events.iter().filter(|event| **event == withdrawn).count(), 1);
    assert!(!story.client.decide(&Id::from(7), &PermissionOutcome::Cancelled, story.now));
    assert_eq!(story.client.protocol_errors().unknown_cancellations, 1);
}

#[test]
fn cancelling_answers_pending_and_later_permission_requests() {
    let mut story = Story::open(Config::default());
    story.open_session("s2");
    story.prompt();
    story.take_written();
    story.ask_permission(7);
    story.ask_permission(8);
    let params = json!({"sessionId": "s2", "toolCall": {"toolCallId": "t"}});
    story.receive(&json!({"id": 9, "method": "session/request_permission", "params": params}));
    assert_eq!(story.client.cancel("s", CancelCause::Requested, story.now), CancelOutcome::Sent);
    assert_eq!(story.sent(), ["session/cancel", "7 \"cancelled\"", "8 \"cancelled\""]);
    story.ask_permission(10);
    assert_eq!(story.sent(), ["10 \"cancelled\""]);
    assert_eq!(requests(&story).len(), 3, "the last was answered at once");
    assert_eq!(story.client.unanswered(), 1, "the other session's is pending");
    assert!(story.client.decide(&Id::from(9), &PermissionOutcome::Cancelled, story.now));
}
