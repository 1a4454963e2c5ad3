//! Sidecars start with the first call of a tool and stop when idle.
//!
//! Proves `spec/toolexec.md#on-demand`, `spec/runner.md#retiring`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use aifo_tests::{
    Invocation, Outcome, Running, Session, SessionSetup, Sidecar, Signal, Terminal, binaries,
    copy_executable, eventually, fresh_id, is_alive, send_signal,
};

/// A shim whose guards a test controls: each appends a line to `starts`, waits while the file
/// `shut` exists, and fails if the file `broken` exists.
pub(crate) struct Gate {
    dir: PathBuf,
}

impl Gate {
    /// Creates it beside the directories of a setup, which gets the shim.
    pub(crate) fn for_setup(setup: SessionSetup) -> (Self, SessionSetup) {
        let dir = setup.scratch().to_owned();
        let (place, real) = (dir.display(), binaries().shim.display());
        let script = format!(
            "if [ \"$1\" = guard ]; then\n\
             echo start >> {place}/starts\n\
             while [ -e {place}/shut ]; do /bin/sleep 0.01; done\n\
             if [ -e {place}/broken ]; then exit 1; fi\n\
             exec -a aifo-runner {real} \"$@\"\n\
             fi\n\
             case \"$0\" in */shims/*) exec -a \"$0\" {real} \"$@\"; esac\n\
             exec {real} \"$@\""
        );
        let shim = setup.scratch().join("gated-shim");
        fs::write(&shim, format!("#!/bin/bash\n{script}\n")).unwrap();
        assert!(Command::new("/bin/chmod").arg("755").arg(&shim).status().unwrap().success());
        let setup = setup.env_path("AIFO_SHIM_BIN", &shim);
        (Gate { dir }, setup)
    }

    pub(crate) fn starts(&self) -> usize {
        fs::read_to_string(self.dir.join("starts")).unwrap_or_default().lines().count()
    }

    pub(crate) fn put(&self, name: &str) {
        fs::write(self.dir.join(name), "").unwrap();
    }

    pub(crate) fn take(&self, name: &str) {
        fs::remove_file(self.dir.join(name)).unwrap();
    }
}

fn gated(options: &[&str]) -> (Gate, Session) {
    let setup = SessionSetup::new().kinds(&["auto"]).options(options).verbose();
    let (gate, setup) = Gate::for_setup(setup);
    (gate, setup.start())
}

/// Runs a fake tool to its end.
#[track_caller]
fn call(session: &Session, tool: &str) {
    let answer = session.answer(&session.exec(tool, ["say", "hi"]));
    assert_eq!((answer.exit_code(), answer.text().as_str()), (Some("0"), "hi\n"));
}

/// Waits until this many calls are waiting for a sidecar.
#[track_caller]
fn waiting(session: &Session, calls: usize) {
    eventually(&format!("{calls} calls have waited"), || {
        session.log_lines(&["a call waits for its sidecar"]).len() == calls
    });
}

/// The kind of a tool sidecar, from the log.
#[track_caller]
fn kind_of(session: &Session, tool: &str) -> String {
    let id = fresh_id();
    let answer = session.answer(&session.exec(tool, ["say"]).id(&id));
    assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
    let lines = session.log_lines(&["exec tool=", &format!("exec_id={id} ")]);
    let kind = lines[0].split_whitespace().find_map(|word| word.strip_prefix("kind="));
    kind.unwrap_or_else(|| panic!("no kind: {lines:?}")).to_owned()
}

/// `aifo-coder ps` in the session environment.
#[track_caller]
fn listed(session: &Session, options: &[&str]) -> String {
    let mut coder = Command::new(&binaries().coder);
    coder.env_clear().env("XDG_RUNTIME_DIR", session.scratch().join("run")).arg("sessions");
    Outcome::of(coder.args(options)).exited(0).text()
}

