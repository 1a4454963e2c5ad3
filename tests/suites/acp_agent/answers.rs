//! The answer among an agent's messages.

use aifo_tests::Step;
use serde_json::{Value, json};

use crate::{Stage, turn};

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
    let told = Stage::with(&turn(said(&["Hello ", "World"]))).ask(&[]);
    told.answered("Hello World");
    assert_eq!(drafted(&told.all("draft")), "Hello World");
    assert_eq!(told.end()["updates"], json!({"agent_message_chunk": 2}));
}

#[test]
fn snapshots_end_as_their_last() {
    for stream in ["snapshot", "auto"] {
        let stage = Stage::with(&turn(said(&["H", "He", "Hel"])));
        stage.ask(&["--stream", stream]).answered("Hel");
    }
    let stage = Stage::with(&turn(said(&["1", "10", "100"])));
    stage.ask(&[]).answered("110100");
}

#[test]
fn large_tables_and_single_characters_come_whole() {
    let table = "| a | b |\n|---|---|\n".to_owned() + &"| 1 | > \t`x` |\n".repeat(500);
    let chars: Vec<String> = table.chars().map(String::from).collect();
    let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
    Stage::with(&turn(said(&chars))).ask(&[]).answered(&table);
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
    let told = Stage::with(&turn(steps)).ask(&[]);
    told.answered("yes");
    assert_eq!(drafted(&told.all("draft")), "yes");
    assert_eq!(drafted(&told.all("thought")), "hmlabelleddone");
    assert_eq!(told.all("plan")[0]["entries"][0]["content"], "secret plan");
}

#[test]
fn images_remain_in_it() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let shown = json!({"sessionUpdate": "agent_message_chunk", "content": image});
    let steps =
        [Step::say("look: "), Step::update(shown), Step::say("nice"), Step::stop("end_turn")];
    let told = Stage::with(&turn(steps)).ask(&[]);
    told.answered("look: nice");
    assert_eq!(told.end()["content"][1], image);
}

#[test]
fn what_is_said_before_and_after_a_tool_counts() {
    let steps = [
        Step::say("a"),
        Step::tool_call("t", "ls", "completed"),
        Step::say("b"),
        Step::stop("end_turn"),
    ];
    Stage::with(&turn(steps)).ask(&[]).answered("ab");
}

#[test]
fn what_comes_after_the_end_belongs_to_it() {
    let steps = [Step::say("the answer i"), Step::stop("end_turn"), Step::say("s 42")];
    let told = Stage::with(&turn(steps)).ask(&[]);
    told.answered("the answer is 42");
    assert_eq!(told.all("draft").last().unwrap()["late"], true);
}

#[test]
fn a_flood_comes_through() {
    let flood = Step::Repeat { times: 50_000, steps: vec![Step::say("x")] };
    let stage = Stage::with(&turn([flood, Step::stop("end_turn")]));
    let told = stage.ask(&[]);
    told.answered(&"x".repeat(50_000));
    assert_eq!(told.end()["updates"], json!({"agent_message_chunk": 50_000}));
}

#[test]
fn it_is_the_text_on_stdout() {
    let steps =
        [Step::say("Hello "), Step::think("hm"), Step::say("World"), Step::stop("end_turn")];
    let stage = Stage::with(&turn(steps));
    let mut prompt = stage.setup.coder();
    prompt.args(["prompt", "--backend", "local", "--agent-command", &stage.agent.command_line()]);
    let outcome = aifo_tests::Outcome::of(prompt.arg("hello"));
    assert_eq!(outcome.exited(0).text(), "Hello World\n");
    assert_eq!(stage.agent.alive(), [0; 0]);
}

#[test]
fn the_exit_code_tells_why_it_stopped() {
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
        let told = Stage::with(&turn([Step::say("x"), stop])).ask(&[]);
        told.outcome.exited(code);
        assert_eq!(told.end()["text"], "x");
    }
    let told = Stage::with(&turn([Step::Error(-32603, "no credit".into())])).ask(&[]);
    told.failed(&["no credit"]);
    assert_eq!(told.end()["error"]["code"], -32603);
}
