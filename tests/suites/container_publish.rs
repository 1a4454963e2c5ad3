//! Ports of the tools on this machine (`spec/network.md#published-ports`).
//!
//! Proves `spec/network.md#a-network-of-the-engine`.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use aifo_tests::{
    ContainerSession, ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Signal, binaries,
    eventually,
};

/// A tool that answers `hello` to each connection, at the address and port of its arguments.
const SERVER: &str = "
import socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('listening', flush=True)
while True:
    client, _ = s.accept()
    client.sendall(b'hello')
    client.close()
";

fn serve(session: &ContainerSession, address: &str, port: u16) -> Running {
    let mut shim = session.shim("python3");
    let server = Running::start(shim.args(["-c", SERVER, address, &port.to_string()]));
    server.expect("listening");
    server
}

/// What a client of this machine reads, or the error.
pub(crate) fn read(address: SocketAddr) -> Result<String, ErrorKind> {
    let mut stream =
        TcpStream::connect_timeout(&address, Duration::from_secs(10)).map_err(|e| e.kind())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|e| e.kind())?;
    Ok(text)
}

/// The address in `ADDRESS reaches port PORT of the tools`.
#[track_caller]
pub(crate) fn published(log: &str, port: u16) -> SocketAddr {
    let end = format!(" reaches port {port} of the tools");
    let line = log.lines().find_map(|line| line.strip_suffix(end.as_str()));
    let address = line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("{log}"));
    address.parse().unwrap_or_else(|_| panic!("{address}"))
}

/// `aifo-coder publish` in a session environment.
fn publish(session: &ContainerSession, port: &str) -> Outcome {
    let mut command = Command::new(&binaries().coder);
    command.args(["publish", "--session", session.id(), port]);
    // Session directories are below this one.
    command.env("XDG_RUNTIME_DIR", session.dir().parent().expect("a session's directory"));
    Outcome::of(&mut command)
}

fn by_name(engine: &Engine, transport: &str) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind("python").flag("--net", "names");
    setup.flag("--runner-transport", transport)
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_loopback_server_is_reached_at_the_chosen_port() {
    let Some(engine) = Engine::of_run("a_loopback_server_is_reached_at_the_chosen_port") else {
        return;
    };
    check_published(&engine, "socket");
}

/// Ports that the session publishes from its start.
#[track_caller]
pub(crate) fn check_published(engine: &Engine, transport: &str) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = by_name(engine, transport).flag("--publish", "3000");
    let mut session = setup.flag("--publish", &format!("{}:3001", free.port())).start();
    let chosen = published(&session.log(), 3000);
    assert!(chosen.ip().is_loopback() && chosen.port() != 0);
    assert_eq!(published(&session.log(), 3001), free);
    assert_eq!(read(chosen), Err(ErrorKind::ConnectionReset), "no tool listens yet");
    let servers = [serve(&session, "127.0.0.1", 3000), serve(&session, "0.0.0.0", 3001)];
    assert_eq!(read(chosen).as_deref(), Ok("hello"));
    assert_eq!(read(free).as_deref(), Ok("hello"));
    for server in servers {
        server.signal(Signal::SIGTERM);
        server.finish();
    }
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    assert_eq!(read(chosen), Err(ErrorKind::ConnectionRefused));
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_running_session_publishes_a_port() {
    let Some(engine) = Engine::of_run("a_running_session_publishes_a_port") else { return };
    check_publish_command(&engine, "socket");
}

