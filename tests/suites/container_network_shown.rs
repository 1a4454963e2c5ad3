//! The connections of a network by name, as the user sees them: log, `aifo-coder net`, and lines on the stderr
//! of calls (`spec/log.md#connections`, `spec/cli.md#net`).

use std::fs;
use std::os::fd::AsRawFd;
use std::process::Command;

use aifo_tests::{
    ContainerSession, ContainerSetup, Engine, HOLD, HelloServer, Outcome, Running, Session, Signal,
    binaries, eventually,
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, socket};

use crate::container_network_names::{connect, setup};
use crate::container_publish::{published, read};
use crate::container_stacks;

/// A command of `aifo-coder` in a session environment.
pub(crate) fn coder(session: &Session, args: &[&str]) -> Command {
    let mut command = Command::new(&binaries().coder);
    command
        .env_clear()
        .env("HOME", session.scratch().join("home"))
        .env("TMPDIR", session.scratch().join("run"))
        .env("XDG_RUNTIME_DIR", session.scratch().join("run"))
        .args(args);
    command
}

#[track_caller]
fn text(session: &Session, args: &[&str]) -> String {
    Outcome::of(&mut coder(session, args)).exited(0).text()
}

/// Waits until `aifo-coder net` prints a line with all these words.
#[track_caller]
fn await_line(session: &ContainerSession, words: &[&str]) {
    eventually(&format!("a connection with {words:?}"), || {
        let text = text(session, &["net"]);
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn connections_are_listed_with_tool_bytes_and_verdict() {
    let test = "connections_are_listed_with_tool_bytes_and_verdict";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let mut session = setup(&engine, &server).start();
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    assert_eq!(connect(&session, "other.test", 443), "no such name");
    let subject = format!("allowed.test:{}", server.port);
    await_line(&session, &["allowed", "tools", "python3", " 44 B", &subject]);
    await_line(&session, &["refused", "tools", "python3", "other.test  # no rule permits it"]);
    let failed = text(&session, &["net", "--failed"]);
    assert!(failed.contains("other.test") && !failed.contains("allowed.test"), "{failed}");

    let calls = text(&session, &["log"]);
    assert!(calls.contains("python3") && !calls.contains("# no rule"), "{calls}");
    let both = text(&session, &["log", "--net"]);
    assert_eq!(both.lines().count(), calls.lines().count() + 2, "{both}");

    // An open connection.
    let mut shim = session.shim("python3");
    let call = Running::start(shim.args(["-c", HOLD, &server.port.to_string()]));
    call.expect("connected");
    await_line(&session, &["open", "python3", &subject]);
    let id = session.id().to_owned();
    let follow = Running::start(&mut coder(&session, &["net", "-f", "--json", &id]));
    follow.expect("\"state\":\"open\"");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    let followed = follow.finish();
    assert_eq!(followed.code(), Some(0), "{followed:?}");
    let last = followed.text().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("\"state\":\"closed\""), "{last}");
    call.finish();

    // After the session's end.
    let suggested = text(&session, &["net", "suggest", &id]);
    assert!(suggested.contains("\"other.test\",  # python3: 1"), "{suggested}");
    assert!(!suggested.contains("allowed.test"), "{suggested}");
    assert!(!text(&session, &["net"]).contains("  open "));
}

/// Mirrors, ports of this machine and published ports are listed, and a port without a server is reset.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn ports_of_the_session_are_listed() {
    let Some(engine) = Engine::of_run("ports_of_the_session_are_listed") else { return };
    for transport in ["socket", "stdio"] {
        check_listed_ports(&engine, transport);
    }
}

#[track_caller]
fn check_listed_ports(engine: &Engine, transport: &str) {
    let host = HelloServer::new();
    // Bound, so that no other process of this machine listens on it.
    let flags = SockFlag::SOCK_CLOEXEC;
    let bound = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    bind(bound.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let closed = getsockname::<SockaddrIn>(bound.as_raw_fd()).unwrap().port();
    let setup = container_stacks::setup(engine).flag("--runner-transport", transport);
    let setup = setup.flag("--host-port", &host.port.to_string());
    let setup = setup.flag("--host-port", &closed.to_string()).flag("--publish", "3001");
    let mut session = setup.start();
    let python = |host, port| container_stacks::connect(&session, "python", host, port);
    assert_eq!(python("localhost", host.port), "hello");
    for (address, port) in [("127.0.0.1", closed), ("127.0.0.2", host.port)] {
        let failure = python(address, port);
        // The reset may come before the client has seen that it is connected.
        assert!(["ECONNRESET", "ECONNREFUSED"].contains(&&*failure), "{address}: {failure}");
    }
    assert_eq!(host.accepted(), 1);
    let mut shim = session.shim("make");
    let serving = Running::start(shim.args(["-s", "serve", "TO=3001"]));
    serving.expect("listening");
    eventually("the mirror is up", || python("localhost", 3001) == "hello");
    assert_eq!(read(published(&session.log(), 3001)).as_deref(), Ok("hello\n"));
    let subject = |port: u16, text: &str| format!("localhost:{port} ({text}");
    let rows: [(&str, &str, &str, String); 5] = [
        ("allowed", "tools:python", " 44 B ", subject(host.port, "host port)")),
        ("failed", "tools:python", " 0 B ", subject(closed, "host port)  # cannot connect: ")),
        ("refused", "tools:python", "127.0.0.2:", "(host port)  # no name has this".to_owned()),
        ("allowed", "tools:python", " 6 B ", subject(3001, "mirror, tools:c-cpp)")),
        ("allowed", "host", " 6 B ", subject(3001, "published, tools:c-cpp)")),
    ];
    for (verdict, stack, bytes, subject) in &rows {
        await_line(&session, &[verdict, stack, bytes, subject]);
    }
    let suggested = Outcome::of(&mut coder(&session, &["net", "suggest"]));
    assert_eq!(suggested.exited(0).text(), "", "{suggested:?}");
    serving.signal(Signal::SIGTERM);
    serving.finish();
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    let listed = text(&session, &["net", session.id()]);
    assert!(!listed.contains("  open "), "{listed}");
    // The summary has refused names only.
    assert!(!session.log().contains("the network refused"), "{}", session.log());
}

/// Without a network by name there is nothing to show.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_session_with_another_network_has_no_connections() {
    let test = "a_session_with_another_network_has_no_connections";
    let Some(engine) = Engine::of_run(test) else { return };
    let session = ContainerSetup::of(&engine).kind("python").flag("--net", "none").start();
    session.python("print()", &[]);
    for args in [&["net"][..], &["net", session.id()], &["net", "suggest"]] {
        let outcome = Outcome::of(&mut coder(&session, args));
        assert_eq!(outcome.code(), Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains("hint: start one with: --net names"), "{outcome:?}");
    }
    assert!(text(&session, &["log", "--net"]).contains("python3"));
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn allowed_rules_are_in_the_file_and_in_running_sessions() {
    let test = "allowed_rules_are_in_the_file_and_in_running_sessions";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let setup = setup(&engine, &server);
    fs::write(setup.setup().workspace().join(".aifo.toml"), "[net]\ndeny = [\"evil.test\"]\n")
        .unwrap();
    let session = setup.start();
    assert_eq!(connect(&session, "later.test", server.port), "no such name");
    let rule = &server.rule("later.test");
    let outcome =
        Outcome::of(&mut coder(&session, &["net", "allow", rule, &server.rule("evil.test")]));
    let printed = outcome.exited(0).text();
    assert!(printed.contains(&format!("+allow = [\"{rule}\", \"evil.test:")), "{printed}");
    let expected = "session serve-1 has the rules from now on\n";
    assert!(outcome.stderr.ends_with(expected), "{outcome:?}");
    eventually("the name is reached", || connect(&session, "later.test", server.port) == "hello");
    let check = |name: &str| {
        let subject = format!("{name}:{}", server.port);
        let workspace = session.workspace();
        let words = ["net", "check", &subject, "--toolchain", "python", "--workspace"];
        let mut check = coder(&session, &words);
        Outcome::of(check.arg(workspace)).exited(0).text()
    };
    let checked = check("later.test");
    let cause = format!("tools  allowed: '{rule}' (/");
    assert!(checked.contains(&cause) && checked.contains("config.toml:2)"), "{checked}");
    let cause = "tools  refused: net.deny takes it away with 'evil.test'\n";
    assert!(check("evil.test").contains(cause), "{}", check("evil.test"));
    let cause = "\nhint: allow it with: aifo-coder net allow unknown.test:";
    assert!(check("unknown.test").contains(cause), "{}", check("unknown.test"));
    // The workspace took it away.
    assert_eq!(connect(&session, "evil.test", server.port), "no such name");
    session.log_lines(&["tools were refused evil.test: net.deny takes it away"]);

    // A tool has no access to the file of added rules, whatever is at its path.
    let write = "
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
open(sys.argv[1] + '/net-allowed', 'a').write(sys.argv[2])
";
    let dir = session.dir();
    let line = format!("{{\"agent\":false,\"rule\":\"{}\"}}\n", server.rule("sneaky.test"));
    session.run("python3", &["-c", write, dir.to_str().unwrap(), &line]);
    assert!(!fs::read_to_string(dir.join("net-allowed")).unwrap().contains("sneaky.test"));
    assert_eq!(connect(&session, "sneaky.test", server.port), "no such name");

    // Ports need listeners, kinds and agents their own keys, and rules must be valid.
    let missing = Outcome::of(&mut coder(&session, &["net", "allow", "other.test:7777"]));
    assert!(missing.stderr.contains("no listener at port 7777\n"), "{missing:?}");
    let kind = Outcome::of(&mut coder(&session, &["net", "allow", "--kind", "rust", "@rust"]));
    assert!(!kind.exited(0).stderr.contains("session"), "it has no rust: {kind:?}");
    let path = text(&session, &["config", "path"]);
    let file = fs::read_to_string(path.trim_end()).unwrap();
    let tail = "\n[net.kind.rust]\nallow = [\"@rust\"]\n";
    assert!(file.ends_with(tail) && file.contains("\"other.test:7777\"]"), "{file}");
    for (rules, code, expected) in [
        (&["10.0.0.1"][..], 2, "invalid name in network rule '10.0.0.1'"),
        (&["--kind", "rsut", "a.test"], 2, "did you mean 'rust'?"),
    ] {
        let words = [&["net", "allow"], rules].concat();
        let outcome = Outcome::of(&mut coder(&session, &words));
        assert!(outcome.code() == Some(code) && outcome.stderr.contains(expected), "{outcome:?}");
    }
    assert_eq!(fs::read_to_string(path.trim_end()).unwrap(), file, "errors change nothing");
    session.finish();
}

/// The lines about the network on a call's stderr.
fn refusals(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().filter(|line| line.starts_with("aifo: ")).collect()
}

/// Looks up names, then exits with the code before them.
const LOOK_UP: &str = "
import socket, sys
for name in sys.argv[2:]:
    try: socket.gethostbyname(name)
    except socket.gaierror: pass
sys.exit(int(sys.argv[1]))
";

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_failed_call_has_a_line_for_each_refused_name() {
    let test = "a_failed_call_has_a_line_for_each_refused_name";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let checked = format!("checked.test:{} tls address=127.0.0.1", server.port);
    // The server port is that of another rule as well.
    let setup = ContainerSetup::of(&engine).kind("python").flag("--net", "names");
    let session = setup.flag("--allow-net", &checked).start();
    let call = |args: &[&str]| session.run("python3", &[&["-c", LOOK_UP], args].concat());
    let line = |name: &str| {
        format!("aifo: python3 was refused {name}; allow it with: aifo-coder net allow {name}")
    };
    let failed = call(&["3", "other.test", "OTHER.test."]);
    assert_eq!(failed.code(), Some(3), "{failed:?}");
    assert_eq!(refusals(&failed), [line("other.test")], "{failed:?}");
    let succeeded = call(&["0", "other.test"]);
    assert_eq!((succeeded.code(), &*succeeded.stderr), (Some(0), ""), "{succeeded:?}");
    let without = call(&["3"]);
    assert_eq!(refusals(&without), [""; 0], "{without:?}");

    let names: Vec<String> = (1..=8).map(|number| format!("n{number}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = call(&[&["1"], &names[..]].concat());
    let mut expected: Vec<String> = names.iter().take(3).map(|name| line(name)).collect();
    expected.push("aifo: python3 was refused 5 more times; see: aifo-coder net".to_owned());
    assert_eq!(refusals(&many), expected, "{many:?}");

    // Children have the call's tag, also after setsid; without it they are below the tool.
    for start in ["start_new_session=True", "env={}"] {
        let program = format!(
            "import subprocess, sys\n\
             subprocess.run([sys.executable, '-c', sys.argv[1], '0', 'child.test'], {start})\n\
             sys.exit(4)"
        );
        let child = session.run("python3", &["-c", &program, LOOK_UP]);
        assert_eq!(refusals(&child), [line("child.test")], "{start} {child:?}");
    }

    // A connection, whose client waits for the server's first bytes.
    let program = "
import socket, sys
s = socket.create_connection(('checked.test', int(sys.argv[1])), timeout=20)
s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
try: s.recv(1000)
except OSError: pass
sys.exit(5)
";
    let refused = session.run("python3", &["-c", program, &server.port.to_string()]);
    let expected = format!("aifo: python3 was refused checked.test:{}: it is not TLS", server.port);
    assert_eq!(refusals(&refused), [expected], "{refused:?}");
    // The file has the same callers.
    let json = text(&session, &["net", "--json", session.id()]);
    assert!(json.lines().all(|line| line.contains("\"tool\":\"python3\"")), "{json}");
    session.finish();
}

/// Calls of one sidecar and of two at the same time.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn concurrent_calls_have_the_lines_of_their_own_names() {
    let test = "concurrent_calls_have_the_lines_of_their_own_names";
    let Some(engine) = Engine::of_run(test) else { return };
    let setup = ContainerSetup::of(&engine).kind("python").kind("c-cpp").flag("--net", "names");
    let session = setup.start();
    let workspace = session.workspace();
    // Each waits until all run, looks up its names, and waits until all have.
    let program = "
import os, socket, sys, time
def meet(step):
    open(f'{step}-{sys.argv[1]}', 'w').close()
    while not all(os.path.exists(f'{step}-{name}') for name in ['one', 'two', 'three']):
        time.sleep(0.005)
meet('begin')
for number in range(2):
    try: socket.gethostbyname(f'{sys.argv[1]}{number}.test')
    except socket.gaierror: pass
meet('end')
sys.exit(7)
";
    fs::write(workspace.join("program.py"), program).unwrap();
    fs::write(workspace.join("Makefile"), "all:\n\t@/usr/bin/python3 program.py three\n").unwrap();
    let calls = [
        ("python3", vec!["program.py", "one"], "one"),
        ("python3", vec!["program.py", "two"], "two"),
        ("make", vec![], "three"),
    ];
    let running: Vec<Running> = calls
        .iter()
        .map(|(tool, args, _)| {
            let mut shim = session.shim(tool);
            Running::start(shim.args(args))
        })
        .collect();
    for ((tool, _, name), running) in calls.iter().zip(running) {
        let outcome = running.finish();
        assert_ne!(outcome.code(), Some(0), "{outcome:?}");
        let line = |number: u32| {
            let name = format!("{name}{number}.test");
            format!("aifo: {tool} was refused {name}; allow it with: aifo-coder net allow {name}")
        };
        assert_eq!(refusals(&outcome), [line(0), line(1)], "{outcome:?}");
    }
    let listed = text(&session, &["net", session.id()]);
    for (tool, _, name) in &calls {
        let is_theirs =
            |line: &str| line.contains(&format!("  {name}1.test")) && line.contains(tool);
        assert!(listed.lines().any(is_theirs), "{listed}");
    }
    session.finish();
}
