//! Network by name with local sidecars: a user and network namespace (`spec/network.md#local-sidecars`).

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixListener;
use std::process::Command;

use aifo_tests::{
    CONNECT, HOLD, HelloServer, Outcome, Running, Session, SessionSetup, Signal, Tool, argv,
    binaries, can_run, children, eventually, files_below, is_alive, program, send_signal,
};

/// A user without privileges, as which root runs some sessions.
const UID: u32 = 1000;
const AS_USER: [&str; 5] =
    ["/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--"];

/// Returns whether a user may create these namespaces here. If not, reports the test as skipped.
fn possible(test: &str) -> bool {
    let test = format!("network_names_local::{test}");
    let coder = binaries().coder.to_str().unwrap();
    let trial = ["unshare", "--user", "--map-root-user", "--net", "--mount", coder, "--version"];
    can_run(&test, &[user(), &trial].concat())
}

/// The words before a command that runs as a user without privileges.
fn user() -> &'static [&'static str] {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root { &AS_USER } else { &[] }
}

/// A setup in which `python3` and `make` are Python.
fn setup() -> SessionSetup {
    let python = || Tool::Link(program("python3").expect("this machine has Python"));
    let setup = SessionSetup::new().kinds(&["python", "c-cpp"]);
    setup.tool("python3", python()).tool("make", python())
}

/// Options of a session whose tools reach the server as `allowed.test`.
fn options(server: &HelloServer) -> Vec<String> {
    let rule = server.rule("allowed.test");
    ["--backend", "local", "--net", "names", "--allow-net", &rule].map(str::to_owned).to_vec()
}

fn start(server: &HelloServer, more: &[&str]) -> Session {
    let options = options(server);
    let all: Vec<_> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    setup().options(&all).start()
}

/// Runs Python as a tool of this name; returns its output.
#[track_caller]
fn python(session: &Session, tool: &str, words: &[&str]) -> String {
    Outcome::of(session.shim(tool).arg("-c").args(words)).exited(0).text().trim_end().to_owned()
}

#[track_caller]
fn connect(session: &Session, host: &str, port: u16) -> String {
    python(session, "python3", &[CONNECT, host, &port.to_string()])
}

/// Returns the processes that hold the session stacks: those that are no guards.
fn holders(session: &Session) -> Vec<i32> {
    let is_holder = |pid: &i32| argv(*pid).iter().any(|word| word == "serve");
    children(session.pid()).into_iter().filter(is_holder).collect()
}

/// Runs Python as a tool of a session of the user without privileges.
#[track_caller]
fn exec(setup: SessionSetup, server: &HelloServer, more: &[&str], words: &[&str]) -> Outcome {
    let setup = setup.through(user());
    if !user().is_empty() {
        for path in files_below(setup.scratch()).iter().flat_map(|file| file.ancestors()) {
            if path.starts_with(setup.scratch()) {
                std::os::unix::fs::lchown(path, Some(UID), Some(UID)).unwrap();
            }
        }
        for name in ["", "workspace", "tools", "shims", "home", "run", "engine"] {
            chown(setup.scratch().join(name), Some(UID), Some(UID)).unwrap();
        }
    }
    let mut exec = setup.coder();
    exec.arg("exec").args(options(server)).args(more);
    Outcome::of(exec.args(["--toolchain", "python", "--", "python3", "-c"]).args(words))
}

#[test]
fn allowed_names_are_reached_and_nothing_else() {
    if !possible("allowed_names_are_reached_and_nothing_else") {
        return;
    }
    let server = HelloServer::new();
    let session = start(&server, &[]);
    for tool in ["python3", "make"] {
        let port = server.port.to_string();
        assert_eq!(python(&session, tool, &[CONNECT, "allowed.test", &port]), "hello");
    }
    assert_eq!(server.accepted(), 2);
    assert_eq!(connect(&session, "other.test", server.port), "no such name");
    for literal in ["1.1.1.1", "169.254.169.254", "172.17.0.1", "2606:4700::1111"] {
        let failure = connect(&session, literal, 443);
        assert!(["ENETUNREACH", "EADDRNOTAVAIL"].contains(&&*failure), "{literal}: {failure}");
    }
    // The stack's own localhost, where the port of the rule has a listener.
    assert!(["closed", "ECONNRESET"].contains(&&*connect(&session, "127.0.0.1", server.port)));
    assert_eq!(connect(&session, "127.0.0.1", 9), "ECONNREFUSED");
    assert_eq!(server.accepted(), 2, "the server saw none of them");
    session.log_lines(&["python tools were refused other.test"]);
    session.log_lines(&["reach permitted names only"]);
}

