//! The memory of floods and long lines through a relay. A test of its own, as it measures the whole
//! process.

mod memory_peak;

use std::time::Instant;

use aifo_acp::{Limits, Relay, RelayConfig, Side};
use memory_peak::{CHUNK, check};
use serde_json::json;

#[test]
fn relayed_floods_and_long_lines_stay_below_128_mib() {
    let now = Instant::now();
    let limits = Limits { frame_out: 32 << 20, ..Limits::default() };
    let mut relay = Relay::new(RelayConfig { limits, ..RelayConfig::default() }, now);
    let prompt = json!({"id": 1, "method": "session/prompt", "params": {"sessionId": "s"}});
    pass(&mut relay, Side::Editor, format!("{prompt}\n").as_bytes(), now);

    // A line of almost 32 MiB is forwarded.
    pass(&mut relay, Side::Agent, CHUNK, now);
    let piece = b"0123456789abcd\\n".repeat(4096);
    let pieces = (32 << 20) / piece.len() - 1;
    (0..pieces).for_each(|_| _ = pass(&mut relay, Side::Agent, &piece, now));
    assert!(pass(&mut relay, Side::Agent, b"\"}}}}\n", now) > pieces * piece.len());
    check("a long line that passes");

    // An editor that never reads slows an agent that never stops.
    let mut line = CHUNK.to_vec();
    line.extend_from_slice(b"x\"}}}}\n");
    let lines = line.repeat(400);
    let mut taken = 0;
    while relay.should_read(Side::Agent) {
        relay.receive(Side::Agent, &lines, now);
        while relay.poll_event().is_some() {}
        taken += lines.len();
    }
    assert!(taken < 64 << 20, "{taken}");
    check("an editor that does not read");
    while relay.poll_transmit(Side::Editor).is_some() {
        while relay.poll_event().is_some() {}
    }

    // Enough updates to fill the tool calls' memory several times.
    let text = "x".repeat(4000);
    let mut lines = Vec::new();
    for call in 0..40_000u32 {
        let body = json!({"sessionUpdate": "tool_call", "toolCallId": call, "content": text});
        let params = json!({"sessionId": "s", "update": body});
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        lines.extend_from_slice(message.to_string().as_bytes());
        lines.push(b'\n');
        if lines.len() > 1 << 16 {
            assert_eq!(
                pass(&mut relay, Side::Agent, &lines, now),
                lines.len(),
                "everything is forwarded"
            );
            lines.clear();
        }
    }
    check("a flood of tool calls");
}

/// Passes bytes to a relay and returns the number of bytes at the other end.
fn pass(relay: &mut Relay, from: Side, bytes: &[u8], now: Instant) -> usize {
    relay.receive(from, bytes, now);
    let mut passed = 0;
    loop {
        while relay.poll_event().is_some() {}
        let Some(line) = relay.poll_transmit(from.other()) else { return passed };
        passed += line.len();
    }
}
