//! The memory of floods and long lines. A test of its own, as it measures the whole process.

mod memory_peak;

use std::time::{Duration, Instant};

use aifo_acp::{Client, Config, Event};
use memory_peak::{CHUNK, check};
use serde_json::json;

#[test]
fn floods_and_long_lines_stay_below_128_mib() {
    let now = Instant::now();
    let mut client = Client::new(Config::default(), now);
    client.initialize("test", "1", now).unwrap();
    receive(&mut client, b"{\"id\":1,\"result\":{}}\n", now);
    client.new_session(json!({}), now).unwrap();
    receive(&mut client, b"{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n", now);

    // A line of almost 32 MiB, all of it the answer, with escapes and half
    // a surrogate pair at its end.
    client.prompt("s", json!([]), now).unwrap();
    receive(&mut client, CHUNK, now);
    let piece = b"0123456789abcd\\n".repeat(4096);
    let pieces = (32 << 20) / piece.len() - 1;
    (0..pieces).for_each(|_| receive(&mut client, &piece, now));
    receive(&mut client, b"\\udead\"}}}}\n", now);
    assert_eq!(end(&mut client, 3, now), pieces * 15 * 4096 + 3);
    check("a long line");

    // A line of the same length that would take a gigabyte if parsed.
    receive(&mut client, b"{\"id\":9,\"result\":[", now);
    (0..512).for_each(|_| receive(&mut client, &b"0,".repeat(32 << 10), now));
    receive(&mut client, b"0]}\n", now);
    check("a line of many values");

    // A line without an end.
    let piece = vec![b'x'; 1 << 20];
    (0..1500).for_each(|_| receive(&mut client, &piece, now));
    check("a line of 1.5 GB");
    receive(&mut client, b"\n", now);

    // A million updates, half of them of tool calls that never end.
    client.prompt("s", json!([]), now).unwrap();
    let mut lines = Vec::new();
    for update in 0..1_000_000u32 {
        if update % 2 == 0 {
            lines.extend_from_slice(CHUNK);
            lines.extend_from_slice(b"x\"}}}}\n");
        } else {
            let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": update});
            let params = json!({"sessionId": "s", "update": body});
            let message = json!({"method": "session/update", "params": params});
            lines.extend_from_slice(message.to_string().as_bytes());
            lines.push(b'\n');
        }
        if lines.len() > 1 << 16 {
            receive(&mut client, &lines, now);
            lines.clear();
        }
    }
    receive(&mut client, &lines, now);
    assert!(end(&mut client, 4, now) > 100_000, "as much as fits");
    check("a million updates");
}

fn receive(client: &mut Client, bytes: &[u8], now: Instant) {
    client.receive(bytes, now);
    while client.poll_event().is_some() {}
    while client.poll_transmit().is_some() {}
}

/// Ends the turn and returns the length of its answer.
fn end(client: &mut Client, request: u64, now: Instant) -> usize {
    receive(
        client,
        json!({"id": request, "result": {"stopReason": "end_turn"}}).to_string().as_bytes(),
        now,
    );
    receive(client, b"\n", now);
    client.handle_timeout(now + Duration::from_secs(1));
    let Some(Event::TurnEnded(end)) = client.poll_event() else { panic!("the turn has ended") };
    end.answer.text.len()
}
