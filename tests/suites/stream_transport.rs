//! The stream transport: without descriptor passing, everything is relayed over the runner's stdin
//! and stdout, with the same results (`spec/runner.md#stream-transport`).
//!
//! With `AIFO_TEST_TRANSPORT=stdio` every other suite uses it, too.

use std::io::{Read, Write, pipe};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use aifo_tests::frames::{data, frame, kind, stream};
use aifo_tests::{
    BLOCK, Client, Invocation, Listen, Outcome, RandomBytes, Running, Session, SessionSetup,
    Signal, Stdio as Passing, Terminal, Tool, argv, eventually, fresh_id, is_stopped, send_signal,
    status_kib, tagged_processes,
};

const SIZE: u64 = 64 << 20;
/// The limit on the peak of the proxy's own memory: as with descriptors, plus the buffers of one slow
/// client.
const PEAK_KIB: u64 = 8 * 1024;

fn streamed() -> SessionSetup {
    SessionSetup::new().transport("stdio")
}

#[test]
fn by_every_version() {
    let session = streamed().start();
    for version in ["1", "2"] {
        let call = session.exec("make", ["say", "hello"]).proto(version);
        let answer = session.answer(&call);
        assert_eq!((answer.text().as_str(), answer.exit_code()), ("hello\n", Some("0")));
        let failing = session.answer(&session.exec("make", ["exit", "7"]).proto(version));
        assert_eq!((failing.text().as_str(), failing.exit_code()), ("", Some("7")));
    }
    assert_eq!(
        Outcome::of(session.shim("make").args(["say", "hello"])).exited(0).text(),
        "hello\n"
    );
    Outcome::of(session.shim("make").args(["exit", "7"])).exited(7);
    Outcome::of(session.shim("make").args(["die", "9"])).died_of(Signal::SIGKILL);
}

/// The client is notified of it.
#[test]
fn descriptors_that_would_be_passed_are_relayed() {
    let session = streamed().tool("make", Tool::Link("/bin/sh".into())).start();
    let ((input, _source), (mut target, output)) = (pipe().unwrap(), pipe().unwrap());
    let script = ["-c", "/bin/cat; echo error >&2"];
    let call = Invocation::new(&session, "make", script)
        .stdin(Passing::pass(input))
        .stdout(Passing::pass(output))
        .stderr(Passing::Relayed);
    let (mut client, started) = Client::start(&session, call);
    assert_eq!(started.stdio, [2, 2, 2]);
    assert_eq!(target.read(&mut [0; 8]).unwrap(), 0, "no process has the descriptor");
    client.send(data(stream::STDIN, b"input")).send(frame(kind::CLOSED, [stream::STDIN]));
    let finished = client.finish();
    assert_eq!((finished.text().as_str(), finished.ending()), ("input", Ok(0)));
    assert_eq!(finished.stderr, b"error\n");
}

/// More than any buffer holds in both directions, with a late reader.
#[test]
fn bulk_both_ways() {
    let session = streamed().tool("make", Tool::Link("/bin/cat".into())).start();
    let id = fresh_id();
    let mut command = session.shim("make");
    command.env("AIFO_EXEC_ID", &id);
    let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = cat.stdin.take().unwrap();
    let source = thread::spawn(move || {
        let mut noise = RandomBytes::new(7);
        while noise.position() < SIZE {
            stdin.write_all(noise.next(BLOCK)).unwrap();
        }
    });
    eventually("nothing moves without a reader", || is_at_rest(&session, &[&id]));
    assert!(!source.is_finished(), "the source has to wait");
    check_noise(&mut cat, 7, SIZE);
    source.join().unwrap();
    assert_eq!(cat.wait().unwrap().code(), Some(0));
    check_peak(&session);
}

#[test]
fn bulk_by_version_2() {
    let session = streamed().start();
    let id = fresh_id();
    let mut command = session.shim("make");
    command.args(["emit", &SIZE.to_string(), "42"]).env("AIFO_SHIM_PROTO", "2");
    command.env("AIFO_EXEC_ID", &id);
    let mut emit = command.stdout(Stdio::piped()).spawn().unwrap();
    eventually("nothing moves without a reader", || is_at_rest(&session, &[&id]));
    check_noise(&mut emit, 42, SIZE);
    assert_eq!(emit.wait().unwrap().code(), Some(0));
    check_peak(&session);
}

