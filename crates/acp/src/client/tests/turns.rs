//! Turns and their ends.
//!
//! Proves `spec/acp.md#turns`, `spec/acp.md#cancellation`.

use super::*;
use crate::tool_call::{CallState, ToolStatus, UnfinishedReason};
use crate::update::UpdateScope;

#[test]
fn a_turn_has_an_answer_and_counts() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.update(chunk("user_message_chunk", "hello?"));
    story.update(chunk("agent_thought_chunk", "hm"));
    story.agent_text("Hello ");
    story.update(json!({"sessionUpdate": "plan", "entries": [1]}));
    story.agent_text("World");
    story.update(json!({"sessionUpdate": "brand_new"}));
    assert_eq!(story.client.session("s").unwrap().draft(), "Hello World");
    story.reply(prompt, &json!({"stopReason": "end_turn", "usage": {"totalTokens": 3}}));
    assert!(story.ends().is_empty(), "late updates may follow");
    story.pass(SECOND);
    let end = story.ends()[0];
    assert_eq!((&end.outcome, end.turn, end.cancelled), (&Ok(StopReason::EndTurn), 1, None));
    assert_eq!(end.answer.text, "Hello World");
    assert_eq!(end.answer.blocks, [json!({"type": "text", "text": "Hello World"})]);
    assert_eq!(end.response["usage"]["totalTokens"], 3);
    let kinds: Vec<(&str, u64)> =
        end.counts.kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    let expected = [
        ("agent_message_chunk", 2),
        ("agent_thought_chunk", 1),
        ("brand_new", 1),
        ("plan", 1),
        ("user_message_chunk", 1),
    ];
    assert_eq!((kinds, end.counts.updates), (expected.to_vec(), 6));
}

#[test]
fn the_end_of_an_answer_may_arrive_late() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.agent_text("a");
    story.stop(prompt, "end_turn");
    story.pass(SECOND / 5);
    story.agent_text("b");
    story.pass(SECOND / 5);
    story.agent_text("c");
    assert_eq!(story.scopes(), [UpdateScope::Turn(1), UpdateScope::Late(1), UpdateScope::Late(1)]);
    assert_eq!(story.ends().len(), 0, "each extends it");
    story.pass(SECOND / 4);
    assert_eq!(story.ends()[0].answer.text, "abc");
    story.agent_text("after the deadline");
    assert_eq!(story.scopes().last(), Some(&UpdateScope::Late(1)));
    assert_eq!(story.ends().len(), 1);
}

#[test]
fn late_updates_keep_a_turn_open_for_a_bounded_time() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.stop(prompt, "end_turn");
    for _ in 0..20 {
        story.pass(SECOND / 10);
        story.agent_text("x");
    }
    assert_eq!(story.ends().len(), 1);
    assert_eq!(story.ends()[0].answer.text, "x".repeat(19), "at most two seconds");
}

#[test]
fn turns_are_independent() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.agent_text("one");
    story.update(tool("tool_call", "t", "in_progress"));
    story.stop(prompt, "end_turn");
    story.pass(SECOND);
    let state =
        |story: &Story| story.client.session("s").unwrap().tools().get("t").unwrap().state();
    assert_eq!(state(&story), CallState::Unfinished(UnfinishedReason::Abandoned));

    let prompt = story.prompt();
    story.agent_text("two");
    story.update(tool("tool_call_update", "t", "completed"));
    assert_eq!(state(&story), CallState::Ended(ToolStatus::Completed), "a background call");
    story.stop(prompt, "max_tokens");
    story.pass(SECOND);
    let ends = story.ends();
    assert_eq!((ends[0].answer.text.as_str(), ends[1].answer.text.as_str()), ("one", "two"));
    assert_eq!((ends[1].turn, &ends[1].outcome), (2, &Ok(StopReason::MaxTokens)));
    assert_eq!(ends[1].counts.updates, 2);
}

#[test]
fn one_prompt_at_a_time() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.take_written();
    let busy = Err(SendError::Busy("s".to_owned()));
    assert_eq!(story.client.prompt("s", json!([]), story.now), busy);
    story.client.cancel("s", CancelCause::Requested, story.now);
    assert_eq!(story.client.prompt("s", json!([]), story.now), busy);
    story.stop(prompt, "cancelled");
    assert_eq!(story.client.prompt("s", json!([]), story.now), busy, "more may come");
    assert!(!story.client.forget("s"));
    assert_eq!(story.sent(), ["session/cancel"], "no second prompt");
    story.pass(SECOND);
    assert!(story.client.prompt("s", json!([]), story.now).is_ok());
    let unknown = story.client.prompt("x", json!([]), story.now);
    assert_eq!(unknown, Err(SendError::UnknownSession("x".to_owned())));
}

#[test]
fn sessions_have_separate_turns() {
    let mut story = Story::open(Config::default());
    story.open_session("s2");
    let first = story.prompt();
    story.client.prompt("s2", json!([]), story.now).unwrap();
    story.agent_text("a");
    story.receive(&update_of("s2", chunk("agent_message_chunk", "b")));
    story.stop(first, "end_turn");
    story.stop(first + 1, "refusal");
    story.pass(SECOND);
    let ends: Vec<(&str, &str)> =
        story.ends().iter().map(|end| (end.session.as_str(), end.answer.text.as_str())).collect();
    assert_eq!(ends, [("s", "a"), ("s2", "b")]);
    assert!(story.client.forget("s2") && !story.client.forget("s2"));
}

