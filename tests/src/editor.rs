//! A scripted ACP editor.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::running::Collector;
use crate::{Outcome, Signal, eventually_within, send_signal};

/// An editor and the agent that it started. Drop kills the agent.
#[derive(Debug)]
pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Arc<ReceivedMessages>,
    stderr: Collector,
    /// The index of the next unread message.
    next: usize,
    last_id: i64,
}

/// The received messages; lines that are not JSON are strings.
#[derive(Debug, Default)]
struct ReceivedMessages {
    messages: Mutex<(Vec<Value>, Stream)>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stream {
    #[default]
    Open,
    Ended,
}

impl Editor {
    /// The timeout of each step: agents start in up to half a minute, and a sidecar may have to
    /// start.
    pub const PATIENCE: Duration = Duration::from_secs(240);

    /// Starts an agent.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = Collector::of(child.stderr.take().expect("stderr is a pipe"));
        let stdin = child.stdin.take();
        let received = Arc::new(ReceivedMessages::default());
        let shared = Arc::clone(&received);
        thread::spawn(move || shared.read(BufReader::new(stdout)));
        Editor { child, stdin, received, stderr, next: 0, last_id: 0 }
    }

    /// The agent's process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends a request and returns its id.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    #[track_caller]
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Responds to the agent request.
    #[track_caller]
    pub fn respond(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Waits for the next message that matches; skips others.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let mut messages = self.received.messages.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let new = messages.0.iter().enumerate().skip(self.next);
            if let Some((at, message)) = new.into_iter().find(|(_, message)| is_it(message)) {
                self.next = at + 1;
                return message.clone();
            }
            let left = Self::PATIENCE.checked_sub(start.elapsed());
            let Some(left) = left.filter(|_| messages.1 == Stream::Open) else {
                let details = json!(messages.0.get(self.next..)).to_string();
                drop(messages);
                panic!("never received: {what}\nbut {details}\nstderr: {}", self.stderr.so_far());
            };
            let woken = self.received.changed.wait_timeout(messages, left);
            messages = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the response to a request: its result, or its error.
    #[track_caller]
    pub fn response(&mut self, id: i64) -> Result<Value, Value> {
        let response = self.wait_for(&format!("the answer to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        });
        match response.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(response["result"].clone()),
        }
    }

    /// All received messages.
    pub fn received(&self) -> Vec<Value> {
        self.received.messages.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// The end of the agent's stderr.
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Closes the agent's stdin.
    pub fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes the agent's stdin and waits for its end.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        self.close_stdin();
        self.wait_for_end()
    }

    /// Sends a signal to the agent and waits for its end.
    #[track_caller]
    pub fn end_by(mut self, signal: Signal) -> Outcome {
        send_signal(self.pid(), signal);
        self.wait_for_end()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> Outcome {
        let mut status = None;
        eventually_within(Self::PATIENCE, "the agent has ended", || {
            status = self.child.try_wait().expect("try_wait works on a child");
            status.is_some()
        });
        let status = status.expect("the loop ends with a status");
        Outcome { status, stdout: Vec::new(), stderr: self.stderr.so_far() }
    }

    #[track_caller]
    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        let sent = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        sent.unwrap_or_else(|e| panic!("cannot send {message}: {e}: {}", self.stderr.so_far()));
    }
}

impl ReceivedMessages {
    fn read(&self, lines: impl BufRead) {
        for line in lines.lines().map_while(Result::ok) {
            // Other lines are kept, so that tests notice them.
            let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
            self.note(|received| received.0.push(message));
        }
        self.note(|received| received.1 = Stream::Ended);
    }

    fn note(&self, change: impl FnOnce(&mut (Vec<Value>, Stream))) {
        change(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // No-ops after the end: std remembers that the child is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