#[test]
fn the_first_call_of_a_tool_starts_its_sidecar() {
    let (gate, session) = gated(&[]);
    assert_eq!((gate.starts(), Sidecar::of(session.pid()).len()), (0, 0));
    assert!(listed(&session, &[]).contains(" none yet "), "{}", listed(&session, &[]));
    call(&session, "cargo");
    call(&session, "cargo");
    assert_eq!((gate.starts(), Sidecar::of(session.pid()).len()), (1, 1));
    eventually("it is listed as running", || listed(&session, &[]).contains(" rust "));
    let json: serde_json::Value = serde_json::from_str(&listed(&session, &["--json"])).unwrap();
    assert_eq!(json[0]["up"], serde_json::json!(["rust"]));
    assert_eq!(json[0]["toolchains"].as_array().map(Vec::len), Some(5));
    let answer = session.answer(&session.exec("ls", ["say"]));
    assert_eq!(answer.status(), 403, "what is in no allowlist starts nothing");
    assert_eq!(gate.starts(), 1);
}

#[test]
fn concurrent_first_calls_share_one_start_and_delay_no_other_call() {
    let (gate, session) = gated(&[]);
    call(&session, "make");
    gate.put("shut");
    let calls: Vec<_> = (0..8).map(|_| session.send(&session.exec("cargo", ["say"]))).collect();
    eventually("the start has begun", || gate.starts() == 2);
    call(&session, "make");
    gate.take("shut");
    for call in calls {
        assert_eq!(call.answer().exit_code(), Some("0"));
    }
    assert_eq!(gate.starts(), 2);
}

#[test]
fn a_failed_start_fails_every_waiting_call_and_the_next_call_retries() {
    let (gate, session) = gated(&[]);
    for file in ["shut", "broken"] {
        gate.put(file);
    }
    let calls =
        ["1", "2", "2"].map(|proto| session.send(&session.exec("cargo", ["say"]).proto(proto)));
    let shim = Running::start(session.shim("cargo").arg("say"));
    waiting(&session, 4);
    gate.take("shut");
    let cause = "cannot start the rust sidecar: its runner ended before it was ready";
    for call in calls {
        let answer = call.answer();
        assert_eq!((answer.status(), answer.exit_code()), (500, Some("86")));
        let expected =
            format!("aifo-coder mailbox error: {cause}\nhint: the next call tries again\n");
        assert_eq!(answer.text(), expected);
    }
    assert!(shim.finish().exited(86).only_line().contains(cause));
    assert_eq!(gate.starts(), 1);
    gate.take("broken");
    call(&session, "cargo");
    assert_eq!(gate.starts(), 2);
}

/// Of several kinds with the tool, running ones come first, then the table's order.
#[test]
fn a_dev_tool_starts_nothing_while_one_that_runs_has_it() {
    let (gate, session) = gated(&[]);
    assert_eq!(kind_of(&session, "cargo"), "rust");
    assert_eq!(kind_of(&session, "make"), "rust");
    assert_eq!(gate.starts(), 1);
    let (_, session) = gated(&[]);
    assert_eq!(kind_of(&session, "make"), "c-cpp", "the first of the table");
}

/// Only the python sidecar searches virtual environments.
#[test]
fn a_dev_tool_that_none_has_so_far_is_looked_for_in_the_others() {
    let setup = SessionSetup::new().kinds(&["auto"]).verbose();
    let bin = setup.workspace().join(".venv/bin");
    fs::create_dir_all(&bin).unwrap();
    for tool in ["python3", "cmake"] {
        copy_executable(&binaries().tool, bin.join(tool));
    }
    let (gate, setup) = Gate::for_setup(setup);
    let session = setup.start();
    assert_eq!(kind_of(&session, "cmake"), "python");
    assert_eq!(gate.starts(), 5, "each of them was asked");
    let absent = session.answer(&session.exec("clang", ["say"]));
    assert_eq!((absent.status(), absent.exit_code()), (409, Some("86")));
}

#[test]
fn an_explicit_list_starts_nothing_later() {
    let (gate, setup) = Gate::for_setup(SessionSetup::new().kinds(&["c-cpp"]));
    let session = setup.start();
    let answer = session.answer(&session.exec("cargo", ["say"]));
    assert_eq!((answer.status(), gate.starts()), (409, 1));
}

