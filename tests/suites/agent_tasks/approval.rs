//! Force pushes of an agent on a terminal, answered in a second one (`spec/questions.md#approve`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aifo_tests::model::{FakeModel, Script};
use aifo_tests::{Outcome, Tmux, eventually_within};
use serde_json::Value;

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

/// Presses a key until a screen shows a text: a key that comes with a question is ignored.
#[track_caller]
fn press_until(terminal: &Tmux, keys: &[&str], screen: &Tmux, text: &str) {
    let started = Instant::now();
    while !screen.screen().contains(text) {
        let shown = screen.screen();
        assert!(started.elapsed() < Duration::from_secs(90), "no {text:?}:\n{shown}");
        terminal.press(keys);
        let pressed = Instant::now();
        while pressed.elapsed() < Duration::from_secs(1) && !screen.screen().contains(text) {
            std::thread::sleep(Duration::from_millis(50));
        }
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

/// Sends a prompt: agents take the keys of their prompt at different times after they draw it.
#[track_caller]
fn send_prompt(agent: &Tmux, model: &FakeModel, name: &str) {
    let is_asked = || model.requests().iter().any(|request| request.replied.is_some());
    let started = Instant::now();
    while !is_asked() {
        assert!(started.elapsed() < PATIENCE, "{name} sends no prompt:\n{}", agent.screen());
        if !agent.screen().contains("go on") {
            agent.press(&["g", "o", "Space", "o", "n"]);
        }
        // Keys that come at once are a paste, whose Enter is a line break.
        std::thread::sleep(Duration::from_secs(1));
        agent.press(&["Enter"]);
        let pressed = Instant::now();
        while pressed.elapsed() < Duration::from_secs(3) && !is_asked() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
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

fn push(branch: &str) -> String {
    format!("git push --force ./origin.git main:{branch}")
}

fn pushed(workspace: &Path, branch: &str) -> bool {
    workspace.join("origin.git/refs/heads").join(branch).exists()
}

/// The seconds of `ask.timeout_secs`.
const TIMEOUT: u64 = 30;

/// Each answer, no answer, and a client that leaves, from a second terminal while the agent works.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn force_pushes_are_answered_in_a_second_terminal_and_the_agent_goes_on() {
    let test = "force_pushes_are_answered_in_a_second_terminal_and_the_agent_goes_on";
    for fixture in fixtures_with(test, &[]) {
        let Some((ready, end)) = terminal_keys(fixture.agent) else { continue };
        let name = fixture.name();
        let lines = [
            push("denied"),
            push("once"),
            push("session"),
            push("session"),
            push("always"),
            push("always"),
            format!("timeout 5 {}", push("left")),
            "while ! test -e answered; do sleep 0.2; done".to_owned(),
            push("left"),
            push("late"),
            push("end"),
        ];
        let script = lines.iter().fold(Script::new(), |script, line| script.shell(line));
        let (model, url) = fixture.model(script.say("The branch stays as it is."));
        let mut start = fixture.agent.interactive(&url);
        start.command.splice(0..0, ["--toolchain", "auto"].map(Into::into));
        let config = format!("[ask]\ntimeout_secs = {TIMEOUT}\n");
        start.files.push((".config/aifo/config.toml", config));
        let (mut command, _, fixture) = run(fixture, without_the_rows_own(start));
        let workspace = fixture.workspace();
        make_repository(&workspace);
        command.current_dir(&workspace);
        let agent = terminal(&command);
        shows(&agent, name, ready);
        send_prompt(&agent, &model, name);

        let approve = || {
            let mut approve = fixture.containers.setup().coder();
            approve.arg("approve");
            approve
        };
        eventually_within(PATIENCE, &format!("{name} has called"), || !model.requests().is_empty());
        model.called(0);
        let mut watch = approve();
        let second = terminal(watch.arg("--watch"));
        let answered = |id: &str, branch: &str, key: &str| {
            shows(&second, "approve", &format!("{id}  {}", push(branch)));
            assert!(!pushed(&workspace, branch), "{name}: {branch}");
            press_until(&second, &[key], &second, &format!("{id}: answered with"));
        };
        answered("q1", "denied", "n");
        answered("q2", "once", "y");
        answered("q3", "session", "s");
        shows(&second, "approve", &format!("q4  {}", push("always")));
        press_until(&second, &["a"], &second, "write this rule?");
        press_until(&second, &["y"], &second, "q4: answered with");
        // The shell of this call has ended it.
        eventually_within(PATIENCE, &format!("the client of {name} has left"), || {
            let listed = Outcome::of(&mut approve()).exited(0).text();
            listed.contains(&push("left")) && listed.contains("its client has left")
        });
        answered("q5", "left", "y");
        assert!(!pushed(&workspace, "left"), "{name}: the client had left");
        fs::write(workspace.join("answered"), "").unwrap();
        shows(&second, "approve", &format!("q6  {}", push("late")));
        // The question without an answer stays open for a repetition.
        answered("q7", "end", "e");
        shows(&agent, name, "The branch stays as it is.");
        model.finished();

        let results = model.results();
        assert_eq!(results.len(), lines.len(), "{name}: {results:?}");
        let late = format!("not approved within {TIMEOUT} s: {}", push("late"));
        let denials: [(usize, &str, &str); 3] = [
            (0, "denied by the user: git push --force", "hint: do not repeat this call"),
            (9, &late, "covers one repetition"),
            (10, "denied by the user: git push --force", "end your turn and wait for the user"),
        ];
        for (at, line, hint) in denials {
            // Some agents break lines of output.
            let output = results[at].output.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(output.contains(line), "{name}: {line}: {results:?}");
            assert!(output.contains(hint), "{name}: {hint}: {results:?}");
            assert!(results[at].exit.is_none_or(|code| code == 86), "{name}: {results:?}");
        }
        let branches = ["denied", "once", "session", "always", "left", "late", "end"];
        let ran = branches.map(|branch| pushed(&workspace, branch));
        assert_eq!(ran, [false, true, true, true, true, false, false], "{name}: {results:?}");
        let calls = fixture.calls();
        let runs = branches.map(|branch| {
            let is_run = |call: &&Value| {
                call["rule"] == "in-place" && call["argv"].to_string().contains(&push(branch)[4..])
            };
            calls.iter().filter(is_run).count()
        });
        assert_eq!(runs, [0, 1, 2, 2, 1, 0, 0], "{name}: {calls:?}");
        let home = fixture.containers.setup().scratch().join("home");
        let file = fs::read_to_string(home.join(".config/aifo/config.toml")).unwrap();
        assert!(file.contains("main:always") && file.contains("exact = true"), "{file}");
        assert!(!file.contains("main:session"), "{file}");
        // A key that comes while the turn ends has another effect.
        press_until(&agent, end, &agent, "ended with ");
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}