#[test]
fn a_prompt_may_fail_or_have_an_unknown_stop_reason() {
    let rows = [
        (json!({"result": {"stopReason": "error"}}), Ok(StopReason::Other("error".to_owned()))),
        (json!({"result": null}), Ok(StopReason::Missing)),
        (
            json!({"error": {"code": -1, "message": "no"}}),
            Err(Failure::Agent(RpcError::new(-1, "no"))),
        ),
    ];
    for (mut answer, outcome) in rows {
        let mut story = Story::open(Config::default());
        let prompt = story.prompt();
        story.agent_text("partly");
        answer["id"] = json!(prompt);
        story.receive(&answer);
        story.pass(SECOND);
        let end = story.ends()[0];
        assert_eq!((&end.outcome, end.answer.text.as_str()), (&outcome, "partly"));
    }
}

#[test]
fn the_end_of_the_stream_fails_everything_at_once() {
    let mut story = Story::start(serving_all());
    story.client.initialize("test", "1", story.now).unwrap();
    story.receive_line("kimi is now called something else");
    story.eof();
    let ends: Vec<&Event> = story.events.iter().skip(1).collect();
    let [Event::Failed { method, failure: Failure::Ended, .. }, Event::Closed] = ends[..] else {
        panic!("{ends:?}");
    };
    assert_eq!(method, "initialize");
    assert_eq!(story.client.non_json(), "kimi is now called something else\n");

    let mut story = Story::open(serving_all());
    let list = story.client.request("session/list", json!({}), story.now).unwrap();
    story.client.new_session(json!({}), story.now).unwrap();
    story.prompt();
    story.agent_text("partly");
    story.ask_permission(7);
    story.receive(&json!({"id": 8, "method": "terminal/create"}));
    story.take_written();
    story.events.clear();
    story.eof();
    assert_eq!(story.take_written(), [Value::Null; 0], "the stream has ended");
    assert!(matches!(&story.events[0], Event::Failed { request, .. } if *request == list));
    assert!(matches!(&story.events[1], Event::Failed { method, .. } if method == "session/new"));
    let end = story.ends()[0];
    assert_eq!((&end.outcome, end.answer.text.as_str()), (&Err(Failure::Ended), "partly"));
    let withdrawn =
        |id: u64| Event::Request(RequestEvent::Withdrawn { id: id.into(), why: Withdrawal::Ended });
    assert_eq!(story.events[3..], [withdrawn(7), withdrawn(8), Event::Closed]);
    assert_eq!((story.client.state(), story.client.unanswered()), (&ConnectionState::Closed, 0));
    assert!(!story.client.decide(&Id::from(7), &PermissionOutcome::Cancelled, story.now));
    story.eof();
    assert_eq!(story.events.last(), Some(&Event::Closed));
    assert_eq!(story.events.len(), 6, "sent once");
}

#[test]
fn an_answered_turn_keeps_its_answer_at_the_end_of_the_stream() {
    let mut story = Story::open(Config::default());
    let prompt = story.prompt();
    story.client.receive(
        format!("{{\"id\":{prompt},\"result\":{{\"stopReason\":\"end_turn\"}}}}").as_bytes(),
        story.now,
    );
    story.eof();
    assert_eq!(story.ends()[0].outcome, Ok(StopReason::EndTurn), "a line without a newline");
}

#[test]
fn dropped_content_is_reported_once() {
    let limits = Limits { turn_bytes: 1000, turn_kinds: 1, ..Limits::default() };
    let mut story = Story::open(Config { limits, ..Config::default() });
    let prompt = story.prompt();
    for _ in 0..3 {
        story.agent_text(&"x".repeat(400));
    }
    story.update(tool("tool_call", "t", "completed"));
    story.update(json!({"sessionUpdate": "x".repeat(1000)}));
    let dropped = Event::Dropped { session: "s".to_owned() };
    assert_eq!(story.events.iter().filter(|event| **event == dropped).count(), 1);
    story.stop(prompt, "end_turn");
    story.pass(SECOND);
    let counts = &story.ends()[0].counts;
    assert_eq!((counts.updates, counts.dropped), (5, 2));
    assert_eq!(counts.kinds.get("(other)"), Some(&2));
}

#[test]
fn a_million_updates_stay_within_limits() {
    let limits = Limits { turn_updates: 1000, ..Limits::default() };
    let mut story = Story::open(Config { limits, ..Config::default() });
    let prompt = story.prompt();
    let line = format!("{}\n", update_of("s", chunk("agent_message_chunk", "x")));
    let many = line.repeat(1000);
    for _ in 0..10 {
        story.client.receive(many.as_bytes(), story.now);
        story.collect();
    }
    story.stop(prompt, "end_turn");
    story.pass(SECOND);
    let end = story.ends()[0];
    assert_eq!((end.counts.updates, end.counts.dropped), (10_000, 9000));
    assert_eq!(end.answer.text.len(), 1000);
}
