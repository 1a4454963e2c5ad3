//! Tools in a running container of the user.
//!
//! Proves `spec/containers.md#attach`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use aifo_tests::{
    Engine, Outcome, Running, Session, SessionSetup, Signal, Terminal, Tool, UserContainer, argv,
    eventually, fresh_id, is_alive, send_signal, tagged_processes,
};

/// A project, a container with the project at `/app`, and a session attached to it.
struct Attached {
    session: Session,
    container: UserContainer,
}

/// Mounts a setup's project at `/app`.
fn project(setup: &SessionSetup) -> String {
    format!("type=bind,source={},destination=/app", setup.workspace().display())
}

fn container(setup: &SessionSetup, engine: &Engine, options: &[&str]) -> UserContainer {
    let container =
        UserContainer::start(engine, &[&["--mount", &project(setup)][..], options].concat());
    container.shell("echo only here > /marker; chmod 777 /app");
    container
}

impl Attached {
    fn start(engine: &Engine, options: &[&str]) -> Self {
        let setup = SessionSetup::new();
        let container = container(&setup, engine, options);
        Attached::to(setup, engine, container)
    }

    fn to(setup: SessionSetup, engine: &Engine, container: UserContainer) -> Self {
        let attach = format!("{}=python", container.name());
        let serve = ["serve", "--toolchain", "python", "--attach", &attach];
        let serve = engine.coder(&setup, &serve);
        Attached { session: setup.start_as(serve), container }
    }

    /// python in the container, with this exec id.
    fn python(&self, id: &str, script: &str) -> Command {
        let mut python = self.session.shim("python3");
        python.args(["-c", script]).env("AIFO_EXEC_ID", id);
        python
    }

    #[track_caller]
    fn run(&self, script: &str) -> Outcome {
        Outcome::of(&mut self.python(&fresh_id(), script))
    }

    /// A waiting call that has printed `ready`.
    #[track_caller]
    fn waiting(&self, id: &str) -> Running {
        let script = "import time; print('ready', flush=True); time.sleep(86000)";
        let running = Running::start(&mut self.python(id, script));
        running.expect("ready\n");
        running
    }

    /// Waits until no aifo process is in the container.
    #[track_caller]
    fn nothing_is_left(&self) {
        eventually("no aifo process runs in the container", || {
            self.container.processes_inside().iter().all(|&pid| !is_ours(pid))
        });
        assert_eq!(files(&self.container), "");
    }
}

/// Returns whether the container process is the runner or a tool.
fn is_ours(pid: i32) -> bool {
    let words = argv(pid);
    let is_runner = words.first().is_some_and(|word| word.ends_with("aifo-runner"));
    is_runner || words.first().is_some_and(|word| word.contains("python"))
}

/// aifo's files in a container.
fn files(container: &UserContainer) -> String {
    // Files that vanish meanwhile are not an error.
    container.shell("find / -xdev -name '*aifo*' -not -path '/proc/*' || true")
}

/// Whatever the session network is; a warning names the container.
#[test]
fn tools_keep_the_containers_network() {
    let test = "container_attach::tools_keep_the_containers_network";
    let Some(engine) = Engine::of_run(test) else { return };
    let setup = SessionSetup::new();
    let container = container(&setup, &engine, &[]);
    let attach = format!("{}=python", container.name());
    let options = ["serve", "--toolchain", "python", "--attach", &attach, "--net", "names"];
    let serve = engine.coder(&setup, &options);
    let session = setup.start_as(serve);
    let attached = Attached { session, container };
    let namespace = "import os; print(os.readlink('/proc/self/ns/net'))";
    let own = attached.container.shell("readlink /proc/self/ns/net");
    assert_eq!(attached.run(namespace).exited(0).text().trim_end(), own.trim_end());
    let warning = format!(
        "python tools have the network of container '{}', whatever --net is",
        attached.container.name()
    );
    attached.session.log_lines(&[&warning]);
}

#[test]
fn tools_run_where_the_user_has_them() {
    let Some(engine) = Engine::of_run("tools_run_where_the_user_has_them") else { return };
    for options in [&[][..], &["--user", "1000:1000"]] {
        let attached = Attached::start(&engine, options);
        // The runner or root has removed its file.
        assert_eq!(files(&attached.container), "", "{options:?}");
        let marker = attached.run("print(open('/marker').read(), end='')");
        assert_eq!(marker.exited(0).text(), "only here\n");
        attached.run("raise SystemExit(7)").exited(7);
        let wrote = attached.run("open('made', 'w').write('by a tool')");
        wrote.exited(0);
        let made = fs::read_to_string(attached.session.file("made"));
        assert_eq!(made.expect("it is in the project"), "by a tool");
        let user = attached.run("import os; print(os.getuid())");
        let expected = if options.is_empty() { "0\n" } else { "1000\n" };
        assert_eq!(user.exited(0).text(), expected);
    }
}

