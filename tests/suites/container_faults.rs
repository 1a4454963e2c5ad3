//! Faults in a session with containers: callers are notified at once, nothing hangs, the next call
//! starts a new sidecar, and cleanup can find all leftovers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{
    ContainerSession, ContainerSetup, Engine, Outcome, Running, Scratch, Signal, eventually,
    is_alive, send_signal, write_script,
};

/// The protocol versions that a shim can use.
const VERSIONS: [&str; 3] = ["1", "2", "3"];

/// Signals by a file that it runs, because version 1 has no output before the end. Prints nothing
/// about its ending.
const STAY: &str = "
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], 'w').close()
time.sleep(600)
";

/// A waiting call in the python sidecar, in a protocol version.
#[track_caller]
fn call(session: &ContainerSession, version: &str) -> Running {
    let file = session.workspace().join(format!("runs-{version}"));
    let mut shim = session.shim("python3");
    shim.args(["-c", STAY, &session.file(&format!("runs-{version}"))]);
    let call = Running::start(shim.env("AIFO_SHIM_PROTO", version));
    eventually("the tool runs", || file.exists());
    fs::remove_file(file).unwrap();
    call
}

/// Expects one line that the ending is unknown.
#[track_caller]
fn check_unknown(outcome: &Outcome, row: &str) {
    assert_eq!(outcome.code(), Some(125), "{row}: {outcome:?}");
    assert!(outcome.only_line().starts_with("aifo-shim: "), "{row}: {outcome:?}");
}

/// While the old sidecar ends, a call may report that nothing ran or that the ending is unknown,
/// but never success.
#[track_caller]
fn check_next(session: &ContainerSession, row: &str) {
    eventually(&format!("{row}: the next is served"), || {
        let outcome = session.run("python3", &["-c", "print('next')"]);
        let is_served = ![Some(86), Some(125)].contains(&outcome.code());
        is_served && outcome.exited(0).text() == "next\n"
    });
}

fn python(engine: &Engine) -> ContainerSession {
    ContainerSetup::of(engine).kind("python").start()
}

