//! An agent's text cannot control a terminal (`spec/cli.md#untrusted-text`).

use aifo_tests::{Outcome, Step, Terminal};
use serde_json::json;

use crate::acp_agent::{PromptTest, turn};

/// A clipboard, a window title, directional marks, and hidden text, each split across chunks.
const HOSTILE: [&str; 7] = [
    "a\u{1b}",
    "]52;c;aGk=\u{7}",
    "\u{9b}",
    "2Jb\u{202e}c\u{2066}",
    "d\u{200b}\u{feff}e\n\tf\r",
    "\u{e0041}\u{2028}",
    "g",
];
const ESCAPED: &str = "a\\u{1b}]52;c;aGk=\\u{7}\\u{9b}2Jb\\u{202e}c\\u{2066}\
                       d\\u{200b}\\u{feff}e\n\tf\\r\\u{e0041}\\u{2028}g\n";

/// An agent that sends it, and uses it in a permission request and a tool call.
fn test() -> PromptTest {
    let title = "rm \u{202e}x\u{1b}]0;y\u{7}\u{9b}";
    let call = json!({"toolCallId": "t", "title": title, "kind": "execute"});
    let asks = Step::ask(1, "session/request_permission", Step::permission(call));
    let says = HOSTILE.iter().map(|piece| Step::say(piece));
    let ends = [asks, Step::tool_update("t", "failed"), Step::stop("end_turn")];
    PromptTest::with(&turn(says.chain(ends).collect::<Vec<_>>()))
}

#[test]
fn a_terminal_shows_what_it_would_obey() {
    let (test, terminal) = (test(), Terminal::sized(200, 50));
    let prompt = test.prompt_as("text", &[]);
    assert_eq!(terminal.start(&prompt).finish(), Ok(0));
    let shown = terminal.shown().replace("\r\n", "\n");
    assert!(shown.contains(ESCAPED), "{shown:?}");
    assert!(shown.contains(r"'rm \u{202e}x\u{1b}]0;y\u{7}\u{9b}'"), "{shown:?}");
    let ours = shown.replace("\r\x1b[K", "").replace(['\n', '\t'], "");
    assert!(!ours.contains(|char: char| char.is_control() || !char.is_ascii()), "{shown:?}");
}

#[test]
fn a_pipe_has_the_agents_own_bytes() {
    let test = test();
    let outcome = Outcome::of(&mut test.prompt_as("text", &[]));
    assert_eq!(outcome.exited(0).text(), HOSTILE.concat() + "\n");
    assert!(outcome.stderr.contains(r"'rm \u{202e}x\u{1b}]0;y\u{7}\u{9b}'"), "{}", outcome.stderr);
}

#[test]
fn json_is_the_same_value_and_is_safe_to_show() {
    let test = test();
    let result = test.ask(&[]);
    result.answered(&HOSTILE.concat());
    let text = result.outcome.text();
    let hidden = |char: char| (char.is_control() && char != '\n') || !char.is_ascii();
    assert!(!text.contains(hidden), "{text:?}");
    assert!(text.contains(r"\u202e"), "{text}");
}
