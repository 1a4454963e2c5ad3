//! Very large messages and floods through `aifo-coder prompt` and `aifo-coder acp`: memory stays
//! small, nothing hangs, later messages are handled, and no agent process is left.

mod editor;
mod held_back;
mod passing;
mod prompt;
mod vanishing;

use std::time::Duration;

use aifo_tests::acp_agent::SESSION;
use aifo_tests::{Script, Step, status_kib_if_alive};
use serde_json::{Value, json};

/// The longest line that is accepted, without its end.
const FRAME: u64 = 32 << 20;
/// The longest line that is sent.
const FRAME_OUT: u64 = 16 << 20;
/// A line that is too long to hold.
const ENDLESS: u64 = 1_500_000_000;
/// A deadline for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// A conforming agent with this turn.
fn turn(steps: impl Into<Vec<Step>>) -> Script {
    let mut steps = steps.into();
    steps.push(Step::stop("end_turn"));
    Script::conforming().on("session/prompt", steps)
}

/// A session update as a line without its end.
fn update(body: &Value) -> String {
    let params = json!({"sessionId": SESSION, "update": body});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

/// A chunk of the answer as such a line.
fn chunk(text: &str) -> String {
    let content = json!({"type": "text", "text": text});
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}))
}

/// A chunk of the answer in a line of this many bytes without its end; its text is all `x`.
fn long_chunk(line: u64) -> Vec<Step> {
    let whole = chunk("x");
    let (before, after) = whole.split_once("\"x\"").expect("the text is not escaped");
    let (before, after) = (format!("{before}\""), format!("\"{after}"));
    let fill = line - (before.len() + after.len()) as u64;
    vec![Step::Raw(before.into()), Step::Fill(b'x', fill), Step::line(&after)]
}

/// A million updates less one: chunks of the answer alternate with tool call updates.
fn almost_a_million() -> Vec<Step> {
    let news = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "sleep"});
    let news = Step::line(&update(&news));
    let pair = vec![Step::line(&chunk("x")), news.clone()];
    vec![news, Step::Repeat { times: 499_999, steps: pair }]
}

/// The peak memory of a process so far, without the pages of its program, in KiB.
#[derive(Clone, Copy, Debug, Default)]
struct PeakMemory {
    all: u64,
    /// The kernel drops pages of files when it needs memory.
    files: u64,
}

impl PeakMemory {
    /// Reads the current values. Without effect if the process has ended.
    fn sample(&mut self, pid: i32) {
        let value = |name| status_kib_if_alive(pid, name).unwrap_or_default();
        self.all = self.all.max(value("VmHWM"));
        self.files = self.files.max(value("RssFile"));
    }

    #[track_caller]
    fn assert_small(self) {
        let peak = self.all.saturating_sub(self.files);
        assert!(self.all > 0 && peak < 128 << 10, "{self:?}: {peak} KiB");
    }
}
