//! A JSON-RPC server over stdio, as editors and agents use them: thousands of messages in both
//! directions, and an end by the server.

mod client;

use std::io::Write;
use std::process::Command;
use std::thread;

use aifo_tests::{Comparison, ExecMode, ResourceUsage, descendants, eventually};
use serde_json::{Value, json};

use client::{Client, Stream};

/// The framing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A `Content-Length` header each.
    ContentLength,
    /// One per line.
    Lines,
}

struct Server {
    tool: &'static str,
    file: &'static str,
    source: &'static str,
    framing: Framing,
}

const PYTHON: Server = Server {
    tool: "python3",
    file: "server.py",
    source: include_str!("stdio_server/server.py"),
    framing: Framing::ContentLength,
};

const NODE: Server = Server {
    tool: "node",
    file: "server.js",
    source: include_str!("stdio_server/server.js"),
    framing: Framing::Lines,
};

const MESSAGES: u64 = 10_000;

impl Server {
    #[track_caller]
    fn comparison(&self, test: &str) -> Option<Comparison> {
        Comparison::start(&format!("stdio_server::{test}"), &[self.tool])
    }

    fn command(&self, comparison: &Comparison, mode: ExecMode) -> Command {
        let file = comparison.dir().join(self.file);
        // Only once: a starting server may not have read it yet.
        if !file.exists() {
            std::fs::write(&file, self.source).expect("the scratch directory is writable");
        }
        comparison.tool(mode, self.tool, &[file.to_str().expect("the scratch path is text")])
    }

    #[track_caller]
    fn start(&self, comparison: &Comparison, mode: ExecMode, stream: Stream) -> Client {
        Client::start(&mut self.command(comparison, mode), self.framing, stream)
    }
}

/// Mostly short; some fill every pipe.
fn text(number: u64) -> String {
    let length = if number % 500 == 499 { 200_000 } else { 1 + number % 100 };
    format!("{number} ").chars().cycle().take(usize::try_from(length).unwrap()).collect()
}

fn request(number: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": "turn", "params": text(number)})
}

/// Receives the response to a request, and a notification before it if one is due.
#[track_caller]
fn check_answer(client: &Client, number: u64) {
    if number.is_multiple_of(7) {
        let notification =
            json!({"jsonrpc": "2.0", "method": "progress", "params": {"at": number}});
        assert_eq!(client.receive(), notification);
    }
    let turned: String = text(number).chars().rev().collect();
    let answer = client.receive();
    assert!(answer == json!({"jsonrpc": "2.0", "id": number, "result": turned}), "{number}");
}

/// Closes stdin: server and shim must end.
#[track_caller]
fn check_end(client: &mut Client) {
    client.close_input();
    let (status, rest, stderr) = client.finish();
    assert_eq!((status.code(), rest, stderr.as_str()), (Some(0), vec![], "end of input\n"));
}

/// One request after the other.
#[track_caller]
fn check_turns(test: &str, server: &Server, mode: ExecMode, stream: Stream) {
    let Some(comparison) = server.comparison(test) else { return };
    let mut client = server.start(&comparison, mode, stream);
    for number in 0..MESSAGES {
        client.send(&request(number));
        check_answer(&client, number);
    }
    check_end(&mut client);
}

/// All requests at once: neither direction blocks the other.
#[track_caller]
fn check_flood(comparison: &Comparison, server: &Server, mode: ExecMode, stream: Stream) {
    let mut client = server.start(comparison, mode, stream);
    let (mut input, framing) = (client.take_input(), server.framing);
    let writer = thread::spawn(move || {
        (0..MESSAGES).try_for_each(|number| input.write_all(&framing.encode(&request(number))))
    });
    for number in 0..MESSAGES {
        check_answer(&client, number);
    }
    writer.join().expect("the writer does not panic").expect("the server reads to the end");
    check_end(&mut client);
}

#[test]
fn python_takes_turns_over_passed_pipes() {
    let test = "python_takes_turns_over_passed_pipes";
    check_turns(test, &PYTHON, ExecMode::Passed, Stream::Pipes);
}

