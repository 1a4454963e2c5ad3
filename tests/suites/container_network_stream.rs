//! Network by name without descriptor passing: the runner relays the connections of its stack
//! (`spec/runner.md#connections-of-a-stack`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use aifo_tests::{
    BLOCK, CONNECT, ContainerSession, ContainerSetup, EVERY_TOOL, Engine, HOLD, HelloServer,
    Outcome, RandomBytes, Running, Signal, eventually, is_alive, status_kib,
};

use crate::container_mirrors::{check_agent_ports, check_mirrors, check_taken_port};
use crate::container_publish::{check_join, check_publish_command, check_published};

const SIZE: u64 = 32 << 20;

/// The peak of the launcher's own memory, above that of a session without connections.
const PEAK_KIB: u64 = 32 * 1024;

/// Options of a session that reaches the servers of these rules.
fn setup(engine: &Engine, rules: &[String]) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind("python").flag("--net", "names");
    let setup = setup.flag("--runner-transport", "stdio");
    rules.iter().fold(setup, |setup, rule| setup.flag("--allow-net", rule))
}

#[track_caller]
fn connect(session: &ContainerSession, host: &str, port: u16) -> String {
    session.python(CONNECT, &[host, &port.to_string()]).trim_end().to_owned()
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn allowed_names_are_reached_and_nothing_else() {
    let test = "container_network_stream::allowed_names_are_reached_and_nothing_else";
    let Some(engine) = Engine::of_run(test) else { return };
    let (server, host) = (HelloServer::new(), HelloServer::new());
    let setup = setup(&engine, &[server.rule("allowed.test")]);
    let session = setup.flag("--host-port", &host.port.to_string()).start();
    for _ in 0..20 {
        assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    }
    assert_eq!(connect(&session, "localhost", host.port), "hello");
    assert_eq!((server.accepted(), host.accepted()), (20, 1));
    assert_eq!(connect(&session, "other.test", server.port), "no such name");
    assert_eq!(connect(&session, "1.1.1.1", 443), "ENETUNREACH");
    // No name has this address: the connection is reset, not closed.
    assert_eq!(connect(&session, "127.0.0.1", server.port), "ECONNRESET");
    assert_eq!(server.accepted(), 20, "the server saw none of them");
    // DNS over TCP.
    let query = "
import socket, struct
s = socket.create_connection(('127.0.0.1', 53))
q = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7allowed\\4test\\0\\0\\1\\0\\1'
s.sendall(struct.pack('>H', len(q)) + q)
print(s.recv(512)[-4:].hex())
";
    assert_eq!(session.python(query, &[]), "7f400001\n");
    session.log_lines(&["tools were refused other.test"]);
    session.finish();
}

/// The agent has a stack of its own, whose runner relays as well.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_agent_reaches_the_same_names() {
    let test = "container_network_stream::the_agent_reaches_the_same_names";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let setup = setup(&engine, &[server.rule("allowed.test")]);
    fs::write(setup.setup().workspace().join("connect.py"), CONNECT).unwrap();
    let script = format!("PATH=/usr/bin /usr/bin/python3 connect.py allowed.test {}", server.port);
    let mut run = setup.command("run");
    run.args(["--image", EVERY_TOOL, "--", "sh", "-c", &script]);
    assert_eq!(Outcome::of(&mut run).exited(0).text(), "hello\n");
}

/// More than any buffer holds, in both directions at once, with half-closed connections at the end.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn bulk_both_ways_is_complete_and_bounded() {
    let test = "container_network_stream::bulk_both_ways_is_complete_and_bounded";
    let Some(engine) = Engine::of_run(test) else { return };
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let mut client = echo.accept().unwrap().0;
        let mut reader = client.try_clone().unwrap();
        let check = thread::spawn(move || {
            let (mut noise, mut block) = (RandomBytes::new(7), vec![0; BLOCK]);
            loop {
                match reader.read(&mut block).unwrap() {
                    0 => return noise.position(),
                    length => noise.check(&block[..length]),
                }
            }
        });
        let mut noise = RandomBytes::new(8);
        while noise.position() < SIZE {
            client.write_all(noise.next(BLOCK)).unwrap();
        }
        client.shutdown(std::net::Shutdown::Write).unwrap();
        check.join().unwrap()
    });
    let session = setup(&engine, &[format!("allowed.test:{port} address=127.0.0.1")]).start();
    let mut noise = RandomBytes::new(7);
    let mut sent = Vec::new();
    while noise.position() < SIZE {
        sent.extend_from_slice(noise.next(BLOCK));
    }
    fs::write(session.workspace().join("sent"), &sent).unwrap();
    let program = "
