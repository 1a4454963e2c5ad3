//! An ACP agent that does what it is told, and can misbehave in every way that real ones do.
//!
//! A suite writes a [`Script`]: for each method what the agent does when it comes, step by step. The
//! program `aifo-test-agent` plays it on its stdio. It keeps a record of every line that was written
//! to it and of every process that it started, which the suite reads.
//!
//! ```no_run
//! use aifo_tests::{AcpAgent, Script, Step};
//!
//! let silent = Script::polite().on("session/prompt", []);
//! let floods = Script::polite().on(
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

/// What an agent does.
///
/// In values that it sends, the text `$id` stands for the id of the message that it acts on,
/// `$session` for that message's session, and `$answer:ID/POINTER` for a part of the answer that it
/// got to its own request ID.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Script {
    /// Before anything is read.
    pub start: Vec<Step>,
    /// When a message of this method comes: for the first one the first steps, and so on; the last
    /// ones from then on. What has none is ignored, or answered -32601 if it wants an answer.
    pub on: BTreeMap<String, Vec<Vec<Step>>>,
    /// When its stdin has ended. Then it exits with 0.
    pub end: Vec<Step>,
}

/// One thing that an agent does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers the message that it acts on.
    Answer(Value),
    /// Answers it with an error.
    Error(i64, String),
    /// Writes a value as a line.
    Send(Value),
    /// Writes bytes as they are, with no line end but their own.
    Raw(Vec<u8>),
    /// Writes the same byte so many times.
    Fill(u8, u64),
    /// Writes so many bytes to stderr, in lines.
    Stderr(u64),
    /// Does these so many times.
    Repeat {
        /// How many times.
        times: u64,
        /// What.
        steps: Vec<Step>,
    },
    /// Reads until this has come. What else comes is acted on afterwards.
    WaitFor(Awaited),
    /// Waits, without reading, until [`AcpAgent::release`] gives this word.
    WaitForWord(String),
    /// Does nothing any more, does not even read.
    Hang,
    /// Obeys no signal but KILL from now on.
    IgnoreSignals,
    /// Starts a process that has its stdout and stderr, obeys no signal but KILL, and stays.
    Spawn(Group),
    /// Exits with this code.
    Exit(u8),
    /// Ends by the signal of this number.
    Die(i32),
}

/// What an agent waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// A message of this method.
    Method(String),
    /// The answer to its own request of this id.
    Answer(Value),
    /// The end of its stdin.
    End,
}

/// The process group of what an agent starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The agent's.
    Agents,
    /// A session of its own.
    Own,
}

/// A script in a directory of its own, and what came of it.
#[derive(Debug)]
pub struct AcpAgent {
    dir: Scratch,
}

/// The session that a polite agent opens.
pub const SESSION: &str = "session-1";
/// In an agent's directory: what it does.
pub const SCRIPT: &str = "script.json";
/// In an agent's directory: the lines that were written to it.
pub const RECEIVED: &str = "received";
/// In an agent's directory: the pids of the agent and of what it started.
pub const PIDS: &str = "pids";

impl Script {
    /// An agent that behaves: it opens sessions, also earlier ones, and says `Hello World`.
    pub fn polite() -> Self {
        let agent = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
        Script::default()
            .on("initialize", [Step::Answer(agent)])
            .on("session/new", [Step::Answer(json!({"sessionId": SESSION}))])
            .on("session/load", [Step::Answer(json!({}))])
            .on("session/prompt", [Step::say("Hello "), Step::say("World"), Step::stop("end_turn")])
    }

    /// Does this, whenever the method comes, instead of what it did.
    #[must_use]
    pub fn on(mut self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.on.insert(method.to_owned(), vec![steps.into()]);
        self
    }

    /// Does this instead from the method's next time on.
    #[must_use]
    pub fn then(mut self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.on.entry(method.to_owned()).or_default().push(steps.into());
        self
    }

    /// Does this before it reads anything.
    #[must_use]
    pub fn at_start(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.start = steps.into();
        self
    }

    /// Does this when its stdin has ended.
    #[must_use]
    pub fn at_end(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.end = steps.into();
        self
    }
}

impl Step {
    /// Writes a line that is no JSON.
    pub fn line(text: &str) -> Self {
        Step::Raw(format!("{text}\n").into_bytes())
    }

