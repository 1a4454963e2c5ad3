//! Requests of an agent: each gets one response.

use aifo_tests::{AcpAgent, Script, Step};
use serde_json::{Value, json};

use crate::acp_agent::{PromptTest, turn};

/// The only response to the agent request.
#[track_caller]
pub(crate) fn answer(agent: &AcpAgent, id: &str) -> Value {
    let answers = agent.answers(id);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0].clone()
}

fn call() -> Value {
    json!({"toolCallId": "t", "title": "cargo test", "kind": "execute",
        "rawInput": {"command": "cargo test"}})
}

fn asks(id: &str) -> Step {
    Step::ask(id, "session/request_permission", Step::permission(call()))
}

#[test]
fn a_permission_maps_to_the_option_that_is_meant() {
    for (options, option) in [
        (&[][..], "no"),
        (&["--yes-to", "execute"], "once"),
        (&["--yes-to", "all"], "once"),
        (&["--yes-to", "edit"], "no"),
    ] {
        let test = PromptTest::with(&turn([asks("p"), Step::stop("end_turn")]));
        let result = test.ask(options);
        result.answered("");
        let outcome = answer(&test.agent, "p")["result"]["outcome"].clone();
        assert_eq!(outcome, json!({"outcome": "selected", "optionId": option}), "{options:?}");
        let decision = result.all("decision")[0];
        assert_eq!((&decision["option"], &decision["id"]), (&json!(option), &json!("p")));
        assert!(decision["rule"].as_str().is_some_and(|rule| !rule.is_empty()));
    }
}

#[test]
fn a_denial_that_stops_the_agent_has_its_own_exit_code() {
    let test = PromptTest::with(&turn([asks("p"), Step::stop("cancelled")]));
    for options in [&[][..], &["-q"]] {
        let result = test.ask(options);
        let stderr = &result.outcome.exited(8).stderr;
        let line = "aifo-coder: the agent stopped after a denied execute 'cargo test': ";
        assert!(stderr.lines().last().is_some_and(|last| last.starts_with(line)), "{stderr}");
    }
    test.ask(&["--yes-to", "execute"]).outcome.exited(7);
}

#[test]
fn a_turn_that_ends_after_a_denial_fails_if_asked_to() {
    let test = PromptTest::with(&turn([asks("p"), Step::stop("end_turn")]));
    let result = test.ask(&["--fail-on-denied"]);
    let stderr = &result.outcome.exited(9).stderr;
    let line = "aifo-coder: the turn ended, but the agent was denied execute 'cargo test': ";
    assert!(stderr.lines().last().is_some_and(|last| last.starts_with(line)), "{stderr}");
    test.ask(&["--fail-on-denied", "--yes-to", "execute"]).outcome.exited(0);
}

#[test]
fn without_an_option_to_reject_a_denial_is_cancelled() {
    let options = json!([{"optionId": "y", "kind": "allow_once", "name": "Yes"}]);
    let params = json!({"sessionId": "$session", "toolCall": call(), "options": options});
    let steps = [Step::ask("p", "session/request_permission", params), Step::stop("end_turn")];
    let test = PromptTest::with(&turn(steps));
    test.ask(&[]).answered("");
    assert_eq!(answer(&test.agent, "p")["result"]["outcome"], json!({"outcome": "cancelled"}));
}

#[test]
fn a_permission_request_after_which_the_turn_ends_is_answered() {
    let unanswered = Step::request("p", "session/request_permission", Step::permission(call()));
    let test =
        PromptTest::with(&turn([unanswered, Step::wait_answer("p"), Step::stop("end_turn")]));
    test.ask(&[]).answered("");
    answer(&test.agent, "p");
    let unanswered = Step::request("p", "session/request_permission", Step::permission(call()));
    PromptTest::with(&turn([unanswered, Step::stop("end_turn")])).ask(&[]).answered("");
}

#[test]
fn a_permission_that_is_withdrawn_or_asked_twice_is_answered_once() {
    let ask = Step::request("p", "session/request_permission", Step::permission(call()));
    let withdraw = json!({"method": "$/cancel_request", "params": {"requestId": "p"}});
    let steps = [
        ask.clone(),
        Step::Send(withdraw.clone()),
        Step::wait_answer("p"),
        Step::Send(withdraw),
        Step::ask("q", "unheard/of", json!({})),
        Step::stop("end_turn"),
    ];
    let test = PromptTest::with(&turn(steps));
    test.ask(&[]).answered("");
    answer(&test.agent, "p");
}

#[test]
fn unsupported_requests_are_refused_in_every_state() {
    let unknown = |id: &str| Step::ask(id, "craft/drainMidTurnQueue", json!({}));
    let script = Script::conforming()
        .on("initialize", [unknown("a"), Step::Answer(json!({"protocolVersion": 1}))])
        .on("session/new", [unknown("b"), Step::Answer(json!({"sessionId": "s"}))])
        .on("session/prompt", [unknown("c"), Step::say("on"), Step::stop("end_turn")]);
    let test = PromptTest::with(&script);
    test.ask(&[]).answered("on");
    for id in ["a", "b", "c"] {
        assert_eq!(answer(&test.agent, id)["error"]["code"], -32601);
    }
}

#[test]
fn declared_capabilities_are_served() {
    let file = json!({"sessionId": "$session", "path": "/no/such/file", "content": ""});
    let terminal = json!({"sessionId": "$session", "terminalId": "no-such"});
    let asked = [
        ("fs/read_text_file", file.clone()),
        ("fs/write_text_file", file),
        ("terminal/create", json!({"sessionId": "$session", "command": 7})),
        ("terminal/output", terminal.clone()),
        ("terminal/wait_for_exit", terminal.clone()),
        ("terminal/kill", terminal.clone()),
        ("terminal/release", terminal),
    ];
    let mut steps: Vec<Step> =
        asked.iter().map(|(method, params)| Step::ask(*method, method, params.clone())).collect();
    steps.push(Step::stop("end_turn"));
    let test = PromptTest::with(&turn(steps));
    test.ask(&[]).answered("");
    let declared = &test.agent.received()[0]["params"]["clientCapabilities"];
    for (method, _) in asked {
        let is_declared = match method {
            "fs/read_text_file" => &declared["fs"]["readTextFile"],
            "fs/write_text_file" => &declared["fs"]["writeTextFile"],
            _ => &declared["terminal"],
        };
        let answer = answer(&test.agent, method);
        let is_served = answer["error"]["code"] != -32601;
        assert_eq!(Some(is_served), is_declared.as_bool(), "{method}: {answer}");
    }
}