import socket, sys, threading
s = socket.create_connection(('allowed.test', int(sys.argv[1])))
def send():
    with open('sent', 'rb') as f:
        s.sendfile(f)
    s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.start()
with open('received', 'wb') as f:
    while data := s.recv(65536):
        f.write(data)
t.join()
";
    let before = status_kib(session.pid(), "VmRSS");
    assert_eq!(session.python(program, &[&port.to_string()]), "");
    assert_eq!(server.join().unwrap(), SIZE);
    let received = fs::read(session.workspace().join("received")).unwrap();
    let mut noise = RandomBytes::new(8);
    noise.check(&received);
    assert_eq!(noise.position(), SIZE);
    let peak = status_kib(session.pid(), "VmHWM");
    assert!(peak < before + PEAK_KIB, "{before} KiB, then {peak} KiB");
    session.finish();
}

/// A connection whose server does not read stops no other one, and no call.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_stalled_connection_holds_no_other() {
    let test = "container_network_stream::a_stalled_connection_holds_no_other";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stalled.local_addr().unwrap().port();
    let rules = [server.rule("allowed.test"), format!("stalled.test:{port} address=127.0.0.1")];
    let session = setup(&engine, &rules).start();
    let program = "
import socket, sys
s = socket.create_connection(('stalled.test', int(sys.argv[1])))
s.settimeout(2)
try:
    while True: s.sendall(bytes(65536))
except TimeoutError:
    print('stalled', flush=True)
s.settimeout(None)
s.recv(1)
";
    let mut shim = session.shim("python3");
    let call = Running::start(shim.args(["-c", program, &port.to_string()]));
    let _client = stalled.accept().unwrap();
    call.expect("stalled");
    for _ in 0..10 {
        assert_eq!(connect(&session, "allowed.test", server.port), "hello");
    }
    call.signal(Signal::SIGTERM);
    call.finish();
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn many_connections_at_once() {
    let test = "container_network_stream::many_connections_at_once";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let session = setup(&engine, &[server.rule("allowed.test")]).start();
    // More than are open at once: further ones wait in the listener's queue.
    let program = "
import asyncio, sys
async def one():
    r, w = await asyncio.open_connection('allowed.test', int(sys.argv[1]))
    data = await r.readuntil(b'hello\\n')
    await asyncio.sleep(0.2)
    w.close()
    return len(data)
async def main():
    print(len(await asyncio.gather(*(one() for _ in range(1500)))))
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
asyncio.run(main())
";
    assert_eq!(session.python(program, &[&server.port.to_string()]), "1500\n");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_killed_launcher_leaves_no_connection() {
    let test = "container_network_stream::a_killed_launcher_leaves_no_connection";
    let Some(engine) = Engine::of_run(test) else { return };
    let server = HelloServer::new();
    let mut session = setup(&engine, &[server.rule("allowed.test")]).start();
    let mut shim = session.shim("python3");
    let call = Running::start(shim.args(["-c", HOLD, &server.port.to_string()]));
    call.expect("connected");
    eventually("the server has the connection", || server.accepted() == 1);
    let runner = engine.pid(&session.container("python"));
    session.end(Signal::SIGKILL);
    eventually("the connection is closed", || server.was_closed());
    eventually("the runner has ended", || !is_alive(runner));
    call.finish();
    session.sweep();
}

/// Mirrors, agent ports, published ports and joined networks work as with passed sockets.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_tools_server_is_mirrored() {
    let test = "container_network_stream::a_tools_server_is_mirrored";
    let Some(engine) = Engine::of_run(test) else { return };
    check_mirrors(&engine, "stdio");
    check_taken_port(&engine, "stdio");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_reach_the_agents_ports_that_the_user_opens() {
    let test = "container_network_stream::tools_reach_the_agents_ports_that_the_user_opens";
    let Some(engine) = Engine::of_run(test) else { return };
    check_agent_ports(&engine, "stdio");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn ports_are_published() {
    let test = "container_network_stream::ports_are_published";
    let Some(engine) = Engine::of_run(test) else { return };
    check_published(&engine, "stdio");
    check_publish_command(&engine, "stdio");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_join_a_network() {
    let test = "container_network_stream::tools_join_a_network";
    let Some(engine) = Engine::of_run(test) else { return };
    check_join(&engine, "stdio");
}
