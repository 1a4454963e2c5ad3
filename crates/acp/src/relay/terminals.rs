//! Shows terminals that the caller serves to an editor that did not create them.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::message::Id;

/// An agent's terminals that the caller serves (`spec/acp-relay.md#terminals`).
#[derive(Debug, Default)]
pub(super) struct Terminals {
    /// Pending requests.
    requests: BTreeMap<String, TerminalRequest>,
    known: VecDeque<Terminal>,
}

#[derive(Debug)]
enum TerminalRequest {
    Create { session: String, line: String },
    Output { terminal: String },
}

#[derive(Debug)]
struct Terminal {
    id: String,
    session: String,
    /// The command line, for display.
    line: String,
    /// The end of the output that the agent last requested.
    output: String,
    /// The exit status, for display.
    exit: String,
    /// The calls whose content has it.
    calls: Vec<String>,
}

/// A tool call whose terminal has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallRef {
    pub(super) session: String,
    pub(super) call: String,
}

/// The most terminals tracked; the oldest is dropped.
const KNOWN: usize = 64;
/// The most output shown, in bytes.
const TAIL: usize = 16 * 1024;
/// The most calls per terminal.
const CALLS: usize = 8;

impl Terminals {
    /// Records a request that the caller serves.
    pub(super) fn record_request(&mut self, id: &Id, method: &str, params: &Value) {
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let ask = match method {
            "terminal/create" => {
                let args = params.get("args").and_then(Value::as_array).into_iter().flatten();
                let words = std::iter::once(text("command")).chain(args.filter_map(Value::as_str));
                let line = tail(&words.collect::<Vec<_>>().join(" "), TAIL).to_owned();
                TerminalRequest::Create { session: text("sessionId").to_owned(), line }
            }
            "terminal/output" => {
                TerminalRequest::Output { terminal: text("terminalId").to_owned() }
            }
            _ => return,
        };
        self.requests.insert(key(id), ask);
    }

    /// Records its answer, and returns the calls to send again.
    pub(super) fn record_response(&mut self, id: &Id, result: Option<&Value>) -> Vec<CallRef> {
        let (Some(ask), Some(result)) = (self.requests.remove(&key(id)), result) else {
            return Vec::new();
        };
        match ask {
            TerminalRequest::Create { session, line } => {
                let Some(id) = result.get("terminalId").and_then(Value::as_str) else {
                    return Vec::new();
                };
                if self.known.len() >= KNOWN {
                    self.known.pop_front();
                }
                let (id, output, exit, calls) =
                    (id.to_owned(), String::new(), String::new(), Vec::new());
                self.known.push_back(Terminal { id, session, line, output, exit, calls });
                Vec::new()
            }
            TerminalRequest::Output { terminal } => {
                let known = self.known.iter_mut().find(|known| known.id == terminal);
                known.map(|known| known.take(result)).unwrap_or_default()
            }
        }
    }

    /// Replaces terminals in a call's content with their text.
    pub(super) fn replace_terminals(&mut self, call: &mut Value) {
        if self.known.is_empty() {
            return;
        }
        let id = call.get("toolCallId").and_then(Value::as_str).map(str::to_owned);
        let content = call.get_mut("content").and_then(Value::as_array_mut);
        for block in content.into_iter().flatten() {
            let Some(known) = self.terminal_of(block) else { continue };
            if let Some(id) = id.as_ref().filter(|id| !known.calls.contains(id))
                && known.calls.len() < CALLS
            {
                known.calls.push(id.clone());
            }
            *block = known.block();
        }
    }

    fn terminal_of(&mut self, block: &Value) -> Option<&mut Terminal> {
        let id = block.get("terminalId").and_then(Value::as_str)?;
        let is_terminal = block.get("type").and_then(Value::as_str) == Some("terminal");
        self.known.iter_mut().find(|known| is_terminal && known.id == id)
    }
}

impl Terminal {
    /// Applies the answer to `terminal/output`.
    fn take(&mut self, result: &Value) -> Vec<CallRef> {
        let output = result.get("output").and_then(Value::as_str).unwrap_or_default();
        let output = tail(output, TAIL);
        let exit = exit_in_words(result.get("exitStatus").unwrap_or(&Value::Null));
        if output == self.output && exit == self.exit {
            return Vec::new();
        }
        (self.output, self.exit) = (output.to_owned(), exit);
        let shown = |call: &String| CallRef { session: self.session.clone(), call: call.clone() };
        self.calls.iter().map(shown).collect()
    }