/// All share one stream, and none blocks another.
#[test]
fn a_client_that_does_not_read_stops_no_other_client() {
    let session = streamed().start();
    let ids = [fresh_id(), fresh_id()];
    let emit = |version: &str, id: &str| {
        let mut command = session.shim("make");
        command.args(["emit", &SIZE.to_string(), "1"]).env("AIFO_SHIM_PROTO", version);
        command.env("AIFO_EXEC_ID", id).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut slow = [emit("2", &ids[0]), emit("3", &ids[1])];
    eventually("their tools have to wait", || is_at_rest(&session, &[&ids[0], &ids[1]]));
    for number in 0..20 {
        let said = Outcome::of(session.shim("make").args(["say", &number.to_string()]));
        assert_eq!(said.exited(0).text(), format!("{number}\n"));
    }
    for emit in &mut slow {
        check_noise(emit, 1, SIZE);
        assert_eq!(emit.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn sixty_four_at_once() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = streamed().listen(listen).start();
        let start = |number: usize| {
            let mut command = session.shim("make");
            Running::start(command.args(["emit", "300000", &number.to_string()]))
        };
        let shims: Vec<_> = (1..=64).map(start).collect();
        for (number, shim) in (1..).zip(shims) {
            let outcome = shim.finish();
            let mut noise = RandomBytes::new(number);
            noise.check(&outcome.exited(0).stdout);
            assert_eq!((noise.position(), outcome.stderr.as_str()), (300_000, ""));
        }
    }
}

#[test]
fn on_a_terminal() {
    let session = streamed().tool("make", Tool::Link("/bin/sh".into())).start();
    let terminal = Terminal::sized(101, 37);
    let mut shim = session.shim("make");
    shim.args(["-c", "/bin/stty size; read word; echo got $word; exec /bin/sleep 1000"]);
    shim.stdin(terminal.stdio()).stdout(terminal.stdio()).stderr(terminal.stdio());
    let process = terminal.start(&shim);
    terminal.expect("37 101").press("hello\n");
    terminal.expect("got hello").press("\x03");
    assert_eq!(process.finish(), Err(Signal::SIGINT as i32));
}

#[test]
fn signals_arrive_and_endings_are_exact() {
    let session = streamed().start();
    let shim = Running::start(session.shim("make").arg("record"));
    shim.expect("ready\n").signal(Signal::SIGTERM).expect("SIGTERM\n");
    shim.signal(Signal::SIGHUP).expect("SIGHUP\n");
    drop(shim);

    let id = fresh_id();
    let mut command = session.shim("make");
    let shim = Running::start(command.arg("wait").env("AIFO_EXEC_ID", &id));
    shim.expect("ready\n");
    let tool =
        tagged_processes(&id).into_iter().find(|&pid| argv(pid) == ["make", "wait"]).unwrap();
    shim.signal(Signal::SIGTSTP);
    eventually("both are stopped", || is_stopped(tool) && is_stopped(shim.pid()));
    shim.signal(Signal::SIGCONT);
    eventually("both go on", || !is_stopped(tool) && !is_stopped(shim.pid()));
    assert_eq!(session.signal(&id, "TERM").status(), 204);
    shim.finish().died_of(Signal::SIGTERM);
}

#[test]
fn a_caller_that_is_killed_takes_its_tools_along() {
    let session = streamed().start();
    for version in ["2", "3"] {
        let id = fresh_id();
        let leaf = session.file(&id);
        let mut command = session.shim("make");
        command.args(["stubborn-tree", &leaf]).env("AIFO_EXEC_ID", &id);
        let shim = Running::start(command.env("AIFO_SHIM_PROTO", version));
        eventually("the family is complete", || Path::new(&leaf).exists());
        shim.signal(Signal::SIGKILL);
        eventually("nothing of it is left", || tagged_processes(&id).is_empty());
    }
}

#[test]
fn a_runner_that_is_killed_is_reported_and_replaced() {
    let session = streamed().kinds(&["c-cpp"]).start();
    for version in ["2", "3"] {
        let id = fresh_id();
        let mut command = session.shim("make");
        command.arg("wait").env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", version);
        let shim = Running::start(&mut command);
        shim.expect("ready\n");
        send_signal(session.sidecars()[0].runner, Signal::SIGKILL);
        let outcome = shim.finish();
        assert_eq!(outcome.exited(125).text(), "ready\n");
        assert!(outcome.only_line().contains("unknown"), "{}", outcome.stderr);
        eventually("nothing of it is left", || tagged_processes(&id).is_empty());
        let next = Outcome::of(session.shim("make").args(["say", "next"]));
        assert_eq!(next.exited(0).text(), "next\n");
    }
}

/// The guard holds the runner's ends of both pipes.
#[test]
fn a_proxy_that_is_killed_leaves_nothing() {
    let session = streamed().kinds(&["c-cpp"]).start();
    let id = fresh_id();
    let shim = Running::start(session.shim("make").arg("wait").env("AIFO_EXEC_ID", &id));
    shim.expect("ready\n");
    let sidecars = session.sidecars();
    send_signal(session.pid(), Signal::SIGKILL);
    shim.finish().exited(125);
    eventually("nothing of it is left", || tagged_processes(&id).is_empty());
    let is_there = |pid| aifo_tests::is_alive(pid);
    eventually("the sidecar has ended", || {
        sidecars.iter().all(|sidecar| !is_there(sidecar.guard) && !is_there(sidecar.runner))
    });
}

/// True if these execs run and neither the proxy nor a runner was active between two checks.
fn is_at_rest(session: &Session, ids: &[&str]) -> bool {
    if ids.iter().any(|id| tagged_processes(id).is_empty()) {
        return false;
    }
    let switches = || {
        let runners = session.sidecars().into_iter().map(|sidecar| sidecar.runner);
        let all = runners.chain([session.pid()]);
        let field = |pid| aifo_tests::status_field(pid, "voluntary_ctxt_switches");
        all.map(field).collect::<Vec<_>>()
    };
    let before = switches();
    thread::sleep(std::time::Duration::from_millis(200));
    before == switches()
}

/// Reads a child's stdout to its end.
#[track_caller]
fn check_noise(child: &mut Child, seed: u64, size: u64) {
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    let (mut noise, mut buffer) = (RandomBytes::new(seed), vec![0; BLOCK]);
    loop {
        match stdout.read(&mut buffer).expect("the pipe can be read") {
            0 => break,
            count => noise.check(&buffer[..count]),
        }
    }
    assert_eq!(noise.position(), size);
}

#[track_caller]
fn check_peak(session: &Session) {
    // Without the pages of the binary, whose size depends on the build.
    let [peak, files] = ["VmHWM", "RssFile"].map(|field| status_kib(session.pid(), field));
    let peak = peak.saturating_sub(files);
    assert!(peak < PEAK_KIB, "the proxy had {peak} KiB of its own, more than {PEAK_KIB}");
}
