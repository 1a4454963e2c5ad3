//! Kinds whose network rules differ have a stack of their own (`spec/network.md#stacks`).

use std::fs;

use aifo_tests::{
    CONNECT, ContainerSession, ContainerSetup, EVERY_TOOL, Engine, HelloServer, Outcome, Running,
    Signal, eventually,
};

use crate::container_network_shown::coder;

/// Serves `hello` at 127.0.0.1 until it is killed.
const SERVE: &str = "
import socket, sys
s = socket.create_server(('127.0.0.1', int(sys.argv[1])))
print('listening', flush=True)
while True:
    client, _ = s.accept()
    client.sendall(b'hello\\n')
    client.close()
";

/// A session of python, and of c-cpp, whose `make` runs the same programs.
pub(crate) fn setup(engine: &Engine) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind("python").kind("c-cpp").flag("--net", "names");
    let workspace = setup.setup().workspace();
    fs::write(workspace.join("connect.py"), CONNECT).unwrap();
    fs::write(workspace.join("serve.py"), SERVE).unwrap();
    let makefile = "connect serve:\n\t@/usr/bin/python3 $@.py $(TO)\n";
    fs::write(workspace.join("Makefile"), makefile).unwrap();
    setup
}

/// Takes the default rules away, so that all kinds have the same.
fn without_defaults(setup: ContainerSetup) -> ContainerSetup {
    let config = setup.setup().scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[net]\ndefaults = false\n").unwrap();
    setup
}

/// Connects as a tool of the kind, and returns what it prints.
#[track_caller]
pub(crate) fn connect(session: &ContainerSession, kind: &str, host: &str, port: u16) -> String {
    let to = format!("{host} {port}");
    let outcome = match kind {
        "python" => session.run("python3", &["connect.py", host, &port.to_string()]),
        _ => session.run("make", &["-s", "connect", &format!("TO={to}")]),
    };
    outcome.exited(0).text().trim_end().to_owned()
}

fn holders(session: &ContainerSession) -> Vec<String> {
    let mut holders = session.left();
    holders.retain(|name| name.starts_with("aifo-pod-"));
    holders.sort();
    holders
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_rule_for_a_kind_lets_no_other_out() {
    let Some(engine) = Engine::of_run("a_rule_for_a_kind_lets_no_other_out") else { return };
    let server = HelloServer::new();
    let rules = ["c-cpp=own.test", "python=other.test"].map(|name| server.rule(name));
    let setup = setup(&engine).flag("--allow-net", &rules[0]).flag("--allow-net", &rules[1]);
    let session = setup.start();
    assert!(holders(&session).is_empty(), "each sidecar holds its own stack");
    for kind in ["c-cpp", "python"] {
        let container = session.container(kind);
        assert_eq!(engine.inspect(&container, "{{.HostConfig.NetworkMode}}"), "none");
        assert_eq!(engine.inspect(&container, "{{.HostConfig.CapAdd}}"), "[]");
    }
    assert_eq!(connect(&session, "c-cpp", "own.test", server.port), "hello");
    assert_eq!(connect(&session, "python", "other.test", server.port), "hello");
    assert_eq!(connect(&session, "python", "own.test", server.port), "no such name");
    assert_eq!(connect(&session, "c-cpp", "other.test", server.port), "no such name");
    assert_eq!(server.accepted(), 2);
    // Neither by the address that stands for the name in the other stack.
    let resolve = "import socket; print(socket.gethostbyname('other.test'))";
    let address = session.python(resolve, &[]);
    let refused = connect(&session, "c-cpp", address.trim(), server.port);
    assert!(["closed", "ECONNRESET"].contains(&&*refused), "{refused}");
    assert_eq!(server.accepted(), 2);
    session.log_lines(&["python tools were refused own.test"]);
    session.log_lines(&["c-cpp tools were refused other.test"]);
    let listed = Outcome::of(&mut coder(&session, &["net"])).exited(0).text();
    let row = |stack: &str, name: &str| {
        listed.lines().any(|line| line.contains(stack) && line.contains(name))
    };
    assert!(row("tools:c-cpp", "own.test") && row("tools:python", "other.test"), "{listed}");
    session.finish();
}

/// Kinds with the same rules share a stack, and a rule that is added for one of them waits.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn kinds_with_the_same_rules_share_a_stack() {
    let Some(engine) = Engine::of_run("kinds_with_the_same_rules_share_a_stack") else { return };
    let server = HelloServer::new();
    let setup = without_defaults(setup(&engine)).flag("--allow-net", &server.rule("allowed.test"));
    let session = setup.start();
    let pod = format!("aifo-pod-{}", session.id());
    assert_eq!(holders(&session), std::slice::from_ref(&pod));
    assert_eq!(engine.inspect(&pod, "{{.HostConfig.NetworkMode}}"), "none");
    assert_eq!(engine.inspect(&pod, "{{.HostConfig.CapAdd}}"), "[]");
    let id = engine.inspect(&pod, "{{.Id}}");
    for kind in ["python", "c-cpp"] {
        let joined = engine.inspect(&session.container(kind), "{{.HostConfig.NetworkMode}}");
        assert_eq!(joined.trim(), format!("container:{}", id.trim()));
    }
    for kind in ["python", "c-cpp"] {
        assert_eq!(connect(&session, kind, "allowed.test", server.port), "hello");
    }
    let rule = server.rule("own.test");
    let added = Outcome::of(&mut coder(&session, &["net", "allow", "--kind", "python", &rule]));
    let text = "for tools of python, which share a network stack with those of c-cpp\nhint: ";
    assert!(added.exited(0).stderr.contains(text), "{added:?}");
    for kind in ["python", "c-cpp"] {
        assert_eq!(connect(&session, kind, "own.test", server.port), "no such name");
    }
    let added = Outcome::of(&mut coder(&session, &["net", "allow", &rule]));
    assert!(added.exited(0).stderr.contains("has the rules from now on"), "{added:?}");
    eventually("both kinds have the rule", || {
        let reaches = |kind| connect(&session, kind, "own.test", server.port) == "hello";
        reaches("python") && reaches("c-cpp")
    });
    engine.text(["kill", &pod]);
    let make = ["-s", "connect", &format!("TO=allowed.test {}", server.port)];
    eventually("the next call reaches the name by a new holder", || {
        session.run("make", &make).text() == "hello\n"
    });
    assert_eq!(connect(&session, "python", "allowed.test", server.port), "hello");
    session.finish();
}

