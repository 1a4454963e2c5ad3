//! Times the parsing of agent output in nanoseconds, for `cargo xtask bench`.
//!
//! `stream serde_json MIB` only parses it; `stream messages MIB` reads lines in the pieces of a
//! pipe, parses them in bounded memory, and classifies them. `stream rewrite MIB` parses and
//! writes it, and `stream relay MIB` forwards it through a relay to an editor, with paths to map.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aifo_acp::{Limits, MessageReader, PathMap, Relay, RelayConfig, Side};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [way, mib] = &args[..] else { return usage() };
    let read = match way.as_str() {
        "serde_json" => parse,
        "messages" => read_messages,
        "rewrite" => rewrite,
        "relay" => relay,
        _ => return usage(),
    };
    let Ok(mib) = mib.parse::<usize>() else { return usage() };
    let block = block();
    let rounds = (mib << 20) / block.len();
    println!("{}", read(&block, rounds).as_nanos());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: stream serde_json|messages|rewrite|relay MIB");
    ExitCode::from(2)
}

fn parse(block: &[u8], rounds: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        let values = serde_json::Deserializer::from_slice(block).into_iter::<Value>();
        assert_eq!(values.map(|value| black_box(value).is_ok()).filter(|ok| *ok).count(), LINES);
    }
    start.elapsed()
}

fn read_messages(block: &[u8], rounds: usize) -> Duration {
    let mut reader = MessageReader::new(&Limits::default());
    let start = Instant::now();
    for _ in 0..rounds {
        for piece in block.chunks(PIPE) {
            reader.receive(piece);
            while let Some(message) = reader.next_message() {
                black_box(message);
            }
        }
    }
    let time = start.elapsed();
    assert_eq!(reader.traffic().notifications, (LINES * rounds) as u64);
    time
}

fn rewrite(block: &[u8], rounds: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        for value in serde_json::Deserializer::from_slice(block).into_iter::<Value>() {
            black_box(serde_json::to_vec(&value.ok()).is_ok());
        }
    }
    start.elapsed()
}

fn relay(block: &[u8], rounds: usize) -> Duration {
    let now = Instant::now();
    let map = PathMap::default().map_directory("/w", "/w").map_alias("/workspace", "/w");
    let mut relay = Relay::new(RelayConfig { map, ..RelayConfig::default() }, now);
    let session = "5f2736d0-cea0-4406-bfd6-55ded5d73658";
    let prompt = json!({"id": 1, "method": "session/prompt", "params": {"sessionId": session}});
    relay.receive(Side::Editor, format!("{prompt}\n").as_bytes(), now);
    let mut lines = 0;
    let start = Instant::now();
    for _ in 0..rounds {
        for piece in block.chunks(PIPE) {
            relay.receive(Side::Agent, piece, now);
            while black_box(relay.poll_event()).is_some() {}
            while black_box(relay.poll_transmit(Side::Editor)).is_some() {
                lines += 1;
            }
        }
    }
    let time = start.elapsed();
    assert_eq!(lines, LINES * rounds);
    time
}

/// Lines of a turn: mostly short chunks, some tool output, and one list of commands as long as the
/// longest seen from a real agent.
fn block() -> Vec<u8> {
    let mut block = Vec::new();
    for line in 0..LINES {
        let update = match line {
            0 => json!({"sessionUpdate": "available_commands_update", "availableCommands": [],
                "_meta": {"skills": "# Skill\n".repeat(70_000)}}),
            line if line % 10 == 0 => json!({"sessionUpdate": "tool_call_update",
                "toolCallId": format!("call_{line}"), "status": "completed",
                "content": [{"type": "content", "content": {"type": "text",
                    "text": "src/main.rs:12: warning: unused variable\n".repeat(100)}}],
                "rawInput": {"command": "cargo test", "timeout": 120_000},
                "locations": [{"path": "/workspace/src/main.rs", "line": 12}]}),
            line => json!({"sessionUpdate": "agent_message_chunk", "messageId": "msg_1",
                "content": {"type": "text", "text": format!(" piece {line}")}}),
        };
        let params = json!({"sessionId": "5f2736d0-cea0-4406-bfd6-55ded5d73658", "update": update});
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        block.extend_from_slice(message.to_string().as_bytes());
        block.push(b'\n');
    }
    block
}

const LINES: usize = 4000;
/// The largest read from a pipe, in bytes.
const PIPE: usize = 64 << 10;