    /// News of the session.
    pub fn update(body: Value) -> Self {
        let params = json!({"sessionId": "$session", "update": body});
        Step::Send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    /// A piece of the answer.
    pub fn say(text: &str) -> Self {
        Step::chunk("agent_message_chunk", text)
    }

    /// A piece of what it thinks.
    pub fn think(text: &str) -> Self {
        Step::chunk("agent_thought_chunk", text)
    }

    /// A chunk of any kind.
    pub fn chunk(kind: &str, text: &str) -> Self {
        let content = json!({"type": "text", "text": text});
        Step::update(json!({"sessionUpdate": kind, "content": content}))
    }

    /// A tool call is announced.
    pub fn tool_call(id: &str, title: &str, status: &str) -> Self {
        Step::update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title,
            "kind": "execute", "status": status}))
    }

    /// News of a tool call.
    pub fn tool_update(id: &str, status: &str) -> Self {
        let kind = "tool_call_update";
        Step::update(json!({"sessionUpdate": kind, "toolCallId": id, "status": status}))
    }

    /// A request of its own. Nothing waits for the answer.
    pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Self {
        let id = id.into();
        Step::Send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// A request of its own, and its answer is waited for.
    pub fn ask(id: impl Into<Value>, method: &str, params: Value) -> Self {
        let id = id.into();
        let steps =
            vec![Step::request(id.clone(), method, params), Step::WaitFor(Awaited::Answer(id))];
        Step::Repeat { times: 1, steps }
    }

    /// The parameters of a request for permission, with the usual options: `once`, `always`, `no`.
    pub fn permission(call: Value) -> Value {
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": id});
        let options = [
            option("once", "allow_once"),
            option("always", "allow_always"),
            option("no", "reject_once"),
        ];
        json!({"sessionId": "$session", "toolCall": call, "options": options})
    }

    /// Reads until a message of this method has come.
    pub fn wait_for(method: &str) -> Self {
        Step::WaitFor(Awaited::Method(method.to_owned()))
    }

    /// Reads until the answer to a request of its own has come.
    pub fn wait_answer(id: impl Into<Value>) -> Self {
        Step::WaitFor(Awaited::Answer(id.into()))
    }

    /// Ends the turn.
    pub fn stop(reason: &str) -> Self {
        Step::Answer(json!({"stopReason": reason}))
    }
}

impl AcpAgent {
    /// Writes a script into a directory.
    #[track_caller]
    pub fn new(script: &Script) -> Self {
        let agent = AcpAgent { dir: Scratch::new() };
        agent.plays(script);
        agent
    }

    /// Has it play another script, when it is started next.
    #[track_caller]
    pub fn plays(&self, script: &Script) {
        let text = serde_json::to_vec(script).expect("a script has a value");
        fs::write(self.dir().join(SCRIPT), text).expect("the directory is writable");
    }

    /// Program and argument that play it, as one line of words.
    pub fn command_line(&self) -> String {
        format!("{} {}", binaries().agent.display(), self.dir.path().display())
    }

    /// Program and argument that play it.
    pub fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&binaries().agent);
        command.arg(self.dir.path());
        command
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Gives the word that [`Step::WaitForWord`] waits for.
    #[track_caller]
    pub fn release(&self, word: &str) {
        fs::write(word_file(self.dir(), word), "").expect("the directory is writable");
    }

    /// Every message that was written to it so far.
    #[track_caller]
    pub fn received(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir().join(RECEIVED)).unwrap_or_default();
        // The last line may still be on its way.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?} is no message"))
        };
        whole.lines().map(parse).collect()
    }

    /// The messages of a method that were written to it so far.
    #[track_caller]
    pub fn received_of(&self, method: &str) -> Vec<Value> {
        let mut received = self.received();
        received.retain(|message| message["method"] == method);
        received
    }

    /// The answers to its request that were written to it so far.
    #[track_caller]
    pub fn answers(&self, id: impl Into<Value>) -> Vec<Value> {
        let id = id.into();
        let mut received = self.received();
        received.retain(|message| message.get("method").is_none() && message["id"] == id);
        received
    }

    /// The agent's own pid and those of what it started, in their order; of each run.
    pub fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir().join(PIDS)).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Those of them that run.
    pub fn alive(&self) -> Vec<i32> {
        let dir = self.dir().display().to_string();
        let is_it = |pid: &i32| is_alive(*pid) && argv(*pid).contains(&dir);
        self.pids().into_iter().filter(is_it).collect()
    }
}

impl Drop for AcpAgent {
    /// A test that fails leaves nothing behind.
    fn drop(&mut self) {
        self.alive().into_iter().for_each(|pid| send_signal(pid, Signal::SIGKILL));
    }
}

/// The file that says that a word was given.
pub fn word_file(dir: &Path, word: &str) -> PathBuf {
    dir.join(format!("word-{word}"))
}
