//! Cancelled turns and the agents' reactions.

use super::*;
use crate::tool_call::{CallState, ToolStatus, UnfinishedReason};

#[test]
fn a_turn_is_cancelled_once_and_an_idle_session_not_at_all() {
    let mut story = Story::open(Config::default());
    let cancel = |story: &mut Story| {
        let cancelling = story.client.cancel("s", CancelCause::Requested, story.now);
        story.collect();
        cancelling
    };
    assert_eq!(cancel(&mut story), CancelOutcome::NotNeeded);
    let prompt = story.client.prompt("s", json!([]), story.now);
    assert_eq!(prompt, Ok(1));
    assert_eq!(cancel(&mut story), CancelOutcome::Sent);
    assert_eq!(cancel(&mut story), CancelOutcome::NotNeeded);
    assert_eq!(story.sent(), ["session/prompt", "session/cancel"]);
    let id = story.client.agent.sent.iter().next().unwrap().0;
    story.stop(id, "cancelled");
    assert_eq!(cancel(&mut story), CancelOutcome::NotNeeded, "the turn has ended");
    assert_eq!(
        story.client.cancel("x", CancelCause::Requested, story.now),
        CancelOutcome::NotNeeded
    );
    assert_eq!(story.sent(), [""; 0]);
}

#[test]
fn a_cancelled_turn_is_cancelled_whatever_the_agent_answers() {
    let error = RpcError::new(-32603, "aborted");
    let rows = [
        (json!({"result": {"stopReason": "cancelled"}}), Ok(StopReason::Cancelled)),
        (json!({"result": {"stopReason": "end_turn"}}), Ok(StopReason::EndTurn)),
        (json!({"error": {"code": -32603, "message": "aborted"}}), Err(Failure::Agent(error))),
    ];
    for (mut answer, outcome) in rows {
        let mut story = Story::open(Config::default());
        let prompt = story.prompt();
        story.agent_text("partly");
        for id in ["a", "b"] {
            story.update(tool("tool_call", id, "in_progress"));
        }
        story.client.cancel("s", CancelCause::Requested, story.now);
        let state = |story: &Story, id: &str| {
            story.client.session("s").unwrap().tools().get(id).unwrap().state()
        };
        assert_eq!(
            state(&story, "a"),
            CallState::Unfinished(UnfinishedReason::Cancelled),
            "at once"
        );
        story.update(tool("tool_call_update", "a", "completed"));
        assert_eq!(state(&story, "a"), CallState::Ended(ToolStatus::Completed), "completed before");
        answer["id"] = json!(prompt);
        story.receive(&answer);
        story.update(tool("tool_call_update", "b", "failed"));
        assert_eq!(state(&story, "b"), CallState::Ended(ToolStatus::Failed));
        story.pass(SECOND);
        let end = story.ends()[0];
        assert_eq!((&end.outcome, end.cancelled), (&outcome, Some(CancelCause::Requested)));
        assert_eq!(end.answer.text, "partly");
        story.pass(10 * SECOND);
        assert!(!story.events.iter().any(|event| matches!(event, Event::Overdue { .. })));
    }
}

#[test]
fn an_agent_that_ignores_a_cancellation_is_overdue() {
    let mut story = Story::open(Config::default());
    story.prompt();
    story.client.cancel("s", CancelCause::Requested, story.now);
    story.pass(4 * SECOND);
    story.agent_text("I go on");
    story.pass(SECOND);
    let overdue = Event::Overdue { session: "s".to_owned() };
    assert_eq!(story.events.last(), Some(&overdue), "updates do not extend it");
    story.pass(100 * SECOND);
    assert_eq!(story.events.iter().filter(|event| **event == overdue).count(), 1);
    story.eof();
    let end = story.ends()[0];
    assert_eq!((&end.outcome, end.cancelled), (&Err(Failure::Ended), Some(CancelCause::Requested)));
}

#[test]
fn an_idle_turn_is_cancelled() {
    let mut story = Story::open(Config::default());
    story.prompt();
    story.pass(599 * SECOND);
    story.receive_line("{\"method\":\"still/here\"}");
    story.pass(599 * SECOND);
    story.take_written();
    assert_eq!(story.ends().len(), 0);
    story.pass(SECOND);
    assert_eq!(story.sent(), ["session/cancel"]);
    story.eof();
    assert_eq!(story.ends()[0].cancelled, Some(CancelCause::Idle));
}

#[test]
fn an_agent_with_a_pending_request_is_not_idle() {
    let mut story = Story::open(serving_all());
    story.prompt();
    story.receive(&json!({"id": 7, "method": "terminal/wait_for_exit", "params": {}}));
    story.take_written();
    story.pass(5000 * SECOND);
    assert_eq!(story.sent(), [""; 0]);
    assert!(story.client.respond(&Id::from(7), Ok(json!({})), story.now));
    assert_eq!(story.client.poll_timeout(), Some(story.now + 600 * SECOND), "idle from here on");
}

#[test]
fn a_turn_may_have_a_total_timeout() {
    let limits = Limits { prompt_total: Some(10 * SECOND), ..Limits::default() };
    let mut story = Story::open(Config { limits, ..Config::default() });
    story.prompt();
    story.take_written();
    for _ in 0..10 {
        assert_eq!(story.sent(), [""; 0]);
        story.agent_text("x");
        story.pass(SECOND);
    }
    assert_eq!(story.sent(), ["session/cancel"]);
    story.eof();
    assert_eq!(story.ends()[0].cancelled, Some(CancelCause::TooLong));
}
