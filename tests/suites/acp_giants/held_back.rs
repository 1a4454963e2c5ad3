//! Backpressure: a peer that does not read blocks its writer, and gets every message when it reads
//! again.

use aifo_tests::acp_agent::SESSION;
use aifo_tests::{Awaited, Script, Signal, Step, eventually_within, send_signal};
use serde_json::json;

use crate::acp_giants::editor::Editor;
use crate::acp_giants::{PATIENCE, long_chunk, turn};

/// The lines of a flood and the length of each: twice as much as all buffers hold.
const LINES: u64 = 4096;
const LINE: u64 = 64 << 10;

/// More lines than the buffers of a peer that does not read hold.
const ENOUGH: u64 = 256;

/// A flood from the agent, then this step.
fn flood(lines: u64, then: Step) -> Script {
    let flood = Step::Repeat { times: lines, steps: long_chunk(LINE) };
    turn([flood, then])
}

/// A notification from the editor that the agent ignores.
fn noise() -> Vec<u8> {
    let around = json!({"jsonrpc": "2.0", "method": "_noise", "params": {"text": ""}}).to_string();
    let text = "x".repeat(LINE as usize - around.len() - 1);
    let noise = json!({"jsonrpc": "2.0", "method": "_noise", "params": {"text": text}});
    format!("{noise}\n").into_bytes()
}

/// Waits until a process is blocked on a pipe.
fn is_held(pid: i32) {
    let waits_for = format!("/proc/{pid}/wchan");
    eventually_within(PATIENCE, "the agent is held back", || {
        std::fs::read_to_string(&waits_for).unwrap_or_default().contains("pipe_write")
    });
}

#[test]
fn an_editor_that_does_not_read_holds_back_the_agent() {
    let mut editor = Editor::with(&flood(LINES, Step::say(".")));
    let id = editor.prompt();
    is_held(editor.agent.pids()[0]);
    let (answer, lines) = editor.answer(id);
    assert_eq!(lines, LINES + 1);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    editor.assert_small();
    assert_eq!(editor.close(), 0);
}

#[test]
fn an_editor_that_never_reads_again_and_leaves_is_not_waited_for() {
    let mut editor = Editor::with(&flood(ENOUGH, Step::WaitFor(Awaited::End)));
    editor.prompt();
    is_held(editor.agent.pids()[0]);
    // The editor keeps its reading end open.
    editor.close_stdin();
    assert_eq!(editor.wait_for_end(), 0);
}

#[test]
fn an_editor_that_is_gone_delays_no_one_else() {
    // The agent reads the cancellation only after its output was read.
    let mut editor = Editor::with(&flood(ENOUGH, Step::wait_for("session/cancel")));
    editor.prompt();
    is_held(editor.agent.pids()[0]);
    editor.close_stdin();
    editor.close_stdout();
    assert_eq!(editor.wait_for_end(), 0);
    assert_eq!(editor.agent.received_of("session/cancel").len(), 1);
}

#[test]
fn an_agent_that_does_not_read_holds_back_the_editor() {
    let go = || Step::WaitForWord("go".into());
    let last = Step::wait_for("_last");
    let mut editor = Editor::with(&turn([Step::say("."), go(), last]));
    let id = editor.prompt();
    editor.read_line();
    let before = editor.written();
    editor.send_repeated(noise(), LINES);
    let last = json!({"jsonrpc": "2.0", "method": "_last", "params": {"sessionId": SESSION}});
    editor.send(format!("{last}\n"));
    // More is written than the agent's pipe holds, and not everything before the agent reads again.
    eventually_within(PATIENCE, "some of it was taken", || editor.written() - before > 4 << 20);
    editor.assert_small();
    editor.agent.release("go");
    assert_eq!(editor.answer(id).0["result"]["stopReason"], "end_turn");
    editor.assert_small();
    assert_eq!(editor.agent.received_of("_noise").len() as u64, LINES);
    assert_eq!(editor.close(), 0);
}

#[test]
fn an_agent_that_never_reads_again_is_given_up() {
    let mut editor = Editor::with(&turn([Step::say("."), Step::Hang]));
    let id = editor.prompt();
    editor.read_line();
    editor.send_repeated(noise(), LINES);
    let (answer, _) = editor.answer(id);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    editor.assert_small();
    assert_eq!(editor.wait_for_end(), 1);
}

#[test]
fn an_agent_that_is_killed_while_the_editor_floods_has_ended() {
    let mut editor = Editor::with(&turn([Step::say("."), Step::Hang]));
    let id = editor.prompt();
    editor.read_line();
    let before = editor.written();
    editor.send_repeated(noise(), LINES);
    eventually_within(PATIENCE, "some of it was taken", || editor.written() - before > 4 << 20);
    send_signal(editor.agent.pids()[0], Signal::SIGKILL);
    let (answer, _) = editor.answer(id);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(editor.wait_for_end(), 1);
}
