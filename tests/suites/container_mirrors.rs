//! Servers of tools are reached from the other network stacks (`spec/network.md#mirrors`).
//!
//! Proves `spec/network.md#agent-ports`.

use std::fs;
use std::process::Command;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Signal, eventually};

/// A tool that answers `hello` to each connection. It writes the time when it listens to a file.
const SERVER: &str = r#"
import os, socket, sys, time
address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if family == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address == "::1"))
try:
    s.bind((address, port))
except OSError:
    # Docker's containers without a network have no ::1.
    assert address == "::1"
    s = socket.create_server(("127.0.0.1", port))
s.listen(8)
listening = time.monotonic_ns()
with open(f".ready-{port}", "w") as f:
    f.write(str(listening))
os.rename(f".ready-{port}", f"ready-{port}")
while True:
    client, _ = s.accept()
    client.sendall(b"hello\n")
    client.close()
"#;

/// Functions of a Python program that runs in the agent container.
const AGENT: &str = r#"
import errno, os, signal, socket, subprocess, sys, time
TOOLS = "/opt/aifo/bin/"

def connect(port, host="127.0.0.1"):
    try:
        with socket.create_connection((host, port), timeout=20) as s:
            return s.makefile().read().strip() or "closed"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))

def until(expected, port):
    "Connects until this is the answer; returns the time."
    end = time.monotonic() + 20
    while (answer := connect(port)) != expected:
        if time.monotonic() > end:
            sys.exit(f"port {port}: {answer}, expected {expected}")
        time.sleep(0.0005)
    return time.monotonic_ns()

def serve(address, port):
    return subprocess.Popen([TOOLS + "python3", "server.py", address, str(port)])

def tool(program, *args):
    return subprocess.run([TOOLS + "python3", "-c", program, *map(str, args)],
                          stdout=subprocess.PIPE, text=True).stdout.strip()

def stop(server):
    server.send_signal(signal.SIGTERM)
    server.wait()

CONNECT = '''
import errno, socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as s:
        print(s.makefile().read().strip() or "closed")
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
'''
"#;

/// A session by name with the programs in its workspace.
fn setup(engine: &Engine, transport: &str, scenario: &str) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind("python").flag("--net", "names");
    let setup = setup.flag("--runner-transport", transport);
    let workspace = setup.setup().workspace();
    fs::write(workspace.join("server.py"), SERVER).unwrap();
    fs::write(workspace.join("agent.py"), format!("{AGENT}\n{scenario}")).unwrap();
    setup
}

/// `aifo-coder run` of the scenario in the agent container.
fn agent(setup: &ContainerSetup) -> Command {
    let mut run = setup.command("run");
    let program = "PATH=/usr/local/bin:/usr/bin:/bin exec /usr/bin/python3 agent.py";
    run.args(["-v", "--image", EVERY_TOOL, "--", "sh", "-c", program]);
    run
}

/// The mirror is up within the interval of the watch, and ends with the listener.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_tools_server_is_reached_from_the_agent() {
    let Some(engine) = Engine::of_run("a_tools_server_is_reached_from_the_agent") else { return };
    check_mirrors(&engine, "socket");
}

