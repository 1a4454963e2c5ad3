//! A scripted ACP agent that can misbehave in every way that real agents do.
//!
//! A suite writes a [`Script`]: the steps that the agent runs for each method. The program
//! `aifo-test-agent` runs it on its stdio and records every received line and every process it
//! starts, for the suite to read.
//!
//! ```no_run
//! use aifo_tests::{AcpAgent, Script, Step};
//!
//! let silent = Script::conforming().on("session/prompt", []);
//! let floods = Script::conforming().on(
//!     "session/prompt",
//!     [Step::Repeat { times: 100_000, steps: vec![Step::say("x")] }, Step::stop("end_turn")],
//! );
//! let agent = AcpAgent::new(&floods);
//! println!("aifo-coder prompt --agent-command '{}' hello", agent.command_line());
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Scratch, Signal, argv, binaries, is_alive, send_signal};

/// The behaviour of an agent.
///
/// In values that it sends, `$id` stands for the id of the message that it handles, `$session` for
/// that message's session, and `$answer:ID/POINTER` for a part of the response to its own request
/// ID.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Script {
    /// Run before anything is read.
    pub start: Vec<Step>,
    /// Run for messages of a method: the first steps for the first message, and so on; the last
    /// ones from then on. A method without steps is ignored, or answered with -32601 if it is a
    /// request.
    pub on: BTreeMap<String, Vec<Vec<Step>>>,
    /// Run at the end of stdin, before the agent exits with 0.
    pub end: Vec<Step>,
}

/// One action of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers the handled request.
    Answer(Value),
    /// Answers it with an error.
    Error(i64, String),
    /// Writes a value as a line.
    Send(Value),
    /// Writes raw bytes without adding a line end.
    Raw(Vec<u8>),
    /// Writes a byte this many times.
    Fill(u8, u64),
    /// Writes this many bytes to stderr, in lines.
    Stderr(u64),
    /// Repeats steps.
    Repeat {
        /// The number of repetitions.
        times: u64,
        /// The repeated steps.
        steps: Vec<Step>,
    },
    /// Reads until this has arrived. Other messages are handled afterwards.
    WaitFor(Awaited),
    /// Waits, without reading, until [`AcpAgent::release`] gives this word.
    WaitForWord(String),
    /// Stops for ever, also stops reading.
    Hang,
    /// Ignores all signals but KILL from now on.
    IgnoreSignals,
    /// Starts a process with the agent's stdout and stderr that ignores all signals but KILL and
    /// never exits.
    Spawn(Group),
    /// Exits with this code.
    Exit(u8),
    /// Kills itself with this signal.
    Die(i32),
}

/// A condition that an agent waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// A message of this method.
    Method(String),
    /// The response to its own request of this id.
    Answer(Value),
    /// The end of its stdin.
    End,
}

/// The process group of a started process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The agent's.
    Agents,
    /// Its own session.
    Own,
}

/// A script in its own directory, with the agent records.
#[derive(Debug)]
pub struct AcpAgent {
    dir: Scratch,
}

/// The session that a conforming agent opens.
pub const SESSION: &str = "session-1";
/// The script, in the agent directory.
pub const SCRIPT: &str = "script.json";
/// The received lines, in the agent directory.
pub const RECEIVED: &str = "received";
/// The pids of the agent and its processes, in the agent directory.
pub const PIDS: &str = "pids";

impl Script {
    /// An agent that follows the protocol: it opens and loads sessions and answers `Hello World`.
    pub fn conforming() -> Self {
        let agent = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
        Script::default()
            .on("initialize", [Step::Answer(agent)])
            .on("session/new", [Step::Answer(json!({"sessionId": SESSION}))])
            .on("session/load", [Step::Answer(json!({}))])
            .on("session/prompt", [Step::say("Hello "), Step::say("World"), Step::stop("end_turn")])
    }

    /// Replaces the steps of a method.
    #[must_use]
    pub fn on(mut self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.on.insert(method.to_owned(), vec![steps.into()]);
        self
    }

    /// Replaces the steps of a method from its next message on.
    #[must_use]
    pub fn then(mut self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.on.entry(method.to_owned()).or_default().push(steps.into());
        self
    }

    /// Runs steps before anything is read.
    #[must_use]
    pub fn at_start(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.start = steps.into();
        self
    }

    /// Runs steps at the end of stdin.
    #[must_use]
    pub fn at_end(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.end = steps.into();
        self
    }
}

impl Step {
    /// Writes a line that is not JSON.
    pub fn line(text: &str) -> Self {
        Step::Raw(format!("{text}\n").into_bytes())
    }

