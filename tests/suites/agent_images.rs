//! The agents' images: each starts its agent for any user behind the shims, and contains no tool
//! that could replace a sidecar's.
//!
//! Proves `spec/images.md#agents`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use aifo_tests::{Engine, Outcome, Running};

/// Every agent with a recipe.
fn agents() -> Vec<String> {
    let recipes = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/engine/recipes");
    let files = fs::read_dir(recipes).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.filter_map(|file| {
        let name = file.to_str()?.strip_prefix("agent-")?.strip_suffix(".toml")?;
        Some(name.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// The variables that a launcher sets.
const CONTRACT: [&str; 4] = [
    "PATH=/opt/aifo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "AIFO_SHIM_SMART=1",
    "AIFO_SHIM_SMART_NODE=1",
    "AIFO_SHIM_SMART_PYTHON=1",
];

/// The deadline of an agent: some load half a gigabyte at the start.
const START: Duration = Duration::from_secs(300);

/// Root, and a user without a passwd entry.
const USERS: [&str; 2] = ["0:0", "1000:1000"];

/// Runs a test for each agent with an image; reports the others as skipped.
fn for_each_agent(test: &str, scenario: impl Fn(&Engine, &str)) {
    let Some(engine) = Engine::of_run(test) else { return };
    let mut printed = 0;
    for agent in &agents() {
        let inspect = ["image", "inspect", "--format", "there", &image(agent)];
        if Outcome::of(&mut engine.command(inspect)).text().trim_end() == "there" {
            scenario(&engine, agent);
            printed += 1;
        } else {
            // A closed stderr does not matter.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test}: no {}; make it with: aifo-coder images build {agent}",
                image(agent)
            );
        }
    }
    assert!(printed > 0, "no agent has an image");
}

fn image(agent: &str) -> String {
    let prefix = std::env::var("AIFO_CODER_IMAGE_PREFIX").unwrap_or_default();
    format!("{prefix}aifo-agent-{agent}:latest")
}

/// Runs a command in an agent image as in a session without a proxy.
fn in_session(engine: &Engine, agent: &str, user: &str, words: &[&str]) -> Outcome {
    let mut command = engine.command(["run", "--rm", "--network", "none", "--user", user]);
    command.args(["--tmpfs", "/run/aifo"]);
    CONTRACT.iter().for_each(|variable| _ = command.args(["--env", variable]));
    finish(command.arg(image(agent)).args(words))
}

/// Runs a command in an agent image without a session.
fn alone(engine: &Engine, agent: &str, words: &[&str]) -> Outcome {
    let run = ["run", "--rm", "--network", "none", "--user", "1000:1000"];
    finish(engine.command(run).arg(image(agent)).args(words))
}

fn finish(command: &mut Command) -> Outcome {
    Running::start(command.stdin(Stdio::null())).finish_within(START)
}

/// Returns whether a text contains a version such as `1.22.333`.
fn has_version(text: &str) -> bool {
    let parts = |word: &str| word.split('.').filter(|part| !part.is_empty()).count();
    text.split(|c: char| !c.is_ascii_digit() && c != '.').any(|word| parts(word) >= 3)
}

#[test]
#[ignore = "agents: cargo xtask test agents"]
fn any_user_can_start_it_behind_the_shims() {
    for_each_agent("any_user_can_start_it_behind_the_shims", |engine, agent| {
        for user in USERS {
            let outcome = in_session(engine, agent, user, &[agent, "--version"]);
            let printed = outcome.exited(0).text() + &outcome.stderr;
            assert!(has_version(&printed), "{agent} as {user}: {printed}");
        }
    });
}

#[test]
#[ignore = "agents: cargo xtask test agents"]
fn without_a_session_it_starts_as_well() {
    for_each_agent("without_a_session_it_starts_as_well", |engine, agent| {
        let outcome = alone(engine, agent, &[agent, "--version"]);
        let printed = outcome.exited(0).text() + &outcome.stderr;
        assert!(has_version(&printed), "{agent}: {printed}");
        let shell = alone(engine, agent, &["bash", "-lc", "echo $PATH; touch ~/file"]);
        let path = shell.exited(0).text();
        assert!(!path.contains("/opt/aifo"), "{agent}: {path}");
    });
}

#[test]
#[ignore = "agents: cargo xtask test agents"]
fn every_shell_finds_the_shims_first() {
    // Also without a login shell, as some agents find tools themselves.
    let find = "for tool in cargo node npm python3 make; do command -v $tool; done
        . /etc/profile
        echo $PATH";
    for_each_agent("every_shell_finds_the_shims_first", |engine, agent| {
        for user in USERS {
            for shell in [["sh", "-c"], ["sh", "-lc"], ["bash", "-c"], ["bash", "-lc"]] {
                let found = in_session(engine, agent, user, &[&shell[..], &[find]].concat());
                let found = found.exited(0).text();
                let (tools, path) = found.trim_end().rsplit_once('\n').unwrap();
                let expected = ["cargo", "node", "npm", "python3", "make"];
                let expected = expected.map(|tool| format!("/opt/aifo/bin/{tool}"));
                assert_eq!(tools.split('\n').collect::<Vec<_>>(), expected, "{agent} {shell:?}");
                assert!(path.starts_with("/opt/aifo/bin:"), "{agent} {shell:?}: {path}");
                assert_eq!(path.matches("/opt/aifo/bin").count(), 1, "{agent} {shell:?}: {path}");
            }
        }
    });
}

#[test]
#[ignore = "agents: cargo xtask test agents"]
fn tools_are_a_sidecars_and_the_shim_says_so() {
    let script = "PATH=${PATH#/opt/aifo/bin:}
        for tool in cargo rustc go make cmake gcc g++ cc clang; do command -v $tool; done
        for tool in bash curl git less ps rg ssh tmux; do command -v $tool >/dev/null || echo no $tool; done
        exec /opt/aifo/bin/make";
    for_each_agent("tools_are_a_sidecars_and_the_shim_says_so", |engine, agent| {
        let outcome = in_session(engine, agent, "1000:1000", &["sh", "-c", script]);
        let printed = outcome.exited(86).only_line();
        assert!(printed.starts_with("aifo-shim: proxy not configured."), "{agent}: {printed}");
        assert_eq!(outcome.text(), "", "{agent}");
    });
}
