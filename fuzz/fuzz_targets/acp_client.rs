//! An ACP client and arbitrary bytes from its agent.

#![no_main]

#[path = "../../crates/acp/tests/checked/client.rs"]
mod checked;

use std::time::Duration;

use aifo_acp::{Limits, Streaming};
use aifo_wire_fuzz::Input;
use checked::CheckedClient;
use libfuzzer_sys::fuzz_target;

// The piece lengths also select the client's actions.
fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let streaming = [Streaming::Delta, Streaming::Snapshot, Streaming::Auto][data.len() % 3];
    let mut client = CheckedClient::new(limits(data.len()), streaming);
    for (index, line) in input.wire.split_inclusive(|byte| *byte == b'\n').enumerate() {
        client.receive(line);
        let action = data.get(index % data.len().max(1)).copied().unwrap_or_default();
        client.act(action);
        client.pass(Duration::from_secs(u64::from(action / 6)));
    }
    client.end();
});

fn limits(seed: usize) -> Limits {
    Limits {
        frame: 400,
        values: 40,
        requests: 4,
        early_updates: 4,
        early_bytes: 4096,
        turn_updates: 20,
        turn_bytes: 2048,
        turn_kinds: 3,
        tool_calls: 4,
        tool_bytes: 8192,
        prompt_total: (seed % 2 == 0).then_some(Duration::from_secs(300)),
        ..Limits::default()
    }
}
