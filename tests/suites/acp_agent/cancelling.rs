//! A turn that is cancelled by a signal ends as cancelled, however the agent reacts.

use aifo_tests::{Group, Running, Signal, Step, eventually};
use serde_json::json;

use crate::acp_agent::{PromptResult, PromptTest, turn};

/// Cancels a turn that runs `then` on cancellation.
#[track_caller]
fn cancelled(signal: Signal, then: &[Step]) -> PromptResult {
    let before = [
        Step::Spawn(Group::Agents),
        Step::Spawn(Group::Own),
        Step::tool_call("t", "sleep 1000", "in_progress"),
        Step::say("I am"),
        Step::wait_for("session/cancel"),
    ];
    let test = PromptTest::with(&turn([&before, then].concat()));
    let running = Running::start(&mut test.prompt(&[]));
    running.expect("I am");
    running.signal(signal);
    let result = test.result(running.finish());
    result.outcome.exited(128 + signal as i32);
    assert_eq!(result.end()["cancelled"], "asked", "{result:?}");
    assert_eq!(test.agent.received_of("session/cancel").len(), 1);
    assert_eq!(result.end()["text"], "I am");
    result
}

#[test]
fn an_agent_obeys_any_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let result = cancelled(signal, &[Step::stop("cancelled")]);
        assert_eq!(result.end()["stop_reason"], "cancelled");
    }
}

#[test]
fn an_agent_says_that_it_is_done() {
    let result = cancelled(Signal::SIGINT, &[Step::stop("end_turn")]);
    assert_eq!(result.end()["stop_reason"], "end_turn");
}

#[test]
fn an_agent_answers_with_an_error() {
    let result = cancelled(Signal::SIGTERM, &[Step::Error(-32603, "aborted".into())]);
    assert_eq!(result.end()["error"]["code"], -32603);
}

#[test]
fn an_agent_updates_its_calls_before_it_stops() {
    let late = [Step::tool_update("t", "failed"), Step::stop("cancelled")];
    let result = cancelled(Signal::SIGINT, &late);
    assert_eq!(result.all("tool_call").last().unwrap()["status"], "failed");
}

#[test]
fn an_agent_updates_its_calls_after_it_has_stopped() {
    let late = [Step::stop("cancelled"), Step::tool_update("t", "completed")];
    let result = cancelled(Signal::SIGINT, &late);
    let last = result.all("tool_call").last().copied().unwrap().clone();
    assert_eq!((&last["status"], &last["late"]), (&json!("completed"), &json!(true)));
}

#[test]
fn an_agent_asks_for_permission_though_it_was_cancelled() {
    let call = json!({"toolCallId": "t"});
    let asks = Step::ask("p", "session/request_permission", Step::permission(call));
    let result = cancelled(Signal::SIGINT, &[asks, Step::stop("cancelled")]);
    assert_eq!(
        result.all("permission"),
        Vec::<&serde_json::Value>::new(),
        "no permission request is reported"
    );
}

#[test]
fn an_agent_ends_instead() {
    cancelled(Signal::SIGINT, &[Step::Exit(1)]);
}

#[test]
fn an_agent_that_does_not_obey_is_killed() {
    let result = cancelled(Signal::SIGINT, &[Step::IgnoreSignals, Step::Hang]);
    assert_eq!(result.all("overdue").len(), 1);
}

#[test]
fn a_second_signal_waits_for_nothing() {
    let test = PromptTest::with(&turn([Step::say("I am"), Step::IgnoreSignals, Step::Hang]));
    let running = Running::start(&mut test.prompt(&[]));
    running.expect("I am");
    running.signal(Signal::SIGINT);
    // Two pending signals would merge into one.
    eventually("the first was seen", || {
        aifo_tests::status_field(running.pid(), "ShdPnd").ends_with("0000")
    });
    running.signal(Signal::SIGTERM);
    let result = test.result(running.finish());
    assert!(matches!(result.outcome.code(), Some(130 | 143)), "{result:?}");
}

#[test]
fn a_signal_before_the_turn_ends_it_all() {
    for method in ["initialize", "session/new"] {
        let test = PromptTest::with(
            &aifo_tests::Script::conforming().on(method, [Step::Spawn(Group::Own)]),
        );
        let running = Running::start(&mut test.prompt(&[]));
        eventually("it is asked", || test.agent.pids().len() == 2);
        running.signal(Signal::SIGTERM);
        test.result(running.finish()).outcome.exited(143);
    }
}

#[test]
fn a_turn_is_cancelled_when_its_time_is_over() {
    let steps = [Step::say("I am"), Step::wait_for("session/cancel"), Step::stop("cancelled")];
    let test = PromptTest::with(&turn(steps));
    let result = test.ask(&["--timeout", "1"]);
    result.outcome.exited(124);
    assert_eq!(result.end()["cancelled"], "too_long");
    assert_eq!(test.agent.received_of("session/cancel").len(), 1);
}

#[test]
fn an_agent_that_cancels_by_itself_is_distinguished() {
    let test = PromptTest::with(&turn([Step::stop("cancelled")]));
    let result = test.ask(&[]);
    result.outcome.exited(7);
    assert_eq!(result.end()["cancelled"], json!(null));
}