#[test]
fn an_idle_sidecar_stops_and_the_next_calls_start_it_once() {
    let (gate, session) = gated(&["--idle-stop", "1"]);
    for round in 1..=3 {
        thread::scope(|scope| {
            for number in 0..24 {
                let session = &session;
                scope.spawn(move || match number % 3 {
                    0 => _ = Outcome::of(session.shim("cargo").arg("say")).exited(0),
                    _ => call(session, "cargo"),
                });
            }
        });
        assert_eq!(gate.starts(), round);
        eventually("the sidecar has ended", || Sidecar::of(session.pid()).is_empty());
    }
    eventually("each is logged", || session.log_lines(&["rust: stopped, idle for 1 s"]).len() == 3);
    eventually("none is listed as running", || listed(&session, &[]).contains(" none yet "));
}

#[test]
fn a_background_process_keeps_its_sidecar() {
    let (gate, session) = gated(&["--idle-stop", "1"]);
    let file = session.file("leaf");
    let answer = session.answer(&session.exec("make", ["daemon", &file]));
    assert_eq!(answer.exit_code(), Some("0"));
    eventually("it was asked to go", || {
        !session.log_lines(&["sidecar stays, something still runs in it kind=c-cpp"]).is_empty()
    });
    let leaf = fs::read_to_string(&file).unwrap().parse().expect("the leaf writes its pid");
    assert!(is_alive(leaf) && Sidecar::of(session.pid()).len() == 1);
    send_signal(leaf, Signal::SIGKILL);
    eventually("the sidecar has ended", || Sidecar::of(session.pid()).is_empty());
    call(&session, "make");
    assert_eq!(gate.starts(), 2);
}

#[test]
fn a_call_whose_client_leaves_before_its_sidecar_is_up_runs_nothing() {
    let (gate, session) = gated(&[]);
    gate.put("shut");
    let file = session.file("ran");
    let plain = session.send(&session.exec("cargo", ["record", &file]));
    let shim = Running::start(session.shim("cargo").args(["record", &file]));
    waiting(&session, 2);
    drop(plain);
    shim.signal(Signal::SIGKILL);
    eventually("both have been given up", || {
        session.log_lines(&["refused", "the caller left before the rust sidecar was up"]).len() == 2
    });
    gate.take("shut");
    call(&session, "cargo");
    assert_eq!(gate.starts(), 1, "the start continued for the next call");
    assert!(!PathBuf::from(file).exists());
}

#[test]
fn the_end_of_the_session_does_not_wait_for_callers() {
    let (gate, mut session) = gated(&[]);
    gate.put("shut");
    let call = session.send(&session.exec("cargo", ["say"]));
    waiting(&session, 1);
    send_signal(session.pid(), Signal::SIGTERM);
    let answer = call.answer();
    assert_eq!((answer.status(), answer.exit_code()), (500, Some("86")));
    assert!(answer.text().contains("the session ended before the rust sidecar was up"));
    gate.take("shut");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
}

/// The shim messages while a sidecar starts slowly.
#[test]
fn a_waiting_terminal_shows_what_it_waits_for() {
    let (gate, session) = gated(&[]);
    gate.put("shut");
    let shim = |version: &str| {
        let mut shim = session.shim("cargo");
        shim.args(["exit", "3"]).env("AIFO_SHIM_PROTO", version);
        shim
    };
    let (terminal, older, agents) = (Terminal::new(), Terminal::new(), Terminal::new());
    let (printed, untold) = (terminal.start(&shim("3")), older.start(&shim("2")));
    let of_agent = agents.start(shim("3").env("AIFO_SHIM_PROGRESS", "0"));
    let piped = Running::start(&mut shim("3"));
    waiting(&session, 4);
    let line = "\r\x1b[Kaifo-shim: starting the rust sidecar ...";
    terminal.expect(line);
    gate.take("shut");
    assert_eq!((printed.finish(), untold.finish()), (Ok(3), Ok(3)));
    let all = format!("{line}\r\x1b[K");
    eventually("the line disappears", || terminal.shown() == all);
    assert_eq!(older.shown(), "", "version 2 knows no such word");
    assert_eq!((of_agent.finish(), agents.shown().as_str()), (Ok(3), ""));
    assert_eq!(piped.finish().exited(3).stderr, "", "stderr is no terminal");
}