/// A rule that is added for a kind with a stack of its own is in no other.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_rule_is_added_to_the_stack_of_a_kind() {
    let Some(engine) = Engine::of_run("a_rule_is_added_to_the_stack_of_a_kind") else { return };
    let server = HelloServer::new();
    let session = setup(&engine).flag("--allow-net", &server.rule("allowed.test")).start();
    let rule = server.rule("own.test");
    let added = ["net", "allow", "--kind", "c-cpp", &rule];
    Outcome::of(&mut coder(&session, &added)).exited(0);
    eventually("the kind has the rule", || {
        connect(&session, "c-cpp", "own.test", server.port) == "hello"
    });
    assert_eq!(connect(&session, "python", "own.test", server.port), "no such name");
    session.finish();
}

/// A server of one kind is reached from the others and from the agent; a lost stack is that of one kind.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_server_of_one_kind_is_reached_from_the_others() {
    let test = "a_server_of_one_kind_is_reached_from_the_others";
    let Some(engine) = Engine::of_run(test) else { return };
    let setup = setup(&engine);
    let script = "make -s serve TO=3000 & python3 serve.py 3001 &
        for port in 3000 3001; do
            until [ \"$(/usr/bin/python3 connect.py localhost $port)\" = hello ]; do sleep 0.05; done
            until [ \"$(python3 connect.py localhost $port)\" = hello ]; do :; done
            until [ \"$(make -s connect TO=\"localhost $port\")\" = hello ]; do :; done
            echo reached $port
        done
        kill %1 %2; wait";
    let mut run = setup.command("run");
    run.args(["--image", EVERY_TOOL, "--", "bash", "-c", script]);
    let outcome = Outcome::of(&mut run);
    assert!(outcome.text().ends_with("reached 3000\nreached 3001\n"), "{outcome:?}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_lost_stack_is_that_of_its_kinds() {
    let Some(engine) = Engine::of_run("a_lost_stack_is_that_of_its_kinds") else { return };
    let server = HelloServer::new();
    let session = setup(&engine).flag("--allow-net", &server.rule("allowed.test")).start();
    let mut shim = session.shim("make");
    let serving = Running::start(shim.args(["-s", "serve", "TO=3000"]));
    serving.expect("listening");
    engine.text(["kill", &session.container("python")]);
    let to = ["connect.py", "allowed.test", &server.port.to_string()];
    eventually("the next call reaches the name", || {
        session.run("python3", &to).text() == "hello\n"
    });
    eventually("the new stack has the mirror", || {
        session.run("python3", &["connect.py", "localhost", "3000"]).text() == "hello\n"
    });
    assert_eq!(connect(&session, "c-cpp", "allowed.test", server.port), "hello");
    serving.signal(Signal::SIGTERM);
    serving.finish();
    session.finish();
}