#[test]
fn a_directory_is_called_as_the_container_calls_it() {
    let Some(engine) = Engine::of_run("a_directory_is_called_as_the_container_calls_it") else {
        return;
    };
    let attached = Attached::start(&engine, &[]);
    let sub = attached.session.workspace().join("sub/deep");
    fs::create_dir_all(&sub).expect("the project is writable");
    let script = "import os; print(os.getcwd(), os.environ['PWD'])";
    for (dir, expected) in
        [(attached.session.workspace(), "/app /app\n"), (sub, "/app/sub/deep /app/sub/deep\n")]
    {
        for version in ["2", "3"] {
            let mut python = attached.python(&fresh_id(), script);
            python.current_dir(&dir).env("AIFO_SHIM_PROTO", version);
            assert_eq!(Outcome::of(&mut python).exited(0).text(), expected, "version {version}");
        }
    }
    let outside = attached.session.scratch().join("home");
    let mut python = attached.python(&fresh_id(), script);
    let outcome = Outcome::of(python.current_dir(&outside));
    assert!(outcome.exited(86).stderr.contains("cwd"), "{outcome:?}");
}

#[test]
fn bytes_signals_and_terminals_are_as_everywhere() {
    let Some(engine) = Engine::of_run("bytes_signals_and_terminals_are_as_everywhere") else {
        return;
    };
    let attached = Attached::start(&engine, &[]);
    let echo = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])";
    let mut python = attached.python(&fresh_id(), echo);
    let spawned = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = spawned.expect("a shim can be started");
    let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut stdin = python.stdin.take().expect("it is a pipe");
    let writer = {
        let sent = sent.clone();
        std::thread::spawn(move || stdin.write_all(&sent))
    };
    let output = python.wait_with_output().expect("try_wait works on a child");
    writer.join().expect("no panic").expect("all was read");
    let mut received = output.stdout;
    received.reverse();
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());

    let interrupted = attached.waiting(&fresh_id());
    interrupted.signal(Signal::SIGINT);
    interrupted.finish().died_of(Signal::SIGINT);

    let terminal = Terminal::sized(97, 31);
    let script = "import os, sys; print(os.get_terminal_size(), sys.stdin.isatty()); input()";
    let process = terminal.start(&attached.python(&fresh_id(), script));
    terminal.expect("columns=97, lines=31) True");
    terminal.press("\r");
    assert_eq!(process.finish(), Ok(0));
}

