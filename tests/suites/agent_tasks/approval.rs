//! A force push of an agent on a terminal, denied in a second one (`spec/questions.md#approve`).

use std::process::Command;
use std::time::{Duration, Instant};

use aifo_tests::Tmux;
use aifo_tests::model::{Agent, Script};

use super::terminal::terminal_keys;
use super::{PATIENCE, fixtures_with, run, without_the_rows_own};

/// Waits until a screen shows a text: agents load for many seconds.
#[track_caller]
fn shows(tmux: &Tmux, name: &str, text: &str) {
    let started = Instant::now();
    while !tmux.screen().contains(text) {
        let screen = tmux.screen();
        assert!(started.elapsed() < PATIENCE, "{name} never showed {text:?}:\n{screen}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Presses keys until a screen shows a text.
#[track_caller]
fn press_until(terminal: &Tmux, keys: &[&str], screen: &Tmux, text: &str) {
    let started = Instant::now();
    while !screen.screen().contains(text) {
        let shown = screen.screen();
        assert!(started.elapsed() < Duration::from_secs(60), "no {text:?}:\n{shown}");
        terminal.press(keys);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A terminal with this command, and its environment.
fn terminal(command: &Command) -> Tmux {
    let mut around = Command::new("/bin/sh");
    around.args(["-c", "trap : INT; \"$@\"; echo ended with $?; trap '' INT; exec cat", "-"]);
    around.arg(command.get_program()).args(command.get_args());
    around.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    around.env("TERM", "tmux-256color").env("COLORTERM", "truecolor");
    if let Some(directory) = command.get_current_dir() {
        around.current_dir(directory);
    }
    Tmux::start(&around)
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_force_push_is_denied_in_a_second_terminal_and_the_agent_goes_on() {
    let test = "a_force_push_is_denied_in_a_second_terminal_and_the_agent_goes_on";
    for fixture in fixtures_with(test, &[]) {
        // The others take the prompt's keys at other times.
        let Some((ready, end)) = terminal_keys(fixture.agent) else { continue };
        if fixture.agent != Agent::Codex {
            continue;
        }
        let name = fixture.name();
        let script = Script::new()
            .shell("git push --force origin main")
            .shell("git --version")
            .say("The branch stays as it is.");
        let (model, url) = fixture.model(script);
        let mut start = fixture.agent.interactive(&url);
        start.command.splice(0..0, ["--toolchain", "auto"].map(Into::into));
        let (mut command, _, fixture) = run(fixture, without_the_rows_own(start));
        command.current_dir(fixture.workspace());
        let agent = terminal(&command);
        shows(&agent, name, ready);
        agent.press(&["g", "o"]);
        agent.expect("go");
        agent.press(&["Enter"]);

        model.called(0);
        let mut approve = fixture.containers.setup().coder();
        approve.args(["approve", "--watch"]);
        let second = terminal(&approve);
        shows(&second, "approve", "git push --force origin main");
        shows(&second, "approve", "rewrites history that others have");
        // A key that comes with the question is ignored.
        press_until(&second, &["n"], &agent, "The branch stays as it is.");
        model.finished();
        let results = model.results();
        let [denied, version] = &results[..] else { panic!("{name}: {results:?}") };
        let line = "denied by the user: git push --force origin main";
        assert!(denied.output.contains(line), "{name}: {denied:?}");
        assert!(denied.output.contains("hint: do not repeat this call"), "{name}: {denied:?}");
        assert!(denied.exit.is_none_or(|code| code == 86), "{name}: {denied:?}");
        assert!(version.output.contains("git version "), "{name}: {version:?}");
        let calls = fixture.calls();
        let ran = calls.iter().find(|call| call["tool"] == "git" && call["argv"] == "--version");
        assert_eq!(ran.map(|call| call["ending"].clone()), Some("in-place".into()), "{calls:?}");
        // A key that comes while the turn ends has another effect.
        press_until(&agent, end, &agent, "ended with ");
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}
