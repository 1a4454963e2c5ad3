//! An editor with lines of any length.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use aifo_tests::acp_agent::SESSION;
use aifo_tests::{AcpAgent, Script, SessionSetup, eventually_within};
use serde_json::{Value, json};

use crate::acp_giants::{PATIENCE, PeakMemory};

/// An editor with an open session through `aifo-coder acp`. One thread writes its output; another
/// reads, with little read-ahead.
pub(crate) struct Editor {
    pub(crate) agent: AcpAgent,
    pub(crate) child: Child,
    setup: SessionSetup,
    to: Option<Sender<Output>>,
    lines: Option<Receiver<Vec<u8>>>,
    /// The number of bytes written.
    written: Arc<AtomicU64>,
    asked: u64,
}

/// The editor output.
enum Output {
    Bytes(Vec<u8>),
    /// These bytes this many times.
    Again(Vec<u8>, u64),
}

impl Editor {
    /// Starts an agent and opens a session.
    #[track_caller]
    pub(crate) fn with(script: &Script) -> Self {
        let agent = AcpAgent::new(script);
        let setup = SessionSetup::new();
        let mut coder = setup.coder();
        coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
        let mut child = coder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, queue) = channel();
        let (give, lines) = sync_channel(1);
        let written = Arc::new(AtomicU64::new(0));
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let counted = Arc::clone(&written);
        thread::spawn(move || write(stdin, &queue, &counted));
        thread::spawn(move || read(BufReader::new(stdout), &give));
        let (to, lines) = (Some(to), Some(lines));
        let mut editor = Editor { agent, child, setup, to, lines, written, asked: 0 };
        assert!(editor.request("initialize", json!({"protocolVersion": 1}))["result"].is_object());
        let cwd = editor.setup.workspace();
        let opened = editor.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(opened["result"]["sessionId"], SESSION);
        editor
    }

    /// Requests a turn; returns the request id.
    pub(crate) fn prompt(&mut self) -> u64 {
        let prompt = json!([{"type": "text", "text": "hello"}]);
        self.send_request("session/prompt", json!({"sessionId": SESSION, "prompt": prompt}))
    }

    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let (id, line) = (self.asked, "\n");
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(format!("{request}{line}"));
        id
    }

    /// Sends raw bytes.
    pub(crate) fn send(&self, bytes: impl Into<Vec<u8>>) {
        self.queue(Output::Bytes(bytes.into()));
    }

    pub(crate) fn send_repeated(&self, bytes: impl Into<Vec<u8>>, times: u64) {
        self.queue(Output::Again(bytes.into(), times));
    }

    fn queue(&self, output: Output) {
        self.to.as_ref().expect("it still speaks").send(output).expect("its writer waits for that");
    }

    /// The number of bytes that were written to the pipe.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn read_line(&self) -> Vec<u8> {
        let line = self.lines.as_ref().expect("it still listens").recv_timeout(PATIENCE);
        line.unwrap_or_else(|e| panic!("there is no line: {e}"))
    }

    /// The response to a request, and the number of lines before it.
    #[track_caller]
    pub(crate) fn answer(&self, id: u64) -> (Value, u64) {
        let mut others = 0;
        loop {
            let line = self.read_line();
            let text = std::str::from_utf8(&line).expect("it is text");
            // Most of many lines are updates.
            if !text.contains("\"method\":") {
                let answer: Value = serde_json::from_str(text).expect("it is JSON");
                if answer["id"] == id {
                    return (answer, others);
                }
            }
            others += 1;
        }
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.answer(id).0
    }

    /// Checks the peak memory of `aifo-coder`.
    #[track_caller]
    pub(crate) fn assert_small(&self) {
        let mut peak = PeakMemory::default();
        peak.sample(self.pid());
        peak.assert_small();
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Closes the child's stdin.
    pub(crate) fn close_stdin(&mut self) {
        self.to = None;
    }

    /// Closes the child's stdout; writing to it fails.
    pub(crate) fn close_stdout(&mut self) {
        self.lines = None;
    }

    /// Closes both; returns the exit code. Checks that no agent process is left.
    #[track_caller]
    pub(crate) fn close(mut self) -> i32 {
        self.close_stdin();
        self.close_stdout();
        self.wait_for_end()
    }

    /// Waits for the child's end.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) -> i32 {
        let mut status = None;
        eventually_within(PATIENCE, "it has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(self.agent.alive(), [0; 0]);
        status.and_then(|status| status.code()).expect("no signal ended it")
    }
}

impl Drop for Editor {
    /// Also when a test fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(mut stdin: ChildStdin, queue: &Receiver<Output>, written: &AtomicU64) {
    let mut write = |bytes: &[u8]| {
        written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        stdin.write_all(bytes)
    };
    for output in queue {
        let all = match output {
            Output::Bytes(bytes) => write(&bytes),
            Output::Again(bytes, times) => (0..times).try_for_each(|_| write(&bytes)),
        };
        if all.is_err() {
            return;
        }
    }
}

fn read(mut stdout: impl BufRead, give: &SyncSender<Vec<u8>>) {
    loop {
        let mut line = Vec::new();
        let is_line = stdout.read_until(b'\n', &mut line).is_ok_and(|count| count > 0);
        if !is_line || give.send(line).is_err() {
            return;
        }
    }
}
