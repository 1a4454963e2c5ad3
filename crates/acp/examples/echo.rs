//! An agent for `cargo xtask bench`: answers every request with an empty result, and sends an update
//! for every byte that it reads from the given file.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::{env, thread};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let path = env::args_os().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    thread::spawn(move || send_updates(File::open(path)?));
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1}),
            Some("session/new") => json!({"sessionId": SESSION}),
            _ => json!({}),
        };
        if let Some(id) = message.get("id") {
            say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        }
    }
    Ok(())
}

fn send_updates(mut input: impl Read) -> io::Result<()> {
    let content = json!({"type": "text", "text": "some words of an answer"});
    let body = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let params = json!({"sessionId": SESSION, "update": body});
    let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    while input.read(&mut [0])? == 1 {
        say(&update)?;
    }
    Ok(())
}

/// Writes a line with one call.
fn say(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{message}\n").as_bytes())?;
    stdout.flush()
}

const SESSION: &str = "echo";
