//! The answer among an agent's messages.

use aifo_tests::Step;
use serde_json::{Value, json};

use crate::acp_agent::{PromptTest, turn};

fn said(chunks: &[&str]) -> Vec<Step> {
    let said = chunks.iter().map(|chunk| Step::say(chunk));
    said.chain([Step::stop("end_turn")]).collect()
}

/// The joined drafts.
fn drafted(reports: &[&Value]) -> String {
    reports.iter().filter_map(|report| report["text"].as_str()).collect()
}

#[test]
fn pieces_are_joined() {
    let result = PromptTest::with(&turn(said(&["Hello ", "World"]))).ask(&[]);
    result.answered("Hello World");
    assert_eq!(drafted(&result.all("draft")), "Hello World");
    assert_eq!(result.end()["updates"], json!({"agent_message_chunk": 2}));
}

#[test]
fn snapshots_end_as_their_last() {
    for stream in ["snapshot", "auto"] {
        let test = PromptTest::with(&turn(said(&["H", "He", "Hel"])));
        test.ask(&["--stream", stream]).answered("Hel");
    }
    let test = PromptTest::with(&turn(said(&["1", "10", "100"])));
    test.ask(&[]).answered("110100");
}

#[test]
fn large_tables_and_single_characters_come_whole() {
    let table = "| a | b |\n|---|---|\n".to_owned() + &"| 1 | > \t`x` |\n".repeat(500);
    let chars: Vec<String> = table.chars().map(String::from).collect();
    let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
    PromptTest::with(&turn(said(&chars))).ask(&[]).answered(&table);
}

#[test]
fn thoughts_plans_and_echoes_are_never_in_it() {
    let plan = json!({"sessionUpdate": "plan", "entries": [{"content": "secret plan"}]});
    let labelled = json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "labelled", "annotations": {"channel": "thought"}}});
    let steps = [
        Step::think("hm"),
        Step::update(plan),
        Step::chunk("user_message_chunk", "hello"),
        Step::update(labelled),
        Step::say("yes"),
        Step::think("done"),
        Step::stop("end_turn"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.answered("yes");
    assert_eq!(drafted(&result.all("draft")), "yes");
    assert_eq!(drafted(&result.all("thought")), "hmlabelleddone");
    assert_eq!(result.all("plan")[0]["entries"][0]["content"], "secret plan");
}

#[test]
fn images_remain_in_it() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let shown = json!({"sessionUpdate": "agent_message_chunk", "content": image});
    let steps =
        [Step::say("look: "), Step::update(shown), Step::say("nice"), Step::stop("end_turn")];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.answered("look: nice");
    assert_eq!(result.end()["content"][1], image);
}

#[test]
fn text_before_and_after_a_tool_counts() {
    let steps = [
        Step::say("a"),
        Step::tool_call("t", "ls", "completed"),
        Step::say("b"),
        Step::stop("end_turn"),
    ];
    PromptTest::with(&turn(steps)).ask(&[]).answered("a\n\nb");
}

#[test]
fn updates_after_the_end_belong_to_the_turn() {
    let steps = [Step::say("the answer i"), Step::stop("end_turn"), Step::say("s 42")];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.answered("the answer is 42");
    assert_eq!(result.all("draft").last().unwrap()["late"], true);
}

#[test]
fn a_flood_comes_through() {
    let flood = Step::Repeat { times: 50_000, steps: vec![Step::say("x")] };
    let test = PromptTest::with(&turn([flood, Step::stop("end_turn")]));
    let result = test.ask(&[]);
    result.answered(&"x".repeat(50_000));
    assert_eq!(result.end()["updates"], json!({"agent_message_chunk": 50_000}));
}

#[test]
fn it_is_the_text_on_stdout() {
    let steps =
        [Step::say("Hello "), Step::think("hm"), Step::say("World"), Step::stop("end_turn")];
    let test = PromptTest::with(&turn(steps));
    let mut prompt = test.setup.coder();
    prompt.args(["prompt", "--backend", "local", "--agent-command", &test.agent.command_line()]);
    let outcome = aifo_tests::Outcome::of(prompt.arg("hello"));
    assert_eq!(outcome.exited(0).text(), "Hello World\n");
    assert_eq!(test.agent.alive(), [0; 0]);
}

#[test]
fn messages_are_separated_in_both_formats() {
    let read = json!({"sessionUpdate": "tool_call", "toolCallId": "call_17", "kind": "read",
        "status": "completed", "locations": [{"path": "/ws/notes.md"}]});
    let steps = [
        Step::say("I look."),
        Step::update(read),
        Step::say("It says "),
        Step::tool_call("t", "ls", "completed"),
        Step::say("hello."),
        Step::stop("end_turn"),
    ];
    let test = PromptTest::with(&turn(steps));
    let command = test.agent.command_line();
    for stream in ["delta", "auto", "snapshot"] {
        let mut prompt = test.setup.coder();
        prompt.args(["prompt", "--backend", "local", "--stream", stream, "--agent-command"]);
        let outcome = aifo_tests::Outcome::of(prompt.args([&command, "hello"]));
        assert_eq!(outcome.exited(0).text(), "I look.\n\nIt says hello.\n", "{stream}");
        let line = "aifo-coder: read '/ws/notes.md' completed\n";
        assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
        let result = test.ask(&["--stream", stream]);
        result.answered("I look.\n\nIt says hello.");
        assert_eq!(result.end()["content"][0]["text"], result.end()["text"], "{stream}");
    }
}

#[test]
fn the_exit_code_shows_the_stop_reason() {
    let rows = [
        (json!("end_turn"), 0),
        (json!("refusal"), 3),
        (json!("max_tokens"), 4),
        (json!("max_turn_requests"), 5),
        (json!("error"), 6),
        (json!(null), 6),
        (json!("cancelled"), 7),
    ];
    for (reason, code) in rows {
        let stop = Step::Answer(json!({"stopReason": reason}));
        let result = PromptTest::with(&turn([Step::say("x"), stop])).ask(&[]);
        result.outcome.exited(code);
        assert_eq!(result.end()["text"], "x");
    }
    let result = PromptTest::with(&turn([Step::Error(-32603, "no credit".into())])).ask(&[]);
    result.failed(&["no credit"]);
    assert_eq!(result.end()["error"]["code"], -32603);
}