    /// Returns a content block with the command and its output.
    fn block(&self) -> Value {
        let mut text = format!("$ {}\n{}", self.line, self.output);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        // Longer than any fence in the output.
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat(longest.max(2).saturating_add(1));
        let text = format!("{fence}\n{text}{fence}{}", self.exit);
        json!({"type": "content", "content": {"type": "text", "text": text}})
    }
}

/// The JSON of the id, as numbers and strings must differ.
fn key(id: &Id) -> String {
    id.to_value().to_string()
}

fn exit_in_words(status: &Value) -> String {
    match (status.get("exitCode"), status.get("signal")) {
        (Some(Value::Number(code)), _) => format!("\nexit code {code}"),
        (_, Some(Value::String(signal))) => format!("\nended by {signal}"),
        _ => String::new(),
    }
}

/// Returns the last whole characters within `most` bytes.
fn tail(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: i64) -> Id {
        Id::parse(number.into()).unwrap()
    }

    fn made() -> Terminals {
        let mut terminals = Terminals::default();
        let params = json!({"sessionId": "s", "command": "cargo", "args": ["test", "-q"]});
        terminals.record_request(&id(1), "terminal/create", &params);
        assert_eq!(terminals.record_response(&id(1), Some(&json!({"terminalId": "t"}))), []);
        terminals
    }

    fn shown(terminals: &mut Terminals) -> Value {
        let mut call = json!({"toolCallId": "c", "content": [
            {"type": "terminal", "terminalId": "t"},
            {"type": "terminal", "terminalId": "other"},
            {"type": "diff", "path": "/a"},
        ]});
        terminals.replace_terminals(&mut call);
        assert_eq!(call["content"][1], json!({"type": "terminal", "terminalId": "other"}));
        assert_eq!(call["content"][2], json!({"type": "diff", "path": "/a"}));
        call["content"][0]["content"]["text"].clone()
    }

    #[test]
    fn a_terminal_is_shown_as_command_and_output() {
        let mut terminals = made();
        assert_eq!(shown(&mut terminals), "```\n$ cargo test -q\n```");
        terminals.record_request(&id(2), "terminal/output", &json!({"terminalId": "t"}));
        let result = json!({"output": "a ```` b", "exitStatus": {"exitCode": 1, "signal": null}});
        let call = CallRef { session: "s".into(), call: "c".into() };
        assert_eq!(terminals.record_response(&id(2), Some(&result)), [call]);
        let expected = "`````\n$ cargo test -q\na ```` b\n`````\nexit code 1";
        assert_eq!(shown(&mut terminals), expected);
        // The same result, or an error, changes nothing.
        for result in [Some(&result), None] {
            terminals.record_request(&id(3), "terminal/output", &json!({"terminalId": "t"}));
            assert_eq!(terminals.record_response(&id(3), result), []);
        }
    }

    #[test]
    fn terminals_and_their_output_are_bounded() {
        let mut terminals = made();
        terminals.record_request(&id(2), "terminal/output", &json!({"terminalId": "t"}));
        let result = json!({"output": "é".repeat(TAIL), "exitStatus": {"signal": "SIGKILL"}});
        terminals.record_response(&id(2), Some(&result));
        let text = shown(&mut terminals);
        let text = text.as_str().unwrap();
        assert!(
            text.len() < TAIL + 100 && text.ends_with("```\nended by SIGKILL"),
            "{}",
            text.len()
        );
        for number in 0..2 * KNOWN {
            let asked = id(i64::try_from(number).unwrap());
            terminals.record_request(&asked, "terminal/create", &json!({"command": "x"}));
            terminals.record_response(&asked, Some(&json!({"terminalId": number.to_string()})));
        }
        assert_eq!(terminals.known.len(), KNOWN);
        assert!(terminals.requests.is_empty());
        for (result, params) in [(json!(null), json!(null)), (json!({}), json!({"args": 7}))] {
            terminals.record_request(&id(9), "terminal/create", &params);
            assert_eq!(terminals.record_response(&id(9), Some(&result)), []);
        }
    }
}