/// Ports of a running session, and their errors.
#[track_caller]
pub(crate) fn check_publish_command(engine: &Engine, transport: &str) {
    let mut session = by_name(engine, transport).start();
    let server = serve(&session, "127.0.0.1", 3000);
    let outcome = publish(&session, "3000");
    let url = outcome.exited(0).text();
    let address = url.trim_end().strip_prefix("http://").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    assert!(address.ip().is_loopback());
    assert_eq!(read(address).as_deref(), Ok("hello"));

    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = own.local_addr().unwrap().port();
    drop(own);
    let same = publish(&session, &free.to_string());
    assert_eq!(same.exited(0).text(), format!("http://127.0.0.1:{free}\n"));
    let again = publish(&session, &free.to_string()).exited(0).text();
    assert_eq!(again, same.text(), "it is published");
    assert_eq!(publish(&session, "3000").exited(0).text(), url, "also at a free port");

    let taken = publish(&session, &format!("{}:3001", address.port()));
    assert!(taken.exited(1).stderr.contains("cannot listen on 127.0.0.1:"), "{taken:?}");
    let dns = publish(&session, "53");
    assert!(dns.exited(1).stderr.contains("port 53 is a port of network rules"), "{dns:?}");
    let wrong = publish(&session, "5000:53/udp");
    assert!(wrong.exited(2).stderr.contains("hint: write PORT"), "{wrong:?}");

    session.end(Signal::SIGKILL);
    eventually("the port is closed", || read(address) == Err(ErrorKind::ConnectionRefused));
    server.finish();
    session.sweep();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn another_network_publishes_at_localhost() {
    let Some(engine) = Engine::of_run("another_network_publishes_at_localhost") else { return };
    let setup = ContainerSetup::of(&engine).kind("python").flag("--net", "shared");
    let session = setup.flag("--publish", "8000").start();
    let pod = format!("aifo-pod-{}", session.id());
    let address: SocketAddr = engine.text(["port", &pod, "8000/tcp"]).trim().parse().unwrap();
    assert!(address.ip().is_loopback(), "{address}");
    let server = serve(&session, "0.0.0.0", 8000);
    assert_eq!(read(address).as_deref(), Ok("hello"));
    server.signal(Signal::SIGTERM);
    server.finish();
    let refused = publish(&session, "8000");
    assert!(refused.exited(1).stderr.contains("hint: start it with --net names"), "{refused:?}");
    session.finish();
}

/// The request socket is in no container: a tool cannot publish a port.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_tool_finds_no_socket_for_requests() {
    let Some(engine) = Engine::of_run("a_tool_finds_no_socket_for_requests") else { return };
    let session = by_name(&engine, "socket").start();
    assert!(session.dir().join("publish.sock").exists());
    let find = "
import os
print([os.path.join(at, name) for at, _, names in os.walk('/') for name in names
       if name == 'publish.sock'])
";
    assert_eq!(session.python(find, &[]), "[]\n");
    let setup = by_name(&engine, "socket");
    let mut run = setup.command("run");
    let find = "find / -name publish.sock 2>/dev/null; true";
    let outcome = Outcome::of(run.args(["--image", EVERY_TOOL, "--", "sh", "-c", find]));
    assert_eq!(outcome.exited(0).text(), "", "{outcome:?}");
    session.finish();
}

/// A network as compose makes it, with a server that tools reach by its name, and publish into.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_join_a_network_of_the_engine() {
    let Some(engine) = Engine::of_run("tools_join_a_network_of_the_engine") else { return };
    check_join(&engine, "socket");
}

/// A network of the engine that tools join, and publish into.
#[track_caller]
pub(crate) fn check_join(engine: &Engine, transport: &str) {
    let absent = by_name(engine, transport).flag("--join", "aifo-test-absent");
    let refused = Outcome::of(&mut absent.command("serve"));
    assert!(refused.stderr.contains("has no network 'aifo-test-absent'\nhint: "), "{refused:?}");

    let network = format!("aifo-test-join-{transport}-{}", std::process::id());
    engine.text(["network", "create", &network]);
    let setup = by_name(engine, transport).flag("--join", &network).flag("--publish", "3000");
    let mut session = setup.start();
    let pod = format!("aifo-pod-{}", session.id());
    let format = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}";
    assert_eq!(engine.inspect(&pod, format).trim(), network);
    assert_eq!(engine.inspect(&pod, "{{.HostConfig.CapAdd}}"), "[]");
    let seen = session.python(
        "import os; print(len(os.listdir('/sys/class/net')), \
         '127.0.0.1\\n' in open('/etc/resolv.conf').read().replace('nameserver ', ''))",
        &[],
    );
    assert_eq!(seen, "2 False\n", "loopback and the network, with the engine's resolver");
    // Published by the launcher, at the loopback address.
    let server = serve(&session, "127.0.0.1", 3000);
    assert_eq!(read(published(&session.log(), 3000)).as_deref(), Ok("hello"));
    server.signal(Signal::SIGTERM);
    server.finish();
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    // It is not the session's, so it stays.
    engine.text(["network", "rm", &network]);
}