/// The call is found by its socket, also with another one in the stack; rules are not added.
#[test]
fn a_failed_call_has_a_line_for_a_refused_name() {
    if !possible("a_failed_call_has_a_line_for_a_refused_name") {
        return;
    }
    let server = HelloServer::new();
    let session = start(&server, &[]);
    let waits = "import time; print('runs', flush=True); time.sleep(600)";
    let other = Running::start(session.shim("make").args(["-c", waits]));
    other.expect("runs");
    let look_up = "
import socket, sys
try: socket.gethostbyname('other.test')
except socket.gaierror: pass
sys.exit(int(sys.argv[1]))
";
    for code in [0, 3] {
        let outcome = Outcome::of(session.shim("python3").args(["-c", look_up, &code.to_string()]));
        assert_eq!(outcome.code(), Some(code), "{outcome:?}");
        let line = "aifo: python3 was refused other.test; allow it with: aifo-coder net allow \
                    other.test\n";
        assert_eq!(outcome.stderr, if code == 0 { "" } else { line });
    }
    let mut allow = Command::new(&binaries().coder);
    allow.env_clear().env("HOME", session.scratch().join("home"));
    allow.env("XDG_RUNTIME_DIR", session.scratch().join("run"));
    let allowed = Outcome::of(allow.args(["net", "allow", "other.test"]));
    let expected = "has local sidecars: new sessions have the rules\n";
    assert!(allowed.exited(0).stderr.ends_with(expected), "{allowed:?}");
    let directory = fs::read_dir(session.scratch().join("run")).unwrap().flatten().next().unwrap();
    fs::write(directory.path().join("net-allowed"), "{\"agent\":false,\"rule\":\"other.test\"}\n")
        .unwrap();
    assert_eq!(connect(&session, "other.test", 443), "no such name");
    other.signal(Signal::SIGTERM);
    other.finish();
}

/// A package manager that tries again for minutes does not hide the cause.
#[test]
fn a_call_that_goes_on_has_its_line_while_it_runs() {
    if !possible("a_call_that_goes_on_has_its_line_while_it_runs") {
        return;
    }
    let session = start(&HelloServer::new(), &[]);
    let done = session.file("done");
    let tries = "
import os, socket, sys, time
while not os.path.exists(sys.argv[1]):
    try: socket.gethostbyname('other.test')
    except socket.gaierror: time.sleep(0.1)
";
    let call = Running::start(session.shim("python3").args(["-c", tries, &done]));
    let line =
        "aifo: python3 was refused other.test; allow it with: aifo-coder net allow other.test\n";
    call.complains(line);
    fs::write(&done, "").unwrap();
    let outcome = call.finish();
    assert_eq!(outcome.exited(0).stderr, line, "once");
}

/// Without privileges, in each confinement: uid and gid are the user's, and there is no capability.
#[test]
fn tools_keep_their_user_and_have_no_capability() {
    if !possible("tools_keep_their_user_and_have_no_capability") {
        return;
    }
    let server = HelloServer::new();
    let program = format!(
        "import os; print(os.getuid(), os.getgid(), open('/etc/resolv.conf').read().strip(), \
         [l.split(':')[0].strip() for l in open('/proc/net/dev').read().splitlines()[2:]], \
         {{l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')}}, \
         [v for v in os.environ if v.lower().endswith('_proxy')])\n\
         open('made', 'w').close(); print(os.stat('made').st_uid)\n{CONNECT}"
    );
    let uid = if user().is_empty() { fs::metadata("/proc/self").unwrap().uid() } else { UID };
    let port = server.port.to_string();
    for confine in ["auto", "namespace", "off"] {
        let words = [&*program, "allowed.test", &port];
        let setup = setup().env("no_proxy", "allowed.test").env("FTP_PROXY", "http://[::1]:9");
        let outcome = exec(setup, &server, &["--confine", confine], &words);
        let text = outcome.exited(0).text();
        let rest = "nameserver 127.0.0.1 ['lo'] {'0000000000000000'} []";
        assert!(text.starts_with(&format!("{uid} ")) && text.contains(rest), "{text}");
        assert!(text.ends_with(&format!("\n{uid}\nhello\n")), "{confine}: {text}");
    }
}

