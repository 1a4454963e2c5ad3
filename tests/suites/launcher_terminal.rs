//! The terminal belongs to the agent: the launcher prints before it and after it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use aifo_tests::{Outcome, SessionSetup, Sidecar, Signal, Terminal, eventually, send_signal};
use serde_json::Value;

use crate::on_demand::Gate;

/// Draws a screen in raw mode and calls a tool twice, with the terminal as its stderr.
const DRAWS: &str = r"/bin/stty raw -echo
printf '\033[?1049h\033[2Jdraws> '
cargo say one >one
printf 'one'; : >called
while [ ! -e go ]; do /bin/sleep 0.01; done
cargo say two >two; ls say three >three 2>&1
printf 'two\033[?1049l'";

/// All bytes of [`DRAWS`].
const DRAWN: &str = "\x1b[?1049h\x1b[2Jdraws> onetwo\x1b[?1049l";

const CLEAR: &str = "\r\x1b[K";

const LOST: &str = "sidecar was lost, starting it again kind=rust";

/// The log of the only session.
fn records(setup: &SessionSetup) -> Vec<Value> {
    let directory = setup.scratch().join("home/.local/state/aifo/log");
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let logs: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    let text = logs.first().map(|log| fs::read_to_string(log).unwrap()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn messages(setup: &SessionSetup) -> Vec<String> {
    let records = records(setup).into_iter();
    records.filter_map(|record| Some(record["message"].as_str()?.to_owned())).collect()
}

fn draws(setup: &SessionSetup, options: &[&str]) -> Command {
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "auto"]).args(options);
    run.args(["--", "/bin/bash", "-c", DRAWS]);
    run
}

/// Runs [`DRAWS`]; its first call starts a sidecar slowly, and the second finds it killed.
#[track_caller]
fn drawn(setup: SessionSetup, options: &[&str]) -> (SessionSetup, Terminal) {
    let (gate, setup) = Gate::for_setup(setup.kinds(&["auto"]));
    gate.put("shut");
    let terminal = Terminal::sized(80, 24);
    let agent = terminal.start(&draws(&setup, options));
    eventually("the start has begun", || gate.starts() == 1);
    // Longer than the threshold of a progress message; not a wait for a condition.
    thread::sleep(Duration::from_millis(400));
    gate.take("shut");
    let called = setup.workspace().join("called");
    eventually("the first call has ended", || called.exists());
    for sidecar in Sidecar::of(agent.pid()) {
        send_signal(sidecar.runner, Signal::SIGKILL);
        eventually("the guard has ended", || !aifo_tests::is_alive(sidecar.guard));
    }
    fs::write(setup.workspace().join("go"), "").unwrap();
    assert_eq!(agent.finish(), Ok(0), "{}", terminal.shown());
    for (name, text) in [("one", "one\n"), ("two", "two\n")] {
        assert_eq!(fs::read_to_string(setup.workspace().join(name)).unwrap(), text);
    }
    (setup, terminal)
}

/// Also no line of the shim, whose stderr is the terminal.
#[test]
fn a_screen_gets_the_agents_bytes_alone() {
    let (setup, terminal) = drawn(SessionSetup::new(), &[]);
    // The agent left the terminal without output processing.
    let all = format!("{DRAWN}{CLEAR}aifo-coder: {LOST}\n");
    eventually("the terminal shows a line after the agent", || terminal.shown().ends_with('\n'));
    assert_eq!(terminal.shown(), all);
    let messages = messages(&setup);
    for message in ["rust: starting ..", "rust: ready in ", LOST] {
        let found = messages.iter().any(|found| found.starts_with(message));
        assert!(found, "{message}: {messages:?}");
    }
    let log = Outcome::of(setup.coder().args(["log", "--failed"])).exited(0).text();
    assert!(log.contains(&format!("  warning    {LOST}\n")), "{log}");
    assert!(!log.contains("ready in"), "{log}");
}

#[test]
fn a_verbose_session_logs_to_its_file() {
    let (setup, terminal) = drawn(SessionSetup::new(), &["--verbose"]);
    let shown = terminal.shown();
    let (before, rest) = shown.split_once("\x1b[?1049h").expect("the agent draws");
    let place = setup.scratch().join("home/.local/state/aifo/log");
    let line = format!("log lines go to '{}/", place.display());
    assert!(before.lines().last().is_some_and(|last| last.contains(&line)), "{before}");
    assert!(rest.starts_with("\x1b[2Jdraws> onetwo\x1b[?1049l"), "{rest:?}");
    let messages = messages(&setup);
    assert!(messages.iter().any(|message| message.starts_with("exec tool=cargo")), "{messages:?}");
}

/// Neither a start on demand nor a tool's call is a message.
#[test]
fn a_quiet_start_on_demand_prints_nothing() {
    let setup = SessionSetup::new();
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "auto", "--", "cargo", "say", "hi"]);
    let outcome = Outcome::of(&mut run);
    assert_eq!((outcome.exited(0).text(), outcome.stderr.as_str()), ("hi\n".to_owned(), ""));
    assert!(messages(&setup).iter().any(|message| message == "rust: starting .."));
}

/// A log on another stderr is complete.
#[test]
fn a_launcher_without_the_terminal_prints_at_once() {
    let setup = SessionSetup::new().verbose();
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "rust", "--", "cargo", "say", "hi"]);
    let outcome = Outcome::of(&mut run);
    assert_eq!(outcome.exited(0).text(), "hi\n");
    assert!(outcome.stderr.contains("\naifo-coder: exec tool=cargo "), "{outcome:?}");
    assert!(!outcome.stderr.contains("log lines go to"), "{outcome:?}");
    assert!(messages(&setup).iter().any(|message| message.starts_with("exec end")));
}
