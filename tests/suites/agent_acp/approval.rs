//! Force pushes of real agents, answered in an editor and in a terminal beside `prompt`
//! (`spec/questions.md#editors`).

use std::fs;
use std::path::Path;
use std::process::Command;

use aifo_tests::model::{Agent, FakeModel, Script, Start};
use aifo_tests::{AgentFixture, Editor, Outcome, Running, eventually_within};
use serde_json::Value;

use super::bridge::editor;
use super::{decide, initialize, new_session, said, send_prompt};

/// The seconds of `ask.timeout_secs`.
const TIMEOUT: u64 = 30;

fn push(branch: &str) -> String {
    format!("git push --force ./origin.git main:{branch}")
}

/// The workspace as a repository with a commit, and a remote in it. A branch of the remote proves that a
/// push ran.
fn make_repository(workspace: &Path) {
    for line in [
        "init -q -b main",
        "-c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first",
        "init -q --bare origin.git",
    ] {
        let git = Command::new("git").current_dir(workspace).args(line.split(' ')).status();
        assert!(git.unwrap().success(), "git {line}");
    }
}

/// The selected agents that support ACP, with a scripted model, which runs these commands. `start` configures
/// them.
fn fixtures(
    test: &str,
    lines: &[String],
    start: impl Fn(Agent, &str) -> Option<Start>,
) -> Vec<(AgentFixture, FakeModel)> {
    let script = lines.iter().fold(Script::new(), |script, line| script.shell(line));
    let script = script.say("That was the last one.");
    let fixtures = AgentFixture::of_run(test, &[]).into_iter().filter_map(|fixture| {
        let (model, url) = fixture.model(script.clone());
        let mut start = start(fixture.agent, &url)?;
        let config = format!("[ask]\ntimeout_secs = {TIMEOUT}\n");
        start.files.push((".config/aifo/config.toml", config));
        make_repository(&fixture.workspace());
        Some((fixture.configured(&start), model))
    });
    fixtures.collect()
}

/// The number of pushes to a branch that ran.
fn runs(fixture: &AgentFixture, branch: &str) -> usize {
    let words = format!("push --force ./origin.git main:{branch}");
    let is_run = |call: &&Value| {
        call["rule"] == "in-place" && call["argv"].as_str().unwrap_or_default().contains(&words)
    };
    let runs = fixture.calls().iter().filter(is_run).count();
    let branch = fixture.workspace().join("origin.git/refs/heads").join(branch);
    assert_eq!(branch.exists(), runs > 0, "{}", branch.display());
    runs
}

/// Waits for a question, of aifo or of the agent, or the end of the turn.
#[track_caller]
fn next_question(editor: &mut Editor, prompt: i64) -> Option<Value> {
    let message = editor.wait_for("a question or the end of the turn", |message| {
        let is_answer = message["id"] == prompt && message.get("method").is_none();
        is_answer || message["method"] == "session/request_permission"
    });
    message.get("method").is_some().then_some(message)
}

/// Selects an option of a question of aifo.
#[track_caller]
fn select(editor: &mut Editor, question: &Value, option: &str) {
    let outcome = serde_json::json!({"outcome": "selected", "optionId": option});
    editor.respond(question, &serde_json::json!({"outcome": outcome}));
}

/// The agents that continue after a permission request of their own was rejected.
fn continues_after_a_rejection(agent: Agent) -> bool {
    matches!(agent, Agent::Claude | Agent::Gemini | Agent::Vibe)
}

/// The agents whose permission requests name the command. Others are asked again, about the call.
fn names_the_command(agent: Agent) -> bool {
    agent != Agent::Openhands
}

/// The agent's own permission request is the only question about a call that it names.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_decides_a_force_push_once_and_the_agent_goes_on() {
    let test = "an_editor_decides_a_force_push_once_and_the_agent_goes_on";
    let both = format!("git --version && env A=1 {}", push("both"));
    let lines = [push("once"), both, push("denied"), "git --version".to_owned()];
    for (fixture, model) in fixtures(test, &lines, Agent::asking) {
        let name = fixture.name();
        let mut editor = editor(&fixture, "log");
        initialize(&mut editor);
        let session = new_session(&mut editor, &fixture);
        let prompt = send_prompt(&mut editor, &session, "Please do as the script says.");
        let mut asked = Vec::new();
        while let Some(question) = next_question(&mut editor, prompt) {
            let text = question["params"]["toolCall"].to_string();
            let is_denied = text.contains("main:denied");
            decide(&mut editor, &question, if is_denied { "reject_once" } else { "allow_once" });
            asked.push(text);
        }
        let about = |branch: &str| {
            asked.iter().filter(|text| text.contains(&format!("main:{branch}"))).count()
        };
        assert_eq!(["once", "both", "denied"].map(about), [1, 1, 1], "{name}: {asked:#?}");
        // Neither is a call of the agent's own asked about.
        let is_asked_again = asked.iter().any(|text| text.contains("aifo-q"));
        assert_eq!(is_asked_again, !names_the_command(fixture.agent), "{name}: {asked:#?}");
        let ran = ["once", "both", "denied"].map(|branch| runs(&fixture, branch));
        assert_eq!(ran, [1, 1, 0], "{name}: {:?}", model.results());
        if continues_after_a_rejection(fixture.agent) {
            let text = said(&editor.received());
            assert!(text.contains("That was the last one."), "{name}: {text}");
            let results = model.results();
            assert!(results[3].output.contains("git version "), "{name}: {results:?}");
        }
        assert_eq!(editor.finish().code(), Some(0), "{name}");
        fixture.assert_clean();
    }
}

