//! Either peer disconnects in the middle of a line.

use aifo_tests::{Step, eventually};

use crate::acp_giants::editor::Editor;
use crate::acp_giants::{chunk, turn};

/// Half of a line.
fn half() -> Vec<u8> {
    let line = chunk("hello").into_bytes();
    line[..line.len() / 2].to_vec()
}

#[test]
fn an_agent_that_dies_in_the_middle_of_a_line_has_ended() {
    for last in [Step::Die(9), Step::Exit(0)] {
        let mut editor = Editor::with(&turn([Step::say("."), Step::Raw(half()), last]));
        let id = editor.prompt();
        let (answer, others) = editor.answer(id);
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(others, 1, "half a line is none");
        assert_eq!(editor.wait_for_end(), 1);
    }
}

#[test]
fn an_agent_that_hangs_in_the_middle_of_a_line_ends_with_the_editor() {
    let mut editor = Editor::with(&turn([Step::say("."), Step::Raw(half()), Step::Hang]));
    editor.prompt();
    editor.read_line();
    assert_eq!(editor.close(), 0);
}

#[test]
fn an_editor_that_vanishes_in_the_middle_of_a_line_has_said_nothing() {
    let mut editor = Editor::with(&turn([Step::say("."), Step::wait_for("session/cancel")]));
    editor.prompt();
    editor.read_line();
    editor.send(half());
    editor.close_stdin();
    editor.close_stdout();
    assert_eq!(editor.wait_for_end(), 0);
    let received = editor.agent.received();
    let methods: Vec<_> =
        received.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt", "session/cancel"]);
}

#[test]
fn an_editor_that_says_no_more_may_still_listen() {
    let mut editor = Editor::with(&turn([Step::say("."), Step::wait_for("session/cancel")]));
    let id = editor.prompt();
    editor.read_line();
    editor.close_stdin();
    assert_eq!(editor.answer(id).0["result"]["stopReason"], "end_turn");
    assert_eq!(editor.wait_for_end(), 0);
    eventually("nothing of it is left", || editor.agent.alive().is_empty());
}
