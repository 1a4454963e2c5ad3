//! A relay and arbitrary bytes from its editor and its agent.

#![no_main]

#[path = "../../crates/acp/tests/checked/relay.rs"]
mod checked;

use std::time::Duration;

use aifo_acp::Side;
use aifo_wire_fuzz::Input;
use checked::{Action, CheckedRelay};
use libfuzzer_sys::fuzz_target;

// Lines with `>` are the editor's. The input's bytes also select the caller's actions.
fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let mut relay = CheckedRelay::new();
    for (index, line) in input.wire.split(|byte| *byte == b'\n').enumerate() {
        let (from, line) = match line.strip_prefix(b">") {
            Some(line) => (Side::Editor, line),
            None => (Side::Agent, line),
        };
        for message in messages(line) {
            // One by one, because ids may be reused after the response.
            relay.receive(from, &message, std::iter::once(message.as_slice()));
        }
        let action = data.get(index % data.len().max(1)).copied().unwrap_or_default();
        relay.act(
            [Action::Decide, Action::AskEditor, Action::Respond, Action::Wait]
                [usize::from(action % 4)],
        );
        relay.pass(Duration::from_secs(u64::from(action / 64)));
    }
    let is_even = data.len() % 2 == 0;
    relay.end(if is_even { [Side::Editor, Side::Agent] } else { [Side::Agent, Side::Editor] });
});

/// Returns the messages of a line, which may be a batch.
fn messages(line: &[u8]) -> Vec<Vec<u8>> {
    match serde_json::from_slice(line) {
        Ok(serde_json::Value::Array(batch)) => {
            batch.iter().map(|value| value.to_string().into_bytes()).collect()
        }
        _ => vec![line.to_vec()],
    }
}