/// Kinds with the same rules share one localhost, which is not the machine's; servers of the others are
/// mirrored. A rule for one kind lets no other out.
#[test]
fn a_kind_with_other_rules_has_a_stack_of_its_own() {
    if !possible("a_kind_with_other_rules_has_a_stack_of_its_own") {
        return;
    }
    let server = HelloServer::new();
    for (defaults, stacks) in [(false, 1), (true, 2)] {
        let setup = setup();
        let config = setup.scratch().join("home/.config/aifo");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.toml"), format!("[net]\ndefaults = {defaults}\n")).unwrap();
        let options = options(&server);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let session = setup.options(&options).start();
        assert_eq!(connect(&session, "allowed.test", server.port), "hello");
        reaches_a_server_of_another_kind(&session);
        assert_eq!(holders(&session).len(), stacks, "defaults = {defaults}");
    }
    let rule = server.rule("own.test");
    let session = start(&server, &["--allow-net", &format!("c-cpp={rule}")]);
    let port = server.port.to_string();
    assert_eq!(python(&session, "make", &[CONNECT, "own.test", &port]), "hello");
    assert_eq!(connect(&session, "own.test", server.port), "no such name");
    session.log_lines(&["python tools were refused own.test"]);
}

#[track_caller]
fn reaches_a_server_of_another_kind(session: &Session) {
    let listen = "
import socket, threading
l = socket.create_server(('127.0.0.1', 0))
open('port', 'w').write(str(l.getsockname()[1]))
print('listening', flush=True)
while True:
    c = l.accept()[0]
    c.sendall(b'hello\\n')
    c.close()
";
    let mut make = session.shim("make");
    let call = Running::start(make.args(["-c", listen]));
    call.expect("listening");
    let port: u16 = fs::read_to_string(session.file("port")).unwrap().parse().unwrap();
    eventually("the mirror is up", || connect(session, "localhost", port) == "hello");
    let outside = std::net::TcpStream::connect(("127.0.0.1", port));
    assert!(outside.is_err(), "this machine does not reach it");
    call.signal(Signal::SIGTERM);
    call.finish();
}