#[test]
fn python_takes_turns_over_relayed_pipes() {
    let test = "python_takes_turns_over_relayed_pipes";
    check_turns(test, &PYTHON, ExecMode::Relayed, Stream::Pipes);
}

#[test]
fn python_takes_turns_over_sockets() {
    check_turns("python_takes_turns_over_sockets", &PYTHON, ExecMode::Passed, Stream::Sockets);
}

#[test]
fn node_takes_turns_over_passed_pipes() {
    check_turns("node_takes_turns_over_passed_pipes", &NODE, ExecMode::Passed, Stream::Pipes);
}

#[test]
fn node_takes_turns_over_relayed_pipes() {
    check_turns("node_takes_turns_over_relayed_pipes", &NODE, ExecMode::Relayed, Stream::Pipes);
}

#[test]
fn node_takes_turns_over_sockets() {
    check_turns("node_takes_turns_over_sockets", &NODE, ExecMode::Passed, Stream::Sockets);
}

/// Also natively, to prove that it is possible.
#[test]
fn all_at_once_goes_both_ways() {
    for server in [&PYTHON, &NODE] {
        let Some(comparison) = server.comparison("all_at_once_goes_both_ways") else { continue };
        for mode in ExecMode::ALL {
            check_flood(&comparison, server, mode, Stream::Pipes);
        }
        check_flood(&comparison, server, ExecMode::Passed, Stream::Sockets);
    }
}

/// A server that ends before its client ends its shim.
#[test]
fn a_server_that_ends_is_the_end() {
    for server in [&PYTHON, &NODE] {
        let Some(comparison) = server.comparison("a_server_that_ends_is_the_end") else { continue };
        for (mode, stream) in ExecMode::ALL
            .into_iter()
            .flat_map(|mode| [Stream::Pipes, Stream::Sockets].map(|stream| (mode, stream)))
        {
            for (method, code, signal) in [("exit", Some(7), None), ("die", None, Some(9))] {
                let what = format!("{} {method} {mode:?} {stream:?}", server.tool);
                let mut client = server.start(&comparison, mode, stream);
                for number in 1..=100 {
                    client.send(&request(number));
                    check_answer(&client, number);
                }
                let id = MESSAGES;
                client.send(&json!({"id": id, "method": method, "params": 7}));
                let (status, rest, stderr) = client.finish();
                let by = std::os::unix::process::ExitStatusExt::signal(&status);
                assert_eq!((status.code(), by), (code, signal), "{what}");
                assert_eq!((rest, stderr.as_str()), (vec![], ""), "{what}");
            }
        }
    }
}

/// Several clients connect and disconnect; the session must not grow.
#[test]
fn nothing_is_left_of_a_conversation() {
    let Some(comparison) = PYTHON.comparison("nothing_is_left_of_a_conversation") else { return };
    let talk = |mode, stream| {
        let mut clients: Vec<Client> =
            (0..4).map(|_| PYTHON.start(&comparison, mode, stream)).collect();
        for number in 1..=20 {
            clients.iter_mut().for_each(|client| client.send(&request(number)));
            clients.iter().for_each(|client| check_answer(client, number));
        }
        for client in &clients {
            assert!(descendants(client.pid()).is_empty(), "a shim makes no process");
        }
        clients.iter_mut().for_each(check_end);
    };
    talk(ExecMode::Relayed, Stream::Pipes);
    let before = ResourceUsage::of(comparison.session());
    for (mode, stream) in [
        (ExecMode::Passed, Stream::Pipes),
        (ExecMode::Relayed, Stream::Pipes),
        (ExecMode::Passed, Stream::Sockets),
    ] {
        talk(mode, stream);
    }
    eventually("no fd and no process is gained", || {
        let now = ResourceUsage::of(comparison.session());
        now.processes <= before.processes
            && now.fds.iter().zip(&before.fds).all(|(now, before)| now <= before)
    });
}
