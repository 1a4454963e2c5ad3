//! Tests of the scripted ACP agent that the ACP suites use.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use aifo_tests::{AcpAgent, Group, Script, Signal, Step, eventually, is_alive, send_signal};
use serde_json::{Value, json};

/// A running agent, and a client that writes and reads lines.
struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    fn with(agent: &AcpAgent) -> Self {
        let mut command = agent.command();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Session { child, stdin, stdout }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_ref().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({"id": id, "method": method, "params": params}));
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn end(mut self) -> std::process::ExitStatus {
        self.stdin = None;
        self.child.wait().unwrap()
    }
}

#[test]
fn a_conforming_agent_completes_a_turn() {
    let agent = AcpAgent::new(&Script::conforming());
    let mut session = Session::with(&agent);
    session.request(1, "initialize", json!({}));
    assert_eq!(session.read()["result"]["protocolVersion"], 1);
    session.request(2, "session/prompt", json!({"sessionId": "s"}));
    let update = session.read();
    assert_eq!(update["params"]["sessionId"], "s");
    assert_eq!(update["params"]["update"]["content"]["text"], "Hello ");
    session.read();
    assert_eq!(
        session.read(),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})
    );
    session.request(3, "unheard/of", json!({}));
    assert_eq!(session.read()["error"]["code"], -32601);
    session.send(&json!({"method": "session/cancel", "params": {}}));
    assert!(session.end().success());
    let methods: Vec<Value> = agent.received().iter().map(|m| m["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "session/prompt", "unheard/of", "session/cancel"]);
    assert_eq!(agent.received_of("session/cancel").len(), 1);
}

#[test]
fn it_asks_and_uses_what_it_was_answered() {
    let terminal = json!({"terminalId": "$answer:t/result/terminalId", "sessionId": "$session"});
    let script = Script::default().on(
        "session/prompt",
        [
            Step::ask("t", "terminal/create", json!({"command": "ls"})),
            Step::request(7, "terminal/release", terminal),
            Step::stop("end_turn"),
        ],
    );
    let agent = AcpAgent::new(&script);
    let mut session = Session::with(&agent);
    session.request(1, "session/prompt", json!({"sessionId": "s"}));
    assert_eq!(session.read()["method"], "terminal/create");
    // Messages that arrive meanwhile are handled afterwards.
    session.request(2, "unheard/of", json!({}));
    session.send(&json!({"id": "t", "result": {"terminalId": "term-1"}}));
    assert_eq!(session.read()["params"], json!({"terminalId": "term-1", "sessionId": "s"}));
    assert_eq!(session.read()["id"], 1);
    assert_eq!(session.read()["id"], 2);
    assert!(session.end().success());
    assert_eq!(agent.answers("t").len(), 1);
    assert_eq!(agent.answers(7), Vec::<Value>::new());
}

#[test]
fn it_misbehaves_as_its_script_says() {
    let script = Script::default()
        .at_start([Step::line("Loading..."), Step::Raw(b"\xff\n".to_vec()), Step::Stderr(3000)])
        .on("a", [Step::Repeat { times: 3, steps: vec![Step::Fill(b'x', 5), Step::line("")] }])
        .then("a", [Step::WaitForWord("go".into()), Step::line("gone"), Step::Exit(9)]);
    let agent = AcpAgent::new(&script);
    let mut command = agent.command();
    command.stderr(Stdio::null());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", json!({"method": "a"})).unwrap();
    writeln!(stdin, "{}", json!({"method": "a"})).unwrap();
    eventually("both have come", || agent.received().len() == 2);
    agent.release("go");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert_eq!(output.stdout, b"Loading...\n\xff\nxxxxx\nxxxxx\nxxxxx\ngone\n");
}

#[test]
fn its_children_stay_until_they_are_killed() {
    let script = Script::default().on(
        "a",
        [Step::Spawn(Group::Agents), Step::Spawn(Group::Own), Step::IgnoreSignals, Step::Hang],
    );
    let agent = AcpAgent::new(&script);
    let mut session = Session::with(&agent);
    session.send(&json!({"method": "a"}));
    eventually("both are there", || agent.pids().len() == 3);
    let pids = agent.pids();
    send_signal(pids[1], Signal::SIGTERM);
    eventually("it has the signal", || {
        aifo_tests::status_field(pids[1], "ShdPnd").ends_with("4000")
            || aifo_tests::status_field(pids[1], "SigPnd").ends_with("4000")
    });
    assert_eq!(agent.alive(), pids);
    session.child.kill().unwrap();
    session.child.wait().unwrap();
    assert_eq!(agent.alive(), pids[1..]);
    drop(agent);
    eventually("a test leaves nothing", || !pids.iter().any(|pid| is_alive(*pid)));
}