#[test]
fn the_interim_answer_byte_for_byte() {
    let (gate, session) = gated(&[]);
    gate.put("shut");
    let request = Invocation::new(&session, "cargo", ["say", "hi"]).id("raw").request(&session);
    let mut call = session.send(&request);
    let interim = "HTTP/1.1 102 Processing\r\nX-Aifo-Progress: starting the rust sidecar\r\n\r\n";
    assert_eq!(call.read_until(b"sidecar\r\n\r\n"), interim.as_bytes());
    gate.take("shut");
    call.read_until(b"HTTP/1.1 101 Switching Protocols\r\n");
}

/// `aifo-coder`'s messages for sidecars that start at once.
#[test]
fn a_starting_session_reports_slow_sidecars() {
    let run = |options: &[&str]| {
        let (gate, setup) = Gate::for_setup(SessionSetup::new());
        let mut coder = setup.coder();
        coder.args(["run", "--toolchain", "rust"]).args(options).args(["--", "/bin/true"]);
        gate.put("shut");
        (gate, setup, coder)
    };
    let open_late = |gate: &Gate| {
        eventually("the start has begun", || gate.starts() == 1);
        // Longer than the threshold of a message; not a wait for a condition.
        thread::sleep(Duration::from_millis(400));
        gate.take("shut");
    };
    let (gate, _setup, mut coder) = run(&[]);
    let running = Running::start(&mut coder);
    open_late(&gate);
    let outcome = running.finish();
    let line = outcome.exited(0).only_line();
    assert!(line.starts_with("aifo-coder: rust: ready in ") && line.ends_with(" s"), "{line}");

    let (gate, _setup, mut coder) = run(&["--quiet"]);
    let running = Running::start(&mut coder);
    open_late(&gate);
    assert_eq!(running.finish().exited(0).stderr, "");

    let (gate, _setup, coder) = run(&[]);
    let terminal = Terminal::new();
    let running = terminal.start(&coder);
    let line = "\r\x1b[Kaifo-coder: rust: starting ..";
    terminal.expect(line);
    open_late(&gate);
    assert_eq!(running.finish(), Ok(0));
    let all = format!("{line}\r\x1b[K");
    eventually("the line disappears", || terminal.shown() == all);

    let (gate, _setup, coder) = run(&["--quiet"]);
    let terminal = Terminal::new();
    let running = terminal.start(&coder);
    open_late(&gate);
    assert_eq!((running.finish(), terminal.shown().as_str()), (Ok(0), ""));
}

#[test]
fn a_version_that_cannot_be_had_starts_nothing() {
    let (gate, setup) = Gate::for_setup(SessionSetup::new());
    let mut coder = setup.coder();
    coder.args(["exec", "--backend", "local", "--toolchain", "rust@1.95", "--", "cargo", "say"]);
    let outcome = Outcome::of(&mut coder);
    let expected = "aifo-coder: the local backend runs the installed rust, so it cannot provide \
         version 1.95\nhint: omit the version, or use containers with --backend docker or podman\n";
    assert_eq!(outcome.exited(86).stderr, expected);
    assert_eq!(gate.starts(), 0);
}

#[test]
fn why_says_that_sidecars_start_on_demand() {
    let setup = SessionSetup::new();
    let printed = Outcome::of(setup.coder().args(["why", "--toolchain", "auto", "make"]));
    let text = printed.exited(0).text();
    let line = "sidecars:    on the first call: c-cpp, go, node, python, rust\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("chosen:      c-cpp, the first that has make\n"), "{text}");
    let printed = Outcome::of(setup.coder().args(["why", "--toolchain", "rust,auto", "make"]));
    let text = printed.exited(0).text();
    let line = "sidecars:    rust; on the first call: c-cpp, go, node, python\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("chosen:      rust, the first that has make\n"), "{text}");
}

#[test]
fn what_the_files_show_starts_with_the_session_and_the_others_with_a_call() {
    let (gate, setup) = Gate::for_setup(SessionSetup::new().kinds(&[]).verbose());
    fs::write(setup.workspace().join("go.mod"), "module x\n").unwrap();
    let session = setup.start();
    assert_eq!(gate.starts(), 1, "only that of go");
    assert_eq!(kind_of(&session, "make"), "go", "it runs and has the tool");
    call(&session, "cargo");
    assert_eq!(gate.starts(), 2);
}