/// Ends the container during a call of each version, and expects an unknown ending and a session that
/// serves the next call.
#[track_caller]
fn check_lost(test: &str, end: impl Fn(&Engine, &str, &Running)) {
    let Some(engine) = Engine::of_run(test) else { return };
    let session = python(&engine);
    for version in VERSIONS {
        let call = call(&session, version);
        end(&engine, &session.container("python"), &call);
        check_unknown(&call.finish(), version);
        check_next(&session, version);
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_runner_is_killed() {
    check_lost("the_runner_is_killed", |engine, container, _| {
        send_signal(engine.pid(container), Signal::SIGKILL);
    });
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_container_is_killed() {
    check_lost("the_container_is_killed", |engine, container, _| {
        engine.text(["kill", container]);
    });
}

/// The engine sends TERM first, like any supervisor: signals escalate, and the ending is reported.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_container_is_stopped() {
    let Some(engine) = Engine::of_run("the_container_is_stopped") else { return };
    let session = python(&engine);
    for version in VERSIONS {
        let call = call(&session, version);
        engine.text(["stop", "--time", "10", &session.container("python")]);
        let outcome = call.finish();
        let is_told = outcome.code() == Some(125) || outcome.code() == Some(130);
        let is_signal = outcome.signal() == Some(Signal::SIGINT as i32);
        assert!(is_told || is_signal, "{version}: {outcome:?}");
        check_next(&session, version);
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_container_is_frozen_and_killed() {
    check_lost("the_container_is_frozen_and_killed", |engine, container, call| {
        engine.text(["pause", container]);
        assert!(is_alive(call.pid()), "a frozen tool looks like a busy one");
        engine.text(["rm", "--force", container]);
    });
}

/// Sidecars that share its network keep running, and the next one gets a new network.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_holder_of_the_network_is_killed() {
    let Some(engine) = Engine::of_run("the_holder_of_the_network_is_killed") else { return };
    let setup = ContainerSetup::of(&engine).kind("python").kind("node");
    // Without the registries of the kinds, they share a stack.
    let config = setup.setup().scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[net]\ndefaults = false\n").unwrap();
    let session = setup.start();
    let pod = format!("aifo-pod-{}", session.id());
    let staying = call(&session, "3");
    engine.text(["kill", &pod]);
    assert_eq!(session.run("node", &["-e", "console.log(1)"]).exited(0).text(), "1\n");
    assert!(is_alive(staying.pid()));
    engine.text(["kill", &session.container("python")]);
    check_unknown(&staying.finish(), "python");
    check_next(&session, "python");
    assert!(is_alive(engine.pid(&pod)), "it is there again");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_launcher_is_killed() {
    let Some(engine) = Engine::of_run("the_launcher_is_killed") else { return };
    for version in VERSIONS {
        let mut session = ContainerSetup::of(&engine).kind("python").kind("rust").start();
        let call = call(&session, version);
        let runner = engine.pid(&session.container("python"));
        session.end(Signal::SIGKILL);
        check_unknown(&call.finish(), version);
        eventually("the runner has ended", || !is_alive(runner));
        assert!(session.dir().exists(), "cleanup finds the session by its directory");
        session.sweep();
    }
}

/// A wrapper of the engine that runs this script before the engine.
fn in_place_of(engine: &Engine, dir: &Path, body: &str) -> String {
    let real = Outcome::of(Command::new("which").arg(engine.name())).exited(0).text();
    let path = dir.join(engine.name());
    write_script(path, &format!("{body}\nexec {} \"$@\"", real.trim_end()));
    format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.display())
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_engine_does_not_answer() {
    let Some(engine) = Engine::of_run("the_engine_does_not_answer") else { return };
    let bin = Scratch::new();
    let body = "echo 'Cannot connect to the daemon. Is it running?' >&2; exit 1";
    let path = in_place_of(&engine, bin.path(), body);
    let mut dead = vec![("PATH", path.as_str(), "Is it running?")];
    if !engine.is_podman() {
        dead.push(("DOCKER_HOST", "unix:///nonexistent/docker.sock", "/nonexistent/docker.sock"));
    }
    for (name, value, reason) in dead {
        let containers = ContainerSetup::of(&engine).kind("python").env(name, value);
        let outcome = Outcome::of(containers.command("exec").args(["--", "python3", "-V"]));
        let said = &outcome.exited(86).stderr;
        let printed = format!("{} does not answer: ", engine.name());
        assert!(
            said.contains(&printed) && said.contains(reason) && said.contains("hint: "),
            "{said}"
        );
        assert_eq!(fs::read_dir(containers.setup().runtime()).unwrap().count(), 0);
    }
}

/// Every session has a network, and docker has room for some thirty.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn there_is_no_room_for_a_network() {
    let Some(engine) = Engine::of_run("there_is_no_room_for_a_network") else { return };
    let reason = match engine.is_podman() {
        true => "could not find free subnet from subnet pools",
        false => "all predefined address pools have been fully subnetted",
    };
    let bin = Scratch::new();
    let body =
        format!("[ \"$1 $2\" = 'network create' ] && {{ echo 'Error: {reason}' >&2; exit 1; }}");
    let path = in_place_of(&engine, bin.path(), &body);
    let containers = ContainerSetup::of(&engine).kind("python").env("PATH", &path);
    let containers = containers.flag("--net", "open");
    let outcome = Outcome::of(containers.command("exec").args(["--", "python3", "-V"]));
    let said = &outcome.exited(86).stderr;
    let printed = format!("network create failed: {reason}\nhint: there are too many networks: ");
    assert!(said.contains(&printed) && said.contains("aifo-coder clean"), "{said}");
    let runtime = containers.setup().runtime();
    assert_eq!(engine.all_of(&runtime), [""; 0]);
    assert_eq!(fs::read_dir(runtime).unwrap().count(), 0);
}

/// The daemon ends during the session: calls need no daemon, only a new sidecar does.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_engine_is_lost_meanwhile() {
    let Some(engine) = Engine::of_run("the_engine_is_lost_meanwhile") else { return };
    let bin = Scratch::new();
    let gone = bin.path().join("gone");
    let body = format!("[ -e {} ] && {{ echo 'Is it running?' >&2; exit 1; }}", gone.display());
    let path = in_place_of(&engine, bin.path(), &body);
    let session = ContainerSetup::of(&engine).kind("python").env("PATH", &path).start();
    fs::write(&gone, "").unwrap();
    assert_eq!(session.python("print('no engine needed')", &[]), "no engine needed\n");
    let call = call(&session, "3");
    engine.text(["kill", &session.container("python")]);
    check_unknown(&call.finish(), "its sidecar");
    let outcome = session.run("python3", &["-V"]);
    let is_told = outcome.exited(86).stderr.contains("cannot start the python sidecar");
    assert!(is_told && outcome.stderr.contains("Is it running?"), "{outcome:?}");
    fs::remove_file(&gone).unwrap();
    check_next(&session, "with the engine");
    session.finish();
}

/// Interrupts a start after the engine has received this many requests; nothing must be left. The
/// engine runs `instead` first.
#[track_caller]
fn call_off(
    engine: &Engine,
    net: &str,
    (verb, signal, code): (&str, Signal, i32),
    at: usize,
    instead: &str,
) {
    let bin = Scratch::new();
    let asked = bin.path().join("asked");
    let note = format!("echo \"$$ $*\" >> {}; {instead}", asked.display());
    let body = format!("case \"$1 $2\" in run*|'network create') {note} ;; esac");
    let path = in_place_of(engine, bin.path(), &body);
    let containers = ContainerSetup::of(engine).kind("python").kind("rust").env("PATH", &path);
    let containers = containers.flag("--net", net);
    let mut command = containers.command(verb);
    if verb == "run" {
        command.args(["--", "true"]);
    }
    let start = Running::start(&mut command);
    let asked = || fs::read_to_string(&asked).unwrap_or_default();
    eventually("the engine is asked", || asked().lines().count() >= at);
    start.signal(signal);
    let outcome = start.finish();

    let row = format!("{net}: {verb}, {signal} at {at}: {outcome:?}");
    assert_eq!(outcome.code(), Some(code), "{row}");
    let runtime = containers.setup().runtime();
    assert_eq!(engine.all_of(&runtime), [""; 0], "{row}");
    assert_eq!(fs::read_dir(runtime).unwrap().count(), 0, "{row}");
    let asked = asked();
    let id = asked.split("dev.aifo.session=").nth(1).and_then(|rest| rest.split(' ').next());
    let tmp = PathBuf::from(format!("/var/tmp/aifo-{}-tmp", id.expect("it is labelled")));
    assert!(!tmp.exists(), "{row}");
    for pid in asked.lines().filter_map(|line| line.split(' ').next()?.parse().ok()) {
        eventually("no command of the engine's is left", || !is_alive(pid));
    }
}

const WAYS: [(&str, Signal, i32); 2] =
    [("serve", Signal::SIGTERM, 0), ("run", Signal::SIGINT, 130)];

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_start_is_called_off() {
    let Some(engine) = Engine::of_run("a_start_is_called_off") else { return };
    // The network, the holder of the stack, and both sidecars; or each with a stack of its own.
    for (net, requests) in [("open", 4), ("names", 2)] {
        for at in 1..=requests {
            call_off(&engine, net, WAYS[at % 2], at, "");
        }
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_pull_is_called_off() {
    let Some(engine) = Engine::of_run("a_pull_is_called_off") else { return };
    let says = match engine.is_podman() {
        true => "Trying to pull registry.example/x:latest...",
        false => "Unable to find image 'x:latest' locally",
    };
    let pull =
        format!("case \"$*\" in *aifo-tc-rust-*) echo \"{says}\" >&2; exec sleep 1000 ;; esac");
    for way in WAYS {
        call_off(&engine, "names", way, 2, &pull);
    }
}