/// The namespaces of processes outside, abstract sockets, and the hidden sockets of programs that would
/// resolve names or execute commands outside.
#[test]
fn a_tool_does_not_leave_the_stack() {
    if !possible("a_tool_does_not_leave_the_stack") {
        return;
    }
    let server = HelloServer::new();
    let setup = setup();
    let (hidden, visible) = (setup.scratch().join("docker.sock"), setup.scratch().join("other"));
    let _hidden = UnixListener::bind(&hidden).unwrap();
    let _visible = UnixListener::bind(&visible).unwrap();
    let setup = setup.env("DOCKER_HOST", &format!("unix://{}", hidden.display()));
    let name = format!("aifo-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let program = "
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
parent, seen = os.getppid(), set()
while parent > 0:
    for kind, flag in (('user', 0x10000000), ('net', 0x40000000)):
        try:
            fd = os.open(f'/proc/{parent}/ns/{kind}', os.O_RDONLY)
        except OSError as e:
            seen.add(errno.errorcode[e.errno])
            continue
        if os.fstat(fd).st_ino == os.stat(f'/proc/self/ns/{kind}').st_ino:
            continue
        seen.add('entered' if libc.setns(fd, flag) == 0 else errno.errorcode[ctypes.get_errno()])
    parent = int(open(f'/proc/{parent}/stat').read().rsplit(')', 1)[1].split()[1])
print(sorted(seen))
def connect(address):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        return 'connected'
    except OSError as e:
        return errno.errorcode[e.errno]
print(connect('\\0' + sys.argv[1]), connect(sys.argv[2]), connect(sys.argv[3]))
";
    let words = [program, &name, hidden.to_str().unwrap(), visible.to_str().unwrap()];
    // Without Landlock, which would hold some of them as well.
    let outcome = exec(setup, &server, &["--confine", "off"], &words);
    let text = outcome.exited(0).text();
    let (namespaces, sockets) = text.split_once('\n').unwrap();
    assert!(["['EACCES']", "['EACCES', 'EPERM']", "['EPERM']"].contains(&namespaces), "{text}");
    assert_eq!(sockets, "ECONNREFUSED ECONNREFUSED connected\n");
}

#[test]
fn a_host_port_is_relayed() {
    if !possible("a_host_port_is_relayed") {
        return;
    }
    let (server, other) = (HelloServer::new(), HelloServer::new());
    let session = start(&other, &["--host-port", &server.port.to_string()]);
    assert_eq!(connect(&session, "localhost", server.port), "hello");
    assert_eq!(connect(&session, "allowed.test", other.port), "hello");
    assert_eq!((server.accepted(), other.accepted()), (1, 1));
}

/// The next call has a new stack with new listeners, in every sidecar.
#[test]
fn a_lost_stack_is_replaced() {
    if !possible("a_lost_stack_is_replaced") {
        return;
    }
    let server = HelloServer::new();
    let session = start(&server, &[]);
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    let first = holders(&session);
    for holder in &first {
        send_signal(*holder, Signal::SIGKILL);
        eventually("it has ended", || !is_alive(*holder));
    }
    let port = server.port.to_string();
    for tool in ["python3", "make"] {
        eventually("the next call reaches the name", || {
            let mut call = session.shim(tool);
            let outcome = Outcome::of(call.args(["-c", CONNECT, "allowed.test", &port]));
            outcome.text() == "hello\n"
        });
    }
    assert!(holders(&session).iter().all(|holder| !first.contains(holder)));
}

#[test]
fn a_killed_launcher_leaves_no_connection() {
    if !possible("a_killed_launcher_leaves_no_connection") {
        return;
    }
    let server = HelloServer::new();
    let mut session = start(&server, &[]);
    let mut shim = session.shim("python3");
    let call = Running::start(shim.args(["-c", HOLD, &server.port.to_string()]));
    call.expect("connected");
    let holders = holders(&session);
    session.end(Signal::SIGKILL);
    eventually("the connection is closed", || server.was_closed());
    eventually("the stacks have ended", || !holders.iter().any(|holder| is_alive(*holder)));
    call.finish();
}

/// The holder of the stack passes its listeners, whatever the transport of the sidecars' runners is.
#[test]
fn runners_without_descriptors_share_the_stack() {
    if !possible("runners_without_descriptors_share_the_stack") {
        return;
    }
    let server = HelloServer::new();
    let session = start(&server, &["--runner-transport", "stdio"]);
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    assert_eq!(connect(&session, "other.test", server.port), "no such name");
}

/// An agent on this machine keeps its network.
#[test]
fn the_agent_keeps_its_network() {
    if !possible("the_agent_keeps_its_network") {
        return;
    }
    let server = HelloServer::new();
    let setup = setup();
    fs::write(setup.workspace().join("connect.py"), CONNECT).unwrap();
    let own = program("python3").unwrap();
    let script = format!(
        "{} connect.py 127.0.0.1 {port}; python3 connect.py 127.0.0.1 {port}; \
         python3 connect.py allowed.test {port}",
        own.display(),
        port = server.port
    );
    let mut run = setup.coder();
    run.arg("run").args(options(&server)).args(["--toolchain", "python", "--"]);
    let outcome = Outcome::of(run.args(["/bin/sh", "-c", &script]));
    let text = outcome.exited(0).text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines[2], lines.len()), ("hello", "hello", 3), "{outcome:?}");
    assert!(["closed", "ECONNRESET"].contains(&lines[1]), "{outcome:?}");
}

/// The session does not start, and the reason names a remedy.
#[test]
fn without_namespaces_nothing_runs() {
    let unshare = program("unshare").unwrap();
    let limit = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let inside = [unshare.to_str().unwrap(), "--user", "--map-root-user", "/bin/sh", "-c", limit];
    if !possible("without_namespaces_nothing_runs") {
        return;
    }
    let server = HelloServer::new();
    let setup = setup().through(&[&inside[..], &["sh"]].concat());
    let mut exec = setup.coder();
    exec.arg("exec").args(options(&server)).args(["--toolchain", "python", "--", "python3"]);
    let outcome = Outcome::of(exec.args(["-c", "print('ran')"]));
    assert_eq!((outcome.code(), outcome.text()), (Some(86), String::new()), "{outcome:?}");
    let line = "local tools cannot have a network of their own: cannot create a user namespace: ";
    assert!(outcome.stderr.contains(line), "{outcome:?}");
    let hint = "hint: run as root: sysctl -w user.max_user_namespaces=10000\n";
    assert!(outcome.stderr.ends_with(hint), "{outcome:?}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let server = HelloServer::new();
    let port = server.port.to_string();
    let rows: [(&[&str], &str); 2] = [
        (&["--host-port", &port], "is both a host port and a port of network rules"),
        (&["--publish", "3000:3000"], "--publish needs containers"),
    ];
    for (more, expected) in rows {
        let setup = setup();
        let mut serve = setup.coder();
        serve.arg("serve").args(options(&server)).args(["--toolchain", "python"]).args(more);
        let outcome = Outcome::of(&mut serve);
        assert!(outcome.code() != Some(0) && outcome.stderr.contains(expected), "{outcome:?}");
        assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
    }
}