/// An agent that asks for nothing: aifo asks the editor.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_answers_the_calls_of_an_agent_that_asks_for_nothing() {
    let test = "an_editor_answers_the_calls_of_an_agent_that_asks_for_nothing";
    let lines = [
        push("denied"),
        push("once"),
        push("session"),
        push("session"),
        format!("timeout 5 {}", push("left")),
        "while ! test -e answered; do sleep 0.2; done".to_owned(),
        push("left"),
        push("late"),
        push("end"),
    ];
    let start = |agent: Agent, url: &str| {
        // The others ask for permission whatever their settings are.
        (agent == Agent::Opencode).then(|| {
            let mut start = agent.interactive(url);
            start.command.truncate(1);
            start
        })
    };
    for (fixture, model) in fixtures(test, &lines, start) {
        let name = fixture.name();
        let mut editor = editor(&fixture, "log");
        initialize(&mut editor);
        let session = new_session(&mut editor, &fixture);
        let prompt = send_prompt(&mut editor, &session, "Please do as the script says.");
        let approve = |args: &[&str]| {
            Outcome::of(fixture.containers.setup().coder().arg("approve").args(args))
        };
        for (branch, option) in [
            ("denied", "deny"),
            ("once", "once"),
            ("session", "session"),
            ("left", ""),
            ("late", ""),
            ("end", "end"),
        ] {
            let question = next_question(&mut editor, prompt).expect("the turn runs");
            let call = &question["params"]["toolCall"];
            assert_eq!(call["title"], push(branch), "{name}");
            assert_eq!(runs(&fixture, branch), 0, "{name}: {branch}");
            match option {
                "" if branch == "left" => {
                    eventually_within(Editor::PATIENCE, "it has left", || {
                        approve(&[]).exited(0).text().contains("its client has left")
                    });
                    let id = call["toolCallId"].as_str().unwrap().split('-').nth(1).unwrap();
                    approve(&["--answer", id, "once"]).exited(0);
                    fs::write(fixture.workspace().join("answered"), "").unwrap();
                }
                "" => {}
                option => select(&mut editor, &question, option),
            }
        }
        assert_eq!(next_question(&mut editor, prompt), None, "{name}: the turn is over");
        let branches = ["denied", "once", "session", "left", "late", "end"];
        let ran = branches.map(|branch| runs(&fixture, branch));
        assert_eq!(ran, [0, 1, 2, 1, 0, 0], "{name}: {:?}", model.results());
        let results = model.results();
        assert!(results[0].output.contains("denied by the user: git push"), "{name}: {results:?}");
        assert!(results[7].output.contains("not approved within"), "{name}: {results:?}");
        assert_eq!(editor.finish().code(), Some(0), "{name}");
        fixture.assert_clean();
    }
}

/// `prompt` has no frontend of its own: a second terminal answers, if the configuration gives it time.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_prompt_waits_for_a_second_terminal() {
    let test = "a_prompt_waits_for_a_second_terminal";
    let lines = [push("denied"), push("once"), "git --version".to_owned()];
    let start = |agent: Agent, url: &str| {
        (agent == Agent::Opencode).then(|| {
            let mut start = agent.interactive(url);
            start.command.truncate(1);
            start
        })
    };
    for (fixture, model) in fixtures(test, &lines, start) {
        let name = fixture.name();
        let mut prompt = fixture.command("prompt");
        prompt.args([name, "Please do as the script says."]);
        let running = Running::start(&mut prompt);
        for (branch, option) in [("denied", "deny"), ("once", "once")] {
            let mut id = String::new();
            eventually_within(Editor::PATIENCE, "the question", || {
                let approve = Outcome::of(fixture.containers.setup().coder().arg("approve"));
                let text = approve.text();
                id = text.split_whitespace().next().unwrap_or_default().to_owned();
                text.contains(&push(branch))
            });
            let mut answer = fixture.containers.setup().coder();
            Outcome::of(answer.args(["approve", "--answer", &id, option])).exited(0);
        }
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        assert!(outcome.text().contains("That was the last one."), "{name}: {outcome:?}");
        model.finished();
        let results = model.results();
        assert!(results[0].output.contains("denied by the user: git push"), "{name}: {results:?}");
        assert_eq!([runs(&fixture, "denied"), runs(&fixture, "once")], [0, 1], "{name}");
        fixture.assert_clean();
    }
}
