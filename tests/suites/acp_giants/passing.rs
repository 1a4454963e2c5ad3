//! `aifo-coder acp`: an oversize message in either direction affects no other message.
//!
//! Proves `spec/acp-relay.md#back-pressure`.

use aifo_tests::Step;
use aifo_tests::acp_agent::SESSION;
use serde_json::json;

use crate::acp_giants::editor::Editor;
use crate::acp_giants::{ENDLESS, FRAME, FRAME_OUT, almost_a_million, long_chunk, turn};

/// Runs a turn in which the agent sends this and then a dot; returns the number of lines that
/// arrive.
#[track_caller]
fn check(steps: Vec<Step>) -> u64 {
    let mut editor = Editor::with(&turn([steps, vec![Step::say(".")]].concat()));
    let id = editor.prompt();
    let (answer, others) = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    editor.assert_small();
    assert_eq!(editor.close(), 0);
    others
}

#[test]
fn a_line_as_long_as_is_written_passes() {
    let mut editor = Editor::with(&turn(long_chunk(FRAME_OUT)));
    let id = editor.prompt();
    let line = editor.read_line();
    assert_eq!(line.len() as u64, FRAME_OUT + 1);
    assert_eq!(editor.answer(id).1, 0);
    editor.assert_small();
    assert_eq!(editor.close(), 0);
}

#[test]
fn a_line_as_long_as_is_read_is_too_long_to_pass() {
    assert_eq!(check(long_chunk(FRAME)), 1);
}

#[test]
fn a_line_of_gigabytes_is_skipped() {
    assert_eq!(check(vec![Step::Fill(b'x', ENDLESS), Step::line("")]), 1);
}

#[test]
fn a_million_updates_pass() {
    assert_eq!(check(almost_a_million()), 1_000_000);
}

#[test]
fn a_flood_on_stderr_is_drained() {
    assert_eq!(check(vec![Step::Stderr(64 << 20)]), 1);
}

/// Sends this and a request from the editor; returns the error code for the former.
#[track_caller]
fn check_editor(says: impl FnOnce(&Editor)) -> i64 {
    let mut editor = Editor::with(&turn([]));
    says(&editor);
    let (answer, _) = editor.answer(GIANT);
    let id = editor.prompt();
    assert_eq!(editor.answer(id).0["result"]["stopReason"], "end_turn");
    editor.assert_small();
    assert_eq!(editor.agent.received_of("session/prompt").len(), 1);
    assert_eq!(editor.close(), 0);
    answer["error"]["code"].as_i64().unwrap_or_default()
}

/// The id, beginning and end of an oversize message.
const GIANT: u64 = 1 << 32;
fn around(text: &str) -> (String, String) {
    let prompt = json!([{"type": "text", "text": text}]);
    let params = json!({"sessionId": SESSION, "prompt": prompt});
    let method = "session/prompt";
    let line = json!({"jsonrpc": "2.0", "id": GIANT, "method": method, "params": params});
    let line = line.to_string();
    let (before, after) = line.split_once(text).expect("the text is not escaped");
    (before.to_owned(), format!("{after}\n"))
}

#[test]
fn an_editors_line_as_long_as_is_read_is_too_long_to_pass() {
    let code = check_editor(|editor| {
        let (before, after) = around("hello");
        let fill = FRAME as usize - before.len() - (after.len() - 1);
        editor.send([before.into_bytes(), vec![b'x'; fill], after.into_bytes()].concat());
    });
    assert_eq!(code, -32600);
}

#[test]
fn an_editors_line_of_gigabytes_is_skipped() {
    let code = check_editor(|editor| {
        let (before, after) = around("hello");
        editor.send(before);
        editor.send_repeated(vec![b'x'; 1 << 20], ENDLESS >> 20);
        editor.send(after);
    });
    assert_eq!(code, -32600);
}