/// Mirrors of a tool that listens and ends, at each loopback address.
#[track_caller]
pub(crate) fn check_mirrors(engine: &Engine, transport: &str) {
    let setup = setup(
        engine,
        transport,
        r#"
for at, address in enumerate(["127.0.0.1", "0.0.0.0", "::1", "::"] * 3):
    port = 3000 + at
    server = serve(address, port)
    reached = until("hello", port)
    took = (reached - int(open(f"ready-{port}").read())) / 1e6
    print(f"reached {took:.1f}", flush=True)
    stop(server)
    ended = time.monotonic_ns()
    gone = (until("ECONNREFUSED", port) - ended) / 1e6
    print(f"gone {gone:.1f}", flush=True)
    # The port is free again.
    socket.create_server(("127.0.0.1", port)).close()
"#,
    );
    let outcome = Outcome::of(&mut agent(&setup));
    let text = outcome.exited(0).text();
    for event in ["reached", "gone"] {
        let times: Vec<f64> =
            text.lines().filter_map(|line| line.strip_prefix(event)?.trim().parse().ok()).collect();
        assert_eq!(times.len(), 12, "{outcome:?}");
        let longest = times.iter().copied().fold(0.0, f64::max);
        eprintln!("{event}: {times:?} ms, at most {longest} ms");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_taken_port_is_not_mirrored() {
    let Some(engine) = Engine::of_run("a_taken_port_is_not_mirrored") else { return };
    check_taken_port(&engine, "socket");
}

/// A port that the agent has is not mirrored; another one is.
#[track_caller]
pub(crate) fn check_taken_port(engine: &Engine, transport: &str) {
    let setup = setup(
        engine,
        transport,
        r#"
import threading
own = socket.create_server(("127.0.0.1", 3000))
def answer():
    while True:
        client, _ = own.accept()
        client.sendall(b"own\n")
        client.close()
threading.Thread(target=answer, daemon=True).start()
taken, free = serve("127.0.0.1", 3000), serve("127.0.0.1", 3001)
until("hello", 3001)
print(connect(3000), tool(CONNECT, 3000))
stop(taken)
stop(free)
"#,
    );
    let outcome = Outcome::of(&mut agent(&setup));
    assert_eq!(outcome.exited(0).text(), "own hello\n", "{outcome:?}");
    // The agent's listener may have been reported before the tool's.
    let lines = ["port 3000 of tools is", "port 3000 is"];
    let logged = lines.map(|line| format!("{line} not mirrored: the port is in use in agent"));
    let count = logged.iter().map(|line| outcome.stderr.matches(line).count());
    assert_eq!(count.sum::<usize>(), 1, "{outcome:?}");
}

/// The attack: a tool that looks for the unauthenticated server of an agent.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_reach_only_the_agents_ports_that_the_user_opens() {
    let Some(engine) = Engine::of_run("tools_reach_only_the_agents_ports_that_the_user_opens")
    else {
        return;
    };
    check_agent_ports(&engine, "socket");
}

/// The attack on a server of the agent, without and with `--agent-port`.
#[track_caller]
pub(crate) fn check_agent_ports(engine: &Engine, transport: &str) {
    let scenario = r#"
import threading
for port in [4096, 4097]:
    own = socket.create_server(("0.0.0.0", port))
    def answer(own):
        while True:
            client, _ = own.accept()
            client.sendall(b"the agent\n")
            client.close()
    threading.Thread(target=answer, args=(own,), daemon=True).start()
# Long enough for each watch to see them.
for second in range(7):
    tool("import time; time.sleep(1)")
print(tool(CONNECT, 4096), tool(CONNECT, 4097))
# Nothing of the agent is mirrored, also not at another address.
print(tool('''
import socket
def listens(port):
    for host in ["127.0.0.1", "::1", "127.64.0.1"]:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return True
        except OSError:
            pass
    return False
print([port for port in range(1024, 10000) if listens(port)])
'''))
"#;
    let closed = setup(engine, transport, scenario);
    let outcome = Outcome::of(&mut agent(&closed));
    assert_eq!(outcome.exited(0).text(), "ECONNREFUSED ECONNREFUSED\n[]\n", "{outcome:?}");
    let logged = "the agent listens on port 4096, which tools do not reach; to let them: \
                  --agent-port 4096";
    assert_eq!(outcome.stderr.matches(logged).count(), 1, "{outcome:?}");

    let open = setup(engine, transport, scenario).flag("--agent-port", "4096");
    let outcome = Outcome::of(&mut agent(&open));
    let text = outcome.exited(0).text();
    assert!(text.starts_with("the agent ECONNREFUSED\n"), "{outcome:?}");
    assert!(!outcome.stderr.contains("listens on port 4096"), "{outcome:?}");
    assert!(outcome.stderr.contains("--agent-port 4097"), "{outcome:?}");
}

/// A killed launcher leaves neither a connection through a mirror nor a container.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_killed_launcher_leaves_no_mirror() {
    let Some(engine) = Engine::of_run("a_killed_launcher_leaves_no_mirror") else { return };
    let setup = setup(
        &engine,
        "socket",
        r#"
server = serve("127.0.0.1", 3000)
until("hello", 3000)
print("reached", flush=True)
server.wait()
"#,
    );
    let run = Running::start(&mut agent(&setup));
    run.expect("reached");
    run.signal(Signal::SIGKILL);
    eventually("the containers end", || engine.all_of(setup.setup().scratch()).is_empty());
    run.finish();
}
