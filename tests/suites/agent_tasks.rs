//! Real agents run a task for a scripted model: each in its container, with tools in sidecars.
//!
//! The tool output proves where it ran, by a variable that only one kind's sidecar has.

mod approval;
mod forge;
mod held;
mod private_places;
mod server;
mod terminal;
mod undo;

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use aifo_tests::model::{Script, Start, ToolResult};
use aifo_tests::{
    AgentFixture, Outcome, Running, Signal, eventually, eventually_within, is_alive, is_zombie,
};

const MAKEFILE: &str = "where:\n\t@echo made for $${CCACHE_DIR:-nobody}\nfails:\n\t@exit 7\n";
const APP: &str = "console.log('node keeps', process.env.NPM_CONFIG_CACHE || 'nothing');\n";
const HEREDOC: &str =
    "python3 - <<'EOF'\nimport os\nprint('python keeps', os.environ.get('PIP_CACHE_DIR'))\nEOF";

/// The selected agents, each with the project.
fn fixtures(test: &str) -> Vec<AgentFixture> {
    fixtures_with(test, &["c-cpp", "node", "python", "rust"])
}

/// The same with other toolchains.
fn fixtures_with(test: &str, kinds: &[&str]) -> Vec<AgentFixture> {
    let fixtures = AgentFixture::of_run(test, kinds);
    for fixture in &fixtures {
        fs::write(fixture.workspace().join("Makefile"), MAKEFILE).unwrap();
        fs::write(fixture.workspace().join("app.js"), APP).unwrap();
    }
    fixtures
}

/// `aifo-coder run` of an agent with its environment and files; returns its stdin too.
fn run(fixture: AgentFixture, start: Start) -> (Command, String, AgentFixture) {
    run_with(&[], fixture, start)
}

/// [`run`] with more options of `aifo-coder run`.
fn run_with(
    options: &[&str],
    fixture: AgentFixture,
    start: Start,
) -> (Command, String, AgentFixture) {
    let fixture = fixture.configured(&start);
    let mut run = fixture.command("run");
    run.args(options).args(&start.command);
    (run, start.stdin, fixture)
}

/// [`run`], to the end of the agent.
fn run_to_end(fixture: AgentFixture, start: Start) -> (Outcome, AgentFixture) {
    let name = fixture.name();
    let (mut command, stdin, fixture) = run(fixture, without_the_rows_own(start));
    let running = start_with_stdin(&mut command, &stdin);
    eventually_within(PATIENCE, &format!("{name} has ended"), || is_over(running.pid()));
    (running.finish(), fixture)
}

/// The deadline of a task: some agents load for many seconds.
const PATIENCE: Duration = Duration::from_secs(240);
/// The deadline of an agent's end after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(10);

fn is_over(pid: i32) -> bool {
    !is_alive(pid) || is_zombie(pid)
}

#[track_caller]
fn check(agent: &str, result: &ToolResult, output: &str, code: i32) {
    assert!(result.output.contains(output), "{agent}: {output:?}: {result:?}");
    if let Some(exit) = result.exit {
        assert_eq!(exit, code, "{agent}: {result:?}");
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn tools_run_in_sidecars_and_what_they_say_comes_back() {
    for fixture in fixtures("tools_run_in_sidecars_and_what_they_say_comes_back") {
        let expected = [
            ("cargo --version", "cargo", 0),
            (HEREDOC, "python keeps /var/cache/aifo/pip/pip", 0),
            ("node app.js", "node keeps /var/cache/aifo/node/npm", 0),
            ("make where", "made for /var/cache/aifo/ccache", 0),
            ("make where | tr a-z A-Z", "MADE FOR /VAR/CACHE/AIFO/CCACHE", 0),
            ("make fails", "Error 7", 2),
        ];
        let script =
            expected.iter().fold(Script::new(), |script, (line, _, _)| script.shell(*line));
        let script = script.say("All six are done.");
        let name = fixture.name();
        let (model, url) = fixture.model(script);
        let start = fixture.agent.headless(&url, model.script());
        let (outcome, fixture) = run_to_end(fixture, start);
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        model.finished();
        // The others are about this machine.
        let is_of_session =
            |line: &&str| !["you are root", "certificates"].iter().any(|own| line.contains(own));
        let warnings = outcome.stderr.lines().filter(|line| line.contains("aifo-coder: WARNING"));
        assert_eq!(warnings.filter(is_of_session).count(), 0, "{name}: {outcome:?}");

        let results = model.results();
        assert_eq!(results.len(), expected.len(), "{name}: {results:?}");
        for (result, (_, output, code)) in results.iter().zip(expected) {
            check(name, result, output, code);
        }
        // Only the script's commands and the launcher's check reached the proxy, not the agent's
        // own programs.
        let calls = fixture.calls();
        let tools: Vec<_> = calls.iter().filter_map(|call| call["tool"].as_str()).collect();
        for tool in ["cargo", "python3", "node", "make"] {
            assert!(tools.contains(&tool), "{name}: {tools:?}");
        }
        // An agent's own git runs in its container.
        for call in calls.iter().filter(|call| call["rule"] != "in-place") {
            let argv = call["argv"].as_str().unwrap_or_default();
            let own = ["node_modules", "/usr/local/", "/opt/venv", name];
            assert!(!own.iter().any(|own| argv.contains(own)), "{name}: {call}");
            assert!(call["kind"].is_string(), "{name}: {call}");
        }
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_agent_that_is_ended_takes_its_tool_along() {
    for fixture in fixtures("an_agent_that_is_ended_takes_its_tool_along") {
        let name = fixture.name();
        let sleeps = "python3 -c \"open('started','w').close(); import time; time.sleep(987)\"";
        let (model, url) = fixture.model(Script::new().shell(sleeps).say("It is over."));
        let start = fixture.agent.headless(&url, model.script());
        let (mut command, stdin, fixture) = run(fixture, without_the_rows_own(start));
        let started = fixture.workspace().join("started");
        let running = start_with_stdin(&mut command, &stdin);
        let has_started = format!("{name} has its tool started");
        eventually_within(PATIENCE, &has_started, || started.exists());
        running.signal(Signal::SIGTERM);
        // Some take a moment to end; the others are killed.
        let asked = Instant::now();
        while !is_over(running.pid()) && asked.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(running);
        eventually(&format!("nothing of {name} runs"), || {
            fixture.left().iter().all(|left| left.starts_with("aifo-net-"))
        });
        Outcome::of(fixture.containers.setup().coder().arg("cleanup"));
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}

/// Starts a command whose stdin has this text and ends: some agents wait for the end.
fn start_with_stdin(command: &mut Command, text: &str) -> Running {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let child = Running::start(command.stdin(reader));
    // Some agents do not read it.
    let _ = writer.write_all(text.as_bytes());
    child
}

/// Removes the arguments that the launcher table adds.
fn without_the_rows_own(mut start: Start) -> Start {
    start.command.retain(|word| word != "--no-daemon");
    start
}
