//! Agents on a terminal: they draw, read keys, survive a resize, and restore the modes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aifo_tests::Tmux;
use aifo_tests::model::{Agent, Script};

use super::{fixtures_with, run, without_the_rows_own};

/// A wrapper that prints the terminal's modes before and after the agent.
const AROUND: &str =
    "stty -g >before; \"$@\"; code=$?; stty -g >after; clear; echo ended with $code; exec cat";

/// The lines of the launcher and the shims on the screen.
fn aifos_lines(tmux: &Tmux) -> Vec<String> {
    let screen = tmux.screen();
    let is_aifos = |line: &&str| line.contains("aifo-coder:") || line.contains("aifo-shim:");
    screen.lines().filter(is_aifos).map(str::to_owned).collect()
}

/// The text an agent shows when it accepts keys, and the keys that end it.
pub(super) fn terminal_keys(agent: Agent) -> Option<(&'static str, &'static [&'static str])> {
    match agent {
        Agent::Codex => Some(("OpenAI Codex", &["C-c", "C-c"])),
        Agent::Opencode => Some(("Ask anything", &["C-c"])),
        Agent::Gemini => Some(("Type your message", &["C-c", "C-c"])),
        _ => None,
    }
}

/// Starts a command in tmux, by a shell script that gets it as its arguments.
pub(super) fn in_tmux(script: &str, command: &Command, workspace: &Path) -> Tmux {
    let mut around = Command::new("/bin/sh");
    around.args(["-c", script, "-"]).arg(command.get_program()).args(command.get_args());
    around.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    around.env("TERM", "tmux-256color").env("COLORTERM", "truecolor");
    Tmux::start(around.current_dir(workspace))
}

/// Waits until an agent's screen contains a text.
#[track_caller]
pub(super) fn wait_for(tmux: &Tmux, agent: &str, text: &str) {
    let started = Instant::now();
    while !tmux.screen().contains(text) {
        let screen = tmux.screen();
        let is_patient = started.elapsed() < super::PATIENCE;
        assert!(is_patient, "{agent} never showed {text:?}:\n{screen}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Compares the terminal's modes that the script has written.
#[track_caller]
pub(super) fn assert_modes_are_restored(workspace: &Path, agent: &str) {
    let [before, after] =
        ["before", "after"].map(|it| fs::read_to_string(workspace.join(it)).unwrap());
    assert_eq!(before, after, "{agent} leaves the terminal as it was");
}

/// The tool sidecar starts with its first call, while the agent draws.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_agent_has_the_terminal_and_gives_it_back() {
    for fixture in fixtures_with("an_agent_has_the_terminal_and_gives_it_back", &[]) {
        let Some((ready, end)) = terminal_keys(fixture.agent) else { continue };
        let name = fixture.name();
        let (model, url) =
            fixture.model(Script::new().shell("make where").say("That was the end of it."));
        let mut start = fixture.agent.interactive(&url);
        start.command.splice(0..0, ["--toolchain", "auto"].map(Into::into));
        let (command, _, fixture) = run(fixture, without_the_rows_own(start));
        let workspace = fixture.workspace();
        let tmux = in_tmux(AROUND, &command, &workspace);
        let patient = |what: &str| wait_for(&tmux, name, what);
        patient(ready);
        tmux.press(&["w", "o", "r", "d"]);
        tmux.expect("word");
        tmux.resize(100, 40);
        tmux.until("more than the rows it had", |screen| screen.lines().count() > 30);
        tmux.expect("word");
        // An agent without a screen of its own leaves the lines before its start.
        let before_it = aifos_lines(&tmux);
        tmux.press(&["Enter"]);
        patient("That was the end of it.");
        model.finished();
        let foreign = aifos_lines(&tmux);
        assert!(foreign.iter().all(|line| before_it.contains(line)), "{name}: {foreign:?}");
        let made = model.results();
        assert!(
            made.iter().all(|it| it.output.contains("made for /var/cache/aifo/ccache")),
            "{made:?}"
        );
        tmux.press(end);
        patient("ended with ");
        assert_modes_are_restored(&workspace, name);
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}
