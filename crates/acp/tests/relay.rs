//! Properties for any traffic of an editor and an agent, split and interleaved in any way: nothing panics,
//! each request has one answer, a session has one prompt at a time, and memory is bounded.

#[path = "checked/relay.rs"]
mod checked;
#[path = "../../wire/tests/strategy/pieces.rs"]
mod pieces;

use std::time::{Duration, Instant};

use aifo_acp::{Relay, RelayEvent, RequestEvent, Side};
use checked::{Action, CheckedRelay, config};
use pieces::pieces;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn any_traffic_is_handled_and_splits_change_nothing(
        script in vec(step(), 0..60), lengths in vec(1..60usize, 1..4), ends in any::<Ends>(),
    ) {
        let whole = play(&script, &[usize::MAX], ends);
        prop_assert_eq!(play(&script, &lengths, ends), whole);
    }

    #[test]
    fn an_end_that_does_not_read_has_a_bounded_backlog(script in vec(step(), 0..200)) {
        let mut relay = Relay::new(config(), Instant::now());
        let now = Instant::now();
        for Step { from, line, .. } in script {
            if relay.should_read(from) {
                relay.receive(from, format!("{line}\n").as_bytes(), now);
            }
            while let Some(event) = relay.poll_event() {
                // The caller answers at once; the ends never read.
                match event {
                    RelayEvent::Request(RequestEvent::Permission { id, .. }) => _ = relay.ask_editor(&id, now),
                    RelayEvent::Request(RequestEvent::Host { id, .. }) => _ = relay.respond(&id, Ok(json!({})), now),
                    _ => {}
                }
            }
            for side in [Side::Editor, Side::Agent] {
                // The limit for reading, and the output of one message.
                prop_assert!(relay.backlog(side) <= 2 * 500 + 300 + 12 * 300);
            }
        }
    }
}

/// A step: one end sends a line, then the caller acts, then time passes.
#[derive(Clone, Debug)]
struct Step {
    from: Side,
    line: String,
    action: Action,
    seconds: u64,
}

/// The order in which the ends disconnect.
#[derive(Clone, Copy, Debug)]
enum Ends {
    EditorFirst,
    AgentFirst,
}

impl Arbitrary for Ends {
    type Parameters = ();
    type Strategy = proptest::sample::Select<Ends>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        select(vec![Ends::EditorFirst, Ends::AgentFirst])
    }
}

fn step() -> impl Strategy<Value = Step> {
    let line = prop_oneof![
        (Just(Side::Editor), editor_line()),
        (Just(Side::Agent), agent_line()),
        (select(vec![Side::Editor, Side::Agent]), odd_line()),
    ];
    let action = select(vec![Action::Decide, Action::AskEditor, Action::Respond, Action::Wait]);
    (line, action, 0..4u64).prop_map(|((from, line), action, seconds)| Step {
        from,
        line,
        action,
        seconds,
    })
}

fn editor_line() -> impl Strategy<Value = String> {
    let session = || select(vec!["s", "s", "t", "u"]);
    prop_oneof![
        1 => id().prop_map(|id| json!({"id": id, "method": "initialize", "params": {"clientCapabilities": {"terminal": true}}})),
        1 => (id(), select(vec!["/h/a", "/elsewhere"])).prop_map(|(id, cwd)| json!({"id": id, "method": "session/new", "params": {"cwd": cwd}})),
        6 => (id(), session()).prop_map(|(id, session)| json!({"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": []}})),
        3 => session().prop_map(|session| json!({"method": "session/cancel", "params": {"sessionId": session}})),
        1 => id().prop_map(|id| json!({"id": id, "method": "_vendor"})),
        4 => (1..8u64).prop_map(|id| json!({"id": id, "result": {"outcome": {"outcome": "cancelled"}}})),
        2 => id().prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
    ]
    .prop_map(|value| value.to_string())
}

fn agent_line() -> impl Strategy<Value = String> {
    let session = || select(vec!["s", "s", "t", "v"]);
    let update =
        (session(), select(vec!["tool_call", "tool_call_update", "plan", "a", "b"]), 0..8u8);
    prop_oneof![
        6 => (1..20u64).prop_map(|id| json!({"id": id, "result": {"stopReason": "end_turn"}})),
        1 => (1..20u64).prop_map(|id| json!({"id": id.to_string(), "error": {"code": -32002, "data": {"uri": "file:///i/a"}}})),
        3 => update.prop_map(|(session, kind, call)| json!({"method": "session/update", "params": {"sessionId": session,
            "update": {"sessionUpdate": kind, "toolCallId": call.to_string(), "content": {"type": "diff", "path": "/i/a"}}}})),
        4 => (id(), session()).prop_map(|(id, session)| json!({"id": id, "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": {"toolCallId": "1"}, "options": [{"optionId": "y"}]}})),
        2 => id().prop_map(|id| json!({"id": id, "method": "fs/read_text_file", "params": {"path": "/i/a"}})),
        2 => id().prop_map(|id| json!({"id": id, "method": "terminal/create"})),
        1 => id().prop_map(|id| json!({"id": id, "method": "fs/unheard_of"})),
        2 => id().prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
    ]
    .prop_map(|value| value.to_string())
}

fn odd_line() -> impl Strategy<Value = String> {
    let long = "x".repeat(300);
    let fitting = "x".repeat(180);
    prop_oneof![
        Just("Loading credentials...".to_owned()),
        Just("17".to_owned()),
        Just(
            r#"[{"id":"b","method":"_vendor"},{"id":1,"result":{}},17,{"id":"c","method":"x"}]"#
                .to_owned()
        ),
        (id(), Just(long)).prop_map(|(id, long)| {
            json!({"id": id, "method": "long", "params": [long]}).to_string()
        }),
        (id(), Just(fitting))
            .prop_map(|(id, text)| json!({"id": id, "method": "m", "params": [text, text.len()]})
                .to_string()),
        (1..9u64).prop_map(|id| json!({"id": id, "result": "x".repeat(300)}).to_string()),
        (0..9u64).prop_map(|id| format!("{{\"id\":{id},\"result\":[{}0]}}", "0,".repeat(60))),
        Just("\u{0}{\"id\":".to_owned()),
        Just(String::new()),
    ]
}

fn id() -> impl Strategy<Value = Value> {
    select(vec![json!(1), json!(2), json!(3), json!("1"), json!("a"), json!(2.5), json!("")])
}

/// Plays a script and returns everything written, with its receiver.
fn play(script: &[Step], lengths: &[usize], ends: Ends) -> Vec<(Side, String)> {
    let mut relay = CheckedRelay::new();
    for Step { from, line, action, seconds } in script {
        relay.receive(*from, line.as_bytes(), pieces(line.as_bytes(), lengths));
        relay.act(*action);
        relay.pass(Duration::from_secs(*seconds));
    }
    relay.end(match ends {
        Ends::EditorFirst => [Side::Editor, Side::Agent],
        Ends::AgentFirst => [Side::Agent, Side::Editor],
    })
}
