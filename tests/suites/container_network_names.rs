//! Network by name: tools in containers without a network reach the names that rules allow
//! (`spec/network.md`).
//!
//! Proves `spec/network.md#failure`, `spec/network.md#host-ports`.

use std::fs;
use std::time::{Duration, Instant};

use aifo_tests::{
    CONNECT, ContainerSession, ContainerSetup, EVERY_TOOL, Engine, HOLD, HelloServer, Outcome,
    Running, Signal, eventually, is_alive,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Options of a session that reaches the server as `allowed.test`.
pub(crate) fn setup(engine: &Engine, server: &HelloServer) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind("python");
    setup.flag("--net", "names").flag("--allow-net", &server.rule("allowed.test"))
}

#[track_caller]
pub(crate) fn connect(session: &ContainerSession, host: &str, port: u16) -> String {
    session.python(CONNECT, &[host, &port.to_string()]).trim_end().to_owned()
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn allowed_names_are_reached_and_nothing_else() {
    let Some(engine) = Engine::of_run("allowed_names_are_reached_and_nothing_else") else { return };
    let server = HelloServer::new();
    let mut session = setup(&engine, &server).start();
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    assert_eq!(connect(&session, "ALLOWED.test.", server.port), "hello");
    let fetched = session.python(
        "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')",
        &[&format!("http://allowed.test:{}/", server.port)],
    );
    assert_eq!(fetched, "hello\n");
    assert_eq!(server.accepted(), 3);

    let began = Instant::now();
    assert_eq!(connect(&session, "other.test", server.port), "no such name");
    assert_eq!(connect(&session, "a.allowed.test", server.port), "no such name");
    // Address literals, this machine's address among them: no packet leaves the stack.
    for literal in ["1.1.1.1", "169.254.169.254", "10.88.0.1", "172.17.0.1", "2606:4700::1111"] {
        let failure = connect(&session, literal, 443);
        assert!(["ENETUNREACH", "EADDRNOTAVAIL"].contains(&&*failure), "{literal}: {failure}");
    }
    assert_eq!(connect(&session, "allowed.test", 9), "ECONNREFUSED");
    // The listener of the port takes it, but this address stands for no name.
    assert!(["closed", "ECONNRESET"].contains(&&*connect(&session, "127.0.0.1", server.port)));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(server.accepted(), 3, "the server saw none of them");

    session.log_lines(&["tools were refused other.test"]);
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    let log = session.log();
    let summary = "allow it with: aifo-coder net allow other.test";
    assert!(log.contains(summary), "{log}");
}

/// TLS at port 443 and HTTP at 80 are checked: the server name and the host must be the dialled name.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_connection_must_be_for_the_dialled_name() {
    let test = "a_connection_must_be_for_the_dialled_name";
    let Some(engine) = Engine::of_run(test) else { return };
    // Of this test alone, since the ports are fixed.
    let address = "127.0.0.77";
    let servers = [443, 80].map(|port| HelloServer::at((address, port)));
    let [Some(tls), Some(http)] = servers else {
        eprintln!("skipped: {test}: only root binds ports below 1024");
        return;
    };
    let rule = format!("allowed.test address={address}");
    let setup = ContainerSetup::of(&engine).kind("python").flag("--net", "names");
    let session = setup.flag("--allow-net", &rule).start();
    let handshake = "
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
s = socket.create_connection(('allowed.test', 443), timeout=20)
try:
    context.wrap_socket(s, server_hostname=sys.argv[1] if len(sys.argv) > 1 else None)
except ssl.SSLError as e:
    print(e.reason)
except OSError as e:
    print(type(e).__name__)
";
    // The server answers in clear text, which the client cannot parse.
    assert_eq!(session.python(handshake, &["allowed.test"]), "WRONG_VERSION_NUMBER\n");
    assert_eq!(tls.accepted(), 1);
    assert_eq!(session.python(handshake, &["other.test"]), "TLSV1_UNRECOGNIZED_NAME\n");
    assert_eq!(session.python(handshake, &[]), "TLSV1_UNRECOGNIZED_NAME\n");
    assert_eq!(tls.accepted(), 1, "nothing else was dialled");

    let fetch = "
import http.client, sys
c = http.client.HTTPConnection('allowed.test', timeout=20)
c.request('GET', '/', headers={'Host': sys.argv[1]})
print(c.getresponse().status)
";
    assert_eq!(session.python(fetch, &["allowed.test"]), "200\n");
    assert_eq!(session.python(fetch, &["other.test"]), "403\n");
    assert_eq!(http.accepted(), 1);
    session.log_lines(&["tools were refused allowed.test:443: its ClientHello"]);
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn containers_have_no_network_and_no_capability() {
    let Some(engine) = Engine::of_run("containers_have_no_network_and_no_capability") else {
        return;
    };
    let server = HelloServer::new();
    let session = setup(&engine, &server).start();
    let container = session.container("python");
    assert_eq!(engine.inspect(&container, "{{.HostConfig.NetworkMode}}"), "none");
    assert_eq!(engine.inspect(&container, "{{.HostConfig.CapAdd}}"), "[]");
    let dropped = engine.inspect(&container, "{{.HostConfig.CapDrop}}");
    assert!(dropped.contains("ALL") || dropped.contains("CAP_CHOWN"), "{dropped}");
    assert_eq!(session.left(), [container], "neither a holder nor a bridge");
    let seen = session.python(
        "import os; print([l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]], \
         open('/etc/resolv.conf').read(), \
         [v for v in os.environ if v.lower().endswith('_proxy')])",
        &[],
    );
    assert_eq!(seen, "['lo'] nameserver 127.0.0.1\n []\n");
    let write = "open('/etc/resolv.conf', 'w')";
    assert_ne!(session.run("python3", &["-c", write]).code(), Some(0), "it is read-only");
    session.finish();
}

/// A tool cannot take a listener's address.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_tool_cannot_share_a_listener() {
    let Some(engine) = Engine::of_run("a_tool_cannot_share_a_listener") else { return };
    let server = HelloServer::new();
    let session = setup(&engine, &server).start();
    let program = "
import socket, sys, errno
for kind, address in [
    (socket.SOCK_DGRAM, ('127.0.0.1', 53)), (socket.SOCK_DGRAM, ('0.0.0.0', 53)),
    (socket.SOCK_STREAM, ('127.0.0.1', 53)), (socket.SOCK_STREAM, ('0.0.0.0', int(sys.argv[1]))),
    (socket.SOCK_STREAM, ('127.64.0.1', int(sys.argv[1]))),
]:
    s = socket.socket(socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        s.bind(address)
        print(address, 'bound')
    except OSError as e:
        print(errno.errorcode[e.errno])
";
    let port = server.port.to_string();
    assert_eq!(session.python(program, &[&port]), "EADDRINUSE\n".repeat(5));
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_workspace_only_takes_names_away() {
    let Some(engine) = Engine::of_run("a_workspace_only_takes_names_away") else { return };
    let server = HelloServer::new();
    let both = setup(&engine, &server).flag("--allow-net", &server.rule("more.test"));
    let file = both.setup().workspace().join(".aifo.toml");
    fs::write(&file, "[net]\nallow = [\"example.org\"]\n").unwrap();
    let refused = Outcome::of(&mut both.command("serve"));
    assert!(refused.stderr.contains("[net] allow allows names, which a workspace's file"));
    fs::write(&file, "[net]\ndeny = [\"more.test\"]\n").unwrap();
    let session = both.start();
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    assert_eq!(connect(&session, "more.test", server.port), "no such name");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn learning_resolves_every_name_that_is_not_taken_away() {
    let test = "learning_resolves_every_name_that_is_not_taken_away";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let setup = ContainerSetup::of(&engine).kind("python").flag("--net", "learn");
    let setup = setup.flag("--allow-net", &server.rule("allowed.test"));
    fs::write(setup.setup().workspace().join(".aifo.toml"), "[net]\ndeny = [\"evil.test\"]\n")
        .unwrap();
    let mut session = setup.start();
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    let resolve = "import socket; print(socket.gethostbyname('unlisted.test'))";
    assert!(session.python(resolve, &[]).starts_with("127.64.0."), "it has an address");
    assert_eq!(connect(&session, "evil.test", 443), "no such name");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    let log = session.log();
    // A name with a rule is not listed, and the other one was not reached.
    assert!(!log.contains("without a rule"), "{log}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_host_port_is_relayed_at_localhost_only() {
    let Some(engine) = Engine::of_run("a_host_port_is_relayed_at_localhost_only") else { return };
    let (server, other) = (HelloServer::new(), HelloServer::new());
    let port = server.port.to_string();
    let setup = setup(&engine, &other).flag("--host-port", &port);
    let session = setup.start();
    assert_eq!(connect(&session, "localhost", server.port), "hello");
    assert_eq!(connect(&session, "127.0.0.1", server.port), "hello");
    assert_eq!(server.accepted(), 2);
    // The address of a name, and one of no name.
    for host in ["allowed.test", "127.0.0.2"] {
        let failure = connect(&session, host, server.port);
        assert!(["ECONNREFUSED", "ECONNRESET"].contains(&&*failure), "{host}: {failure}");
    }
    assert_eq!((server.accepted(), other.accepted()), (2, 0));
    assert_eq!(connect(&session, "allowed.test", other.port), "hello");
    session.finish();
}

/// The sidecar that holds the stack is lost: the next call has a new stack with new listeners.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_lost_stack_is_replaced() {
    let Some(engine) = Engine::of_run("a_lost_stack_is_replaced") else { return };
    let server = HelloServer::new();
    let session = setup(&engine, &server).start();
    assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    engine.text(["kill", &session.container("python")]);
    eventually("the next call reaches the name", || {
        let port = server.port.to_string();
        let outcome = session.run("python3", &["-c", CONNECT, "allowed.test", &port]);
        outcome.text() == "hello\n"
    });
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_killed_launcher_leaves_no_connection() {
    let Some(engine) = Engine::of_run("a_killed_launcher_leaves_no_connection") else { return };
    let server = HelloServer::new();
    let mut session = setup(&engine, &server).start();
    let mut shim = session.shim("python3");
    let call = Running::start(shim.args(["-c", HOLD, &server.port.to_string()]));
    call.expect("connected");
    eventually("the server has the connection", || server.accepted() == 1);
    let runner = engine.pid(&session.container("python"));
    session.end(Signal::SIGKILL);
    eventually("the connection is closed", || server.was_closed());
    eventually("the stack has ended", || !is_alive(runner));
    call.finish();
    session.sweep();
}

/// The agent has a stack of its own: the same names, but no way from the tools to its listeners.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_agent_has_a_stack_of_its_own() {
    let Some(engine) = Engine::of_run("the_agent_has_a_stack_of_its_own") else { return };
    let server = HelloServer::new();
    let setup = setup(&engine, &server);
    fs::write(setup.setup().workspace().join("connect.py"), CONNECT).unwrap();
    let script = format!(
        "PATH=/usr/local/bin:/usr/bin:/bin /usr/bin/python3 connect.py allowed.test {port}; \
         PATH=/usr/local/bin:/usr/bin:/bin /usr/bin/python3 -m http.server 3000 >/dev/null 2>&1 & \
         until PATH=/usr/bin /usr/bin/python3 connect.py 127.0.0.1 3000 | grep -qv REFUSED; \
         do :; done; python3 connect.py 127.0.0.1 3000; python3 connect.py allowed.test {port}; \
         kill %1 2>/dev/null; kill $! 2>/dev/null; true",
        port = server.port
    );
    let mut run = setup.command("run");
    run.args(["--image", EVERY_TOOL, "--", "sh", "-c", &script]);
    let outcome = Outcome::of(&mut run);
    assert_eq!(outcome.exited(0).text(), "hello\nECONNREFUSED\nhello\n", "{outcome:?}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn what_cannot_work_is_refused() {
    let Some(engine) = Engine::of_run("what_cannot_work_is_refused") else { return };
    let server = HelloServer::new();
    let port = server.port.to_string();
    let rows: [(&[&str], &str); 5] = [
        (&["--host-port", &port], "is both a host port and a port of network rules"),
        (&["--host-port", "53"], "invalid port '53'"),
        (&["--publish", "5000:53/udp"], "invalid port '5000:53/udp'"),
        (&["--allow-net", "http://x.example/"], "is a URL"),
        (&["--allow-net", "x.example:53"], "has port 53"),
    ];
    for (more, expected) in rows {
        let setup = setup(&engine, &server);
        let outcome = Outcome::of(setup.command("serve").args(more));
        assert!(outcome.code() != Some(0) && outcome.stderr.contains(expected), "{outcome:?}");
        assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
    }
}

/// The launcher raises its soft limit on open files; the agent has the caller's.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_thousand_connections_are_open_with_a_low_soft_limit() {
    let test = "a_thousand_connections_are_open_with_a_low_soft_limit";
    let Some(engine) = Engine::of_run(test) else { return };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < 4096 {
        eprintln!("skipped: {test}: the hard limit on open files is {hard}");
        return;
    }
    // The test is the server.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let server = HelloServer::new();
    let wrapper = ["/bin/sh", "-c", "ulimit -S -n 1024; exec \"$@\"", "sh"];
    let mut session = setup(&engine, &server).through(&wrapper).start();
    let program = "
import asyncio, resource, sys
async def one():
    r, w = await asyncio.open_connection('allowed.test', int(sys.argv[1]))
    await r.readuntil(b'hello\\n')
    return w
async def main():
    opened = await asyncio.gather(*(one() for _ in range(1000)))
    # All are open now.
    print(len(opened), sum(not w.is_closing() for w in opened))
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
asyncio.run(main())
";
    assert_eq!(session.python(program, &[&server.port.to_string()]), "1000 1000\n");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    assert!(!session.log().contains("open files"), "{}", session.log());
}