#[test]
fn the_container_is_left_as_it_was() {
    let Some(engine) = Engine::of_run("the_container_is_left_as_it_was") else { return };
    let mut attached = Attached::start(&engine, &[]);
    let id = fresh_id();
    let waiting = attached.waiting(&id);
    attached.session.end(Signal::SIGTERM);
    waiting.finish();
    attached.nothing_is_left();
    assert_eq!(tagged_processes(&id), Vec::<i32>::new());
    assert_eq!(attached.container.shell("cat /marker"), "only here\n", "it runs on");
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing() {
    let Some(engine) = Engine::of_run("a_launcher_that_is_killed_leaves_nothing") else { return };
    let mut attached = Attached::start(&engine, &["--user", "1000"]);
    let id = fresh_id();
    let waiting = attached.waiting(&id);
    attached.session.end(Signal::SIGKILL);
    waiting.finish().exited(125);
    attached.nothing_is_left();
    assert_eq!(tagged_processes(&id), Vec::<i32>::new());
}

#[test]
fn a_runner_that_is_killed_takes_its_tools_along() {
    let Some(engine) = Engine::of_run("a_runner_that_is_killed_takes_its_tools_along") else {
        return;
    };
    let attached = Attached::start(&engine, &[]);
    let id = fresh_id();
    let waiting = attached.waiting(&id);
    let processes_inside = attached.container.processes_inside();
    let runner =
        processes_inside.iter().find(|&&pid| argv(pid).get(1).is_some_and(|word| word == "serve"));
    send_signal(*runner.expect("a runner is there"), Signal::SIGKILL);
    waiting.finish().exited(125);
    eventually("its tools are gone", || tagged_processes(&id).is_empty());
    attached.run("print('again')").exited(0);
    assert_eq!(files(&attached.container), "");
}

#[test]
fn a_container_that_stops_is_reported_by_name() {
    let Some(engine) = Engine::of_run("a_container_that_stops_is_reported_by_name") else { return };
    let attached = Attached::start(&engine, &[]);
    let waiting = attached.waiting(&fresh_id());
    attached.container.engine_command(&["stop", "--time", "0"]);
    let lost = waiting.finish();
    assert!(!lost.exited(125).stderr.is_empty(), "{lost:?}");
    let refused = attached.run("print('never')");
    let message = format!("cannot be attached to container '{}'", attached.container.name());
    assert!(refused.exited(86).stderr.contains(&message), "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("hint: start it: {} start", engine.name())),
        "{refused:?}"
    );
    attached.container.engine_command(&["start"]);
    assert_eq!(attached.run("print('again')").exited(0).text(), "again\n");
    assert_eq!(files(&attached.container), "");
}

/// Runs one call in a session attached to this container.
fn call(setup: &SessionSetup, engine: &Engine, container: &str) -> Outcome {
    let attach = format!("{container}=python");
    let args = ["exec", "--attach", &attach, "--", "python3", "-c", "print('ran')"];
    Outcome::of(&mut engine.coder(setup, &args))
}

#[test]
fn a_container_that_cannot_be_attached_is_reported_with_a_hint() {
    let Some(engine) =
        Engine::of_run("a_container_that_cannot_be_attached_is_reported_with_a_hint")
    else {
        return;
    };
    let setup = SessionSetup::new();
    let missing = call(&setup, &engine, "aifo-test-nobody");
    assert!(missing.exited(86).stderr.contains("container 'aifo-test-nobody'"), "{missing:?}");

    let blind = UserContainer::start(&engine, &[]);
    let message = format!("it does not see '{}'", setup.workspace().display());
    let outcome = call(&setup, &engine, blind.name());
    assert!(outcome.exited(86).stderr.contains(&message), "{outcome:?}");
    assert!(outcome.stderr.contains("hint: mount the project's directory"), "{outcome:?}");

    let fixed = UserContainer::start(&engine, &["--read-only", "--mount", &project(&setup)]);
    let outcome = call(&setup, &engine, fixed.name());
    assert!(outcome.exited(86).stderr.contains("hint: a container that cannot be written to"));
    for container in [&blind, &fixed] {
        assert_eq!(files(container), "");
    }
}

#[test]
fn a_start_that_is_called_off_leaves_nothing() {
    let Some(engine) = Engine::of_run("a_start_that_is_called_off_leaves_nothing") else { return };
    let setup = SessionSetup::new();
    let container = container(&setup, &engine, &["--user", "1000"]);
    let real =
        Command::new("/bin/sh").args(["-c", &format!("command -v {}", engine.name())]).output();
    let real = String::from_utf8(real.expect("a shell runs").stdout).expect("a path is text");
    // An engine that does not start the runner.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *' guard '*) exec sleep 20;; esac\nexec {} \"$@\"\n",
        real.trim()
    );
    let setup = setup.tool(engine.name(), Tool::File(script.into_bytes(), 0o755));
    let attach = format!("{}=python", container.name());
    let mut call = engine.coder(&setup, &["exec", "--attach", &attach, "--", "python3"]);
    let path = format!("{}:{}", setup.tools().display(), std::env::var("PATH").expect("a PATH"));
    let call = Running::start(call.env("PATH", path).stdin(Stdio::null()));
    eventually("the runner's file is there", || !files(&container).is_empty());
    call.signal(Signal::SIGTERM);
    eventually("the call has ended", || !is_alive(call.pid()));
    eventually("the runner's file is gone", || files(&container).is_empty());
}

#[test]
fn a_kind_has_one_place() {
    let setup = SessionSetup::new();
    let refused = |args: &[&str]| {
        let words = [&["serve"], args].concat();
        Outcome::of(setup.coder().args(words)).exited(2).stderr.clone()
    };
    let message = refused(&["--attach", "a=rust", "--toolchain-image", "rust=rust:1"]);
    assert!(message.contains("rust has both --attach and --toolchain-image"), "{message}");
    let message = refused(&["--attach", "a=rust", "--attach", "b=rust"]);
    assert!(message.contains("rust is already attached to 'a'"), "{message}");
}
