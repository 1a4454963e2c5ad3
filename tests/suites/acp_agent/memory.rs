//! Memory stays small, whatever an agent sends.

use aifo_tests::{Running, Step, eventually_within, status_kib};
use std::time::Duration;

use crate::acp_agent::{PromptTest, turn};

/// Prompts an agent that sends this flood, and checks the memory before it continues.
#[track_caller]
fn check(flood: Vec<Step>) {
    let rest =
        [Step::line(""), Step::say("."), Step::WaitForWord("go".into()), Step::stop("end_turn")];
    let test = PromptTest::with(&turn([flood, rest.to_vec()].concat()));
    let mut prompt = test.setup.coder();
    prompt.args(["prompt", "--backend", "local", "--agent-command", &test.agent.command_line()]);
    let running = Running::start(prompt.arg("hello"));
    let deadline = Duration::from_secs(240);
    eventually_within(deadline, "all of it has come", || running.has_printed("."));
    let peak = status_kib(running.pid(), "VmHWM");
    assert!(peak < 128 << 10, "{peak} KiB");
    test.agent.release("go");
    running.finish().exited(0);
    assert_eq!(test.agent.alive(), [0; 0]);
}

#[test]
fn a_line_as_long_as_may_be() {
    let before = "{\"method\":\"_news\",\"params\":\"";
    let fill = (32 << 20) - before.len() as u64 - 2;
    check(vec![Step::Raw(before.into()), Step::Fill(b'x', fill), Step::line("\"}")]);
}

#[test]
fn a_line_of_gigabytes() {
    check(vec![Step::Fill(b'{', 1_500_000_000)]);
}

#[test]
fn a_flood_of_updates() {
    let update = serde_json::json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
    check(vec![Step::Repeat { times: 200_000, steps: vec![Step::update(update)] }]);
}