    /// Sends a session update.
    pub fn update(body: Value) -> Self {
        let params = json!({"sessionId": "$session", "update": body});
        Step::Send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    /// Sends a chunk of the answer.
    pub fn say(text: &str) -> Self {
        Step::chunk("agent_message_chunk", text)
    }

    /// Sends a chunk of its thoughts.
    pub fn think(text: &str) -> Self {
        Step::chunk("agent_thought_chunk", text)
    }

    /// Sends a chunk of any kind.
    pub fn chunk(kind: &str, text: &str) -> Self {
        let content = json!({"type": "text", "text": text});
        Step::update(json!({"sessionUpdate": kind, "content": content}))
    }

    /// Announces a tool call.
    pub fn tool_call(id: &str, title: &str, status: &str) -> Self {
        Step::update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title,
            "kind": "execute", "status": status}))
    }

    /// Updates a tool call.
    pub fn tool_update(id: &str, status: &str) -> Self {
        let kind = "tool_call_update";
        Step::update(json!({"sessionUpdate": kind, "toolCallId": id, "status": status}))
    }

    /// Sends a request and does not wait for the response.
    pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Self {
        let id = id.into();
        Step::Send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// Sends a request and waits for the response.
    pub fn ask(id: impl Into<Value>, method: &str, params: Value) -> Self {
        let id = id.into();
        let steps =
            vec![Step::request(id.clone(), method, params), Step::WaitFor(Awaited::Answer(id))];
        Step::Repeat { times: 1, steps }
    }

    /// The parameters of a permission request with the usual options: `once`, `always`, `no`.
    pub fn permission(call: Value) -> Value {
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": id});
        let options = [
            option("once", "allow_once"),
            option("always", "allow_always"),
            option("no", "reject_once"),
        ];
        json!({"sessionId": "$session", "toolCall": call, "options": options})
    }

    /// Reads until a message of this method has arrived.
    pub fn wait_for(method: &str) -> Self {
        Step::WaitFor(Awaited::Method(method.to_owned()))
    }

    /// Reads until the response to its own request has arrived.
    pub fn wait_answer(id: impl Into<Value>) -> Self {
        Step::WaitFor(Awaited::Answer(id.into()))
    }

    /// Ends the turn.
    pub fn stop(reason: &str) -> Self {
        Step::Answer(json!({"stopReason": reason}))
    }
}

impl AcpAgent {
    /// Writes a script into a new directory.
    #[track_caller]
    pub fn new(script: &Script) -> Self {
        let agent = AcpAgent { dir: Scratch::new() };
        agent.plays(script);
        agent
    }

    /// Replaces the script for the next start.
    #[track_caller]
    pub fn plays(&self, script: &Script) {
        let text = serde_json::to_vec(script).expect("a script has a value");
        fs::write(self.dir().join(SCRIPT), text).expect("the directory is writable");
    }

    /// The command line that runs the script.
    pub fn command_line(&self) -> String {
        format!("{} {}", binaries().agent.display(), self.dir.path().display())
    }

    /// The command that runs the script.
    pub fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&binaries().agent);
        command.arg(self.dir.path());
        command
    }

    /// The agent directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Gives the word that [`Step::WaitForWord`] waits for.
    #[track_caller]
    pub fn release(&self, word: &str) {
        fs::write(word_file(self.dir(), word), "").expect("the directory is writable");
    }

    /// The messages that the agent has received.
    #[track_caller]
    pub fn received(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir().join(RECEIVED)).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: invalid message {line:?}"))
        };
        whole.lines().map(parse).collect()
    }

    /// The received messages of a method.
    #[track_caller]
    pub fn received_of(&self, method: &str) -> Vec<Value> {
        let mut received = self.received();
        received.retain(|message| message["method"] == method);
        received
    }

    /// The received responses to its request.
    #[track_caller]
    pub fn answers(&self, id: impl Into<Value>) -> Vec<Value> {
        let id = id.into();
        let mut received = self.received();
        received.retain(|message| message.get("method").is_none() && message["id"] == id);
        received
    }

    /// The pids of the agent and its processes, in the order of their start, of all runs.
    pub fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir().join(PIDS)).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Those that are alive.
    pub fn alive(&self) -> Vec<i32> {
        let dir = self.dir().display().to_string();
        let is_it = |pid: &i32| is_alive(*pid) && argv(*pid).contains(&dir);
        self.pids().into_iter().filter(is_it).collect()
    }
}

impl Drop for AcpAgent {
    /// Kills all remaining processes, also when a test fails.
    fn drop(&mut self) {
        self.alive().into_iter().for_each(|pid| send_signal(pid, Signal::SIGKILL));
    }
}

/// The file that represents a word.
pub fn word_file(dir: &Path, word: &str) -> PathBuf {
    dir.join(format!("word-{word}"))
}
