//! No tool can reach the programs of an agent: what they map, open as a FIFO or listen at is private.

use std::fs;

use aifo_tests::model::Script;
use aifo_tests::{ContainerSetup, Engine, eventually_within, tool_reach};

use super::terminal::in_tmux;
use super::{
    PATIENCE, check, fixtures, is_over, run, run_to_end, start_with_stdin, without_the_rows_own,
};

/// A tool that waits until the test has looked.
const WAITS: &str = "python3 -c \"import os, time; open('started', 'w').close()\nwhile not os.path.exists('seen'): time.sleep(.02)\"";

#[test]
#[ignore = "container: cargo xtask test agents"]
fn no_tool_reaches_what_an_agents_program_maps_or_listens_at() {
    let mut reached = Vec::new();
    for fixture in fixtures("no_tool_reaches_what_an_agents_program_maps_or_listens_at") {
        let name = fixture.name();
        let script = Script::new().shell("node app.js").shell(WAITS).say("It is over.");
        let (model, url) = fixture.model(script);
        let start = fixture.agent.headless(&url, model.script());
        let (mut command, stdin, fixture) = run(fixture, without_the_rows_own(start));
        let workspace = fixture.workspace();
        let running = start_with_stdin(&mut command, &stdin);
        let has_started = format!("{name} has its tool started");
        eventually_within(PATIENCE, &has_started, || workspace.join("started").exists());
        let found = tool_reach(&workspace);
        fs::write(workspace.join("seen"), "").unwrap();
        eventually_within(PATIENCE, &format!("{name} has ended"), || is_over(running.pid()));
        assert_eq!(running.finish().code(), Some(0), "{name}");
        reached.extend(found.into_iter().map(|it| format!("{name}: {it}")));
    }
    assert_eq!(reached, [""; 0]);
}

/// Agent and tools exchange files there, as natively. gemini rejects command substitutions.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn what_is_made_in_tmp_is_there_for_both_sides() {
    for fixture in fixtures("what_is_made_in_tmp_is_there_for_both_sides") {
        let expected = [
            (
                "d=/tmp/one && mkdir $d && printf 'import other' > $d/one.py && \
                 printf 'print(\"sibling\", 6 * 7)' > $d/other.py && python3 $d/one.py",
                "sibling 42",
            ),
            (
                "printf 'int main(void) { return 41; }' > /tmp/a.c && gcc -o /tmp/a /tmp/a.c; \
                 /tmp/a; echo code $?",
                "code 41",
            ),
            (
                "git init -q /tmp/origin && cp Makefile /tmp/origin && git -C /tmp/origin add . && \
                 git -C /tmp/origin -c user.name=a -c user.email=b commit -q -m one && \
                 git clone -q /tmp/origin /tmp/clone && cd /tmp/clone && make where",
                "made for /var/cache/aifo/ccache",
            ),
            (
                "mkdir -p /tmp/claude-0/work && \
                 make --file=- --directory=/tmp/claude-0/work <<<'all: ; @echo by the tool > made' && \
                 cat /tmp/claude-0/work/made",
                "by the tool",
            ),
        ];
        let script = expected.iter().fold(Script::new(), |script, (line, _)| script.shell(*line));
        let name = fixture.name();
        let (model, url) = fixture.model(script.say("All four are done."));
        let start = fixture.agent.headless(&url, model.script());
        let (outcome, _fixture) = run_to_end(fixture, start);
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        let results = model.results();
        assert_eq!(results.len(), expected.len(), "{name}: {results:?}");
        for (result, (_, output)) in results.iter().zip(expected) {
            check(name, result, output, 0);
        }
    }
}

/// Agents that no scripted model drives, on their first screen.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn no_tool_reaches_an_agent_that_has_only_started() {
    const TEST: &str = "no_tool_reaches_an_agent_that_has_only_started";
    let Some(engine) = Engine::of_run(TEST) else { return };
    for name in ["crush", "letta"] {
        let image = format!("aifo-agent-{name}:latest");
        if !engine.command(["image", "inspect", &image]).output().unwrap().status.success() {
            eprintln!("skipped: {TEST}: {name}: aifo-coder images build {name}");
            continue;
        }
        let containers = ContainerSetup::of(&engine);
        let workspace = containers.setup().workspace();
        let mut run = containers.command("run");
        let tmux = in_tmux("exec \"$@\"", run.args(["--quiet", name]), &workspace);
        tmux.until("has drawn its screen", |screen| screen.trim().lines().count() > 3);
        assert_eq!(tool_reach(&workspace), [""; 0], "{name}:\n{}", tmux.screen());
    }
}
