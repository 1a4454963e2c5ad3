//! Tool calls and their reports.

use aifo_tests::Step;
use serde_json::{Value, json};

use crate::acp_agent::{PromptResult, PromptTest, turn};

/// The reported calls: id, old status, new status.
fn calls(result: &PromptResult) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let tell =
        |report: &&Value| [&report["id"], &report["before"], &report["status"]].map(word).join(" ");
    result.all("tool_call").iter().map(tell).collect()
}

#[test]
fn an_update_before_its_call_is_a_call() {
    let steps = [
        Step::tool_update("t", "in_progress"),
        Step::tool_call("t", "ls", "pending"),
        Step::tool_update("t", "completed"),
        Step::stop("end_turn"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    result.answered("");
    let expected = ["t - in_progress", "t in_progress in_progress", "t in_progress completed"];
    assert_eq!(calls(&result), expected);
}

#[test]
fn null_or_missing_fields_stay_as_they_were() {
    let nulls = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": null,
        "kind": null, "status": null, "rawInput": null});
    let asks = Step::ask(
        "p",
        "session/request_permission",
        Step::permission(json!({"toolCallId": "t", "title": null})),
    );
    let steps = [
        Step::tool_call("t", "ls -l", "in_progress"),
        Step::update(nulls),
        asks,
        Step::stop("end_turn"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    let call = &result.all("permission")[0]["call"];
    assert_eq!((&call["title"], &call["kind"]), (&json!("ls -l"), &json!("execute")));
    assert_eq!(calls(&result), ["t - in_progress", "t in_progress in_progress"]);
}

#[test]
fn calls_have_states_of_their_own() {
    let steps = [
        Step::tool_call("a", "one", "in_progress"),
        Step::tool_call("b", "two", "in_progress"),
        Step::tool_update("b", "failed"),
        Step::tool_update("a", "completed"),
        Step::tool_update("b", "in_progress"),
        Step::stop("end_turn"),
    ];
    let result = PromptTest::with(&turn(steps)).ask(&[]);
    let expected = [
        "a - in_progress",
        "b - in_progress",
        "b in_progress failed",
        "a in_progress completed",
        "b failed failed",
    ];
    assert_eq!(calls(&result), expected);
}

#[test]
fn an_unannounced_call_is_reported_by_its_permission_request() {
    let call = json!({"toolCallId": "t", "title": "rm -rf /", "kind": "execute"});
    let asks = Step::ask(1, "session/request_permission", Step::permission(call));
    let test =
        PromptTest::with(&turn([asks, Step::tool_update("t", "failed"), Step::stop("end_turn")]));
    let result = test.ask(&[]);
    result.answered("");
    assert_eq!(result.all("permission")[0]["call"]["title"], "rm -rf /");
    assert_eq!(calls(&result), ["t pending failed"]);
}
