//! Real agents over ACP: each in its container, with a scripted model and tools in sidecars
//! (`spec/acp-commands.md`).
//!
//! The tool output proves where it ran, by a variable that only one kind's sidecar has. A file
//! proves that it ran.

mod approval;
mod bridge;
mod kimi;
mod package;
mod prompt;

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use aifo_tests::model::{Agent, FakeModel, Script};
use aifo_tests::{AgentFixture, Editor, eventually_within};
use serde_json::{Value, json};

/// The command that the agent runs.
const MAKE: &str = "make where";
const MAKEFILE: &str = "where:\n\t@echo made for $${CCACHE_DIR:-nobody}\n\t@touch ran\n";
/// Its output in the c-cpp sidecar.
const MADE: &str = "made for /var/cache/aifo/ccache";

/// The selected agents that support ACP, each with the project and a scripted model.
fn fixtures(test: &str, script: &Script) -> Vec<(AgentFixture, FakeModel)> {
    empty_fixtures(test).into_iter().filter_map(|fixture| configured(fixture, script)).collect()
}

/// The selected agents, with empty workspaces.
fn empty_fixtures(test: &str) -> Vec<AgentFixture> {
    AgentFixture::of_run(test, &["c-cpp"])
}

/// Adds the project and a scripted model to a fixture; `None` for agents without ACP.
fn configured(fixture: AgentFixture, script: &Script) -> Option<(AgentFixture, FakeModel)> {
    fs::write(fixture.workspace().join("Makefile"), MAKEFILE).unwrap();
    let (model, url) = fixture.model(script.clone());
    let start = fixture.agent.asking(&url)?;
    Some((fixture.configured(&start), model))
}

/// Returns whether the tool has run since the last check.
fn ran_since_last_check(fixture: &AgentFixture) -> bool {
    fs::remove_file(fixture.workspace().join("ran")).is_ok()
}

/// gemini names session files by the minute, and loses the session if it is loaded in the minute of
/// its creation.
fn wait_until_loadable(agent: Agent) {
    if agent == Agent::Gemini {
        let minute = || UNIX_EPOCH.elapsed().expect("1970 is over").as_secs() / 60;
        let began = minute();
        eventually_within(Duration::from_secs(90), "the minute is over", || minute() > began);
    }
}

/// Returns whether loading an unknown session fails; openhands creates it.
fn fails_for_unknown_sessions(agent: Agent) -> bool {
    agent != Agent::Openhands
}

/// Initialises an editor without capabilities; returns the agent's response.
#[track_caller]
fn initialize(editor: &mut Editor) -> Value {
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}},
        "clientInfo": {"name": "an editor of the tests", "version": "1"},
    });
    let id = editor.request("initialize", &params);
    let agent = editor.response(id).unwrap();
    assert_eq!(agent["protocolVersion"], 1, "{agent}");
    agent
}

/// Opens a session in the workspace.
#[track_caller]
fn new_session(editor: &mut Editor, fixture: &AgentFixture) -> String {
    let id = editor.request("session/new", &json!({"cwd": fixture.workspace(), "mcpServers": []}));
    let session = editor.response(id).unwrap_or_else(|e| panic!("{}: {e}", fixture.name()));
    session["sessionId"].as_str().expect("a session has an id").to_owned()
}

/// Sends a prompt; returns the request id.
#[track_caller]
fn send_prompt(editor: &mut Editor, session: &str, text: &str) -> i64 {
    let prompt = json!([{"type": "text", "text": text}]);
    editor.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
}

/// Waits for the permission request.
#[track_caller]
fn permission(editor: &mut Editor) -> Value {
    editor.wait_for("a request for permission", |message| {
        message["method"] == "session/request_permission" && message.get("id").is_some()
    })
}

/// Answers a permission request with the first option of this kind.
#[track_caller]
fn decide(editor: &mut Editor, permission: &Value, kind: &str) {
    let options = permission["params"]["options"].as_array().expect("there are options");
    let option =
        options.iter().find(|option| option["kind"] == kind).expect("there is that option");
    let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
    editor.respond(permission, &json!({"outcome": outcome}));
}

/// The agent's text in these messages, without thoughts.
fn said(messages: &[Value]) -> String {
    let chunks = messages.iter().map(|message| &message["params"]["update"]);
    let chunks = chunks.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}
