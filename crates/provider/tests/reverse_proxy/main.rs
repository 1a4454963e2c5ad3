//! A reverse proxy between an agent's sockets and a provider on TLS.

mod agent;
mod attacks;
mod figures;
mod limits;
mod provider;
#[path = "../tls/mod.rs"]
mod tls;

use std::io::{Read, Write};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use aifo_provider::{Tokens, UsageLimits};

use agent::{Agent, Answer};
use provider::{KEY, Received, TestProvider, Tls, json};

const NO_LIMITS: UsageLimits = UsageLimits { requests: None, tokens: None };

#[test]
fn a_request_gets_the_key_and_nothing_else_of_the_agent() {
    let provider = TestProvider::start(json("{\"ok\":true}"));
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = format!("x-api-key: {}", agent.phantom("anthropic"));
    let headers = [&key, "anthropic-version: 2023-06-01", "Cookie: c", "X-Forwarded-For: a"];
    let answer = agent.request("POST /anthropic/v1/messages?beta=true", &headers, "{\"a\":1}");
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"ok\":true}"));
    assert!(!answer.head.to_lowercase().contains("set-cookie"), "{}", answer.head);
    let [received] = &provider.received()[..] else { panic!("one request") };
    assert_eq!(received.line(), "POST /v1/messages?beta=true HTTP/1.1");
    assert_eq!(received.values("host"), [format!("localhost:{}", provider.port)]);
    assert_eq!(received.values("x-api-key"), [KEY]);
    assert_eq!(received.values("anthropic-version"), ["2023-06-01"]);
    assert_eq!(received.values("accept-encoding"), ["identity"]);
    for absent in ["cookie", "x-forwarded-for", "connection", "authorization"] {
        assert_eq!(received.values(absent), [""; 0], "{absent}");
    }
    assert_eq!(received.body, b"{\"a\":1}");
}

#[test]
fn each_provider_has_its_own_form_of_key() {
    let provider = TestProvider::start(json("{}"));
    let agent = Agent::start(&provider, NO_LIMITS);
    let path = "/gemini/v1beta/models/gemini-9:generateContent";
    let with_query = format!("POST {path}?alt=sse&key={}", agent.phantom("gemini"));
    assert_eq!(agent.request(&with_query, &[], "{}").status, 200);
    let header = format!("x-goog-api-key: {}", agent.phantom("gemini"));
    assert_eq!(agent.request(&format!("POST {path}"), &[&header], "{}").status, 200);
    assert_eq!(agent.post("{}").status, 200);
    let received = provider.received();
    assert_eq!(received[0].line(), "POST /v1beta/models/gemini-9:generateContent?alt=sse HTTP/1.1");
    assert!(received[..2].iter().all(|request| request.values("x-goog-api-key") == [KEY]));
    assert_eq!(received[2].values("authorization"), [format!("Bearer {KEY}")]);
}

#[test]
fn a_connection_to_the_provider_is_used_again() {
    let provider = TestProvider::start(json("{}"));
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = agent.phantom("openai").to_owned();
    let request = format!(
        "POST /openai/v1/chat/completions HTTP/1.1\r\nHost: localhost:{}\r\n\
         Authorization: Bearer {key}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        agent.port
    );
    let last = request.replace("\r\nTransfer", "\r\nConnection: close\r\nTransfer");
    let answers = agent.exchange((request.repeat(2) + &last).as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    assert!(provider.received().iter().all(|request| request.body == b"abc"));
}

#[test]
fn a_key_that_was_changed_is_read_again_after_a_401() {
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        let is_new = request.values("authorization") == ["Bearer sk-new"];
        let status = if is_new { "200 OK" } else { "401 Unauthorized" };
        write!(tls, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    assert_eq!(agent.post("").status, 401);
    agent.rotate("sk-new");
    assert_eq!(agent.post("").status, 200);
    agent.rotate("not a key");
    assert_eq!(agent.post("").status, 200);
}

#[test]
fn a_former_key_is_overwritten() {
    let provider = TestProvider::start(|_: &Received, tls: &mut Tls| {
        write!(tls, "HTTP/1.1 401 X\r\nContent-Length: {}\r\n\r\n{KEY}", KEY.len()).is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    for key in [KEY, "sk-the-next-key-of-the-user", "short"] {
        agent.rotate(key);
        assert_eq!(agent.post("").body, "*".repeat(KEY.len()));
    }
}

#[test]
fn events_arrive_at_once_and_are_counted() {
    // Sends an event for each byte that it receives: it never waits with more than one.
    let provider = TestProvider::start(|_: &Received, tls: &mut Tls| {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        if tls.write_all(head.as_bytes()).is_err() {
            return false;
        }
        for number in 1..=10_000 {
            let event = format!(
                "data: {{\"usage\":{{\"input_tokens\":7,\"output_tokens\":{number}}}}}\n\n"
            );
            if tls.write_all(event.as_bytes()).is_err() {
                return false;
            }
        }
        tls.conn.send_close_notify();
        let _ = tls.flush();
        false
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let answer = agent.post("{}");
    assert_eq!(answer.body.matches("data: ").count(), 10_000);
    let usage = agent.proxy.usage();
    assert_eq!(usage.tokens, Tokens { input: 7, output: 10_000 });
    assert_eq!((usage.requests, usage.sent), (1, 2));
    assert!(usage.received > 400_000);
}

#[test]
fn no_event_waits_for_the_next_one() {
    // The provider sends an event only after the agent has read the one before.
    let (read, may_send) = mpsc::channel();
    let may_send = Mutex::new(may_send);
    let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let _ = write!(tls, "{head}");
        for number in 0..EVENTS {
            // In one piece: each piece would be a chunk.
            let _ = tls.write_all(format!("data: {number}\n\n").as_bytes());
            let patience = Duration::from_secs(60);
            let seen: Option<usize> = may_send.lock().unwrap().recv_timeout(patience).ok();
            assert_eq!(seen, Some(number));
        }
        false
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let mut stream = agent.connect();
    let key = agent.phantom("openai");
    write!(
        stream,
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 0\r\n\r\n",
        agent.port
    )
    .unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = String::new();
    let mut part = [0; 4096];
    for number in 0..EVENTS {
        let event = format!("data: {number}\n\n");
        while !text.contains(&event) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "{text}");
            text += std::str::from_utf8(&part[..count]).unwrap();
        }
        text.clear();
        read.send(number).unwrap();
    }
}

/// Events of a long answer.
const EVENTS: usize = 10_000;

#[test]
fn a_web_socket_passes() {
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        assert_eq!(request.values("upgrade"), ["websocket"]);
        assert_eq!(request.values("sec-websocket-key"), ["abc"]);
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
        write!(tls, "{head}Sec-WebSocket-Accept: x\r\n\r\nhello").unwrap();
        let mut byte = [0; 4];
        tls.read_exact(&mut byte).unwrap();
        tls.write_all(&byte).unwrap();
        tls.conn.send_close_notify();
        let _ = tls.flush();
        false
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = agent.phantom("openai");
    let mut stream = agent.connect();
    write!(
        stream,
        "GET /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {key}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\nping",
        agent.port
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let answer = Answer::parse(&text);
    assert_eq!((answer.status, answer.body.as_str()), (101, "helloping"));
    assert_eq!(provider.received()[0].values("authorization"), [format!("Bearer {KEY}")]);
}

#[test]
fn limits_have_the_providers_form() {
    let provider =
        TestProvider::start(json("{\"usage\":{\"prompt_tokens\":60,\"completion_tokens\":40}}"));
    let agent = Agent::start(&provider, UsageLimits { requests: Some(2), tokens: None });
    assert_eq!([agent.post("").status, agent.post("").status], [200, 200]);
    let refused = agent.post("");
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("insufficient_quota") && refused.body.contains("--max-requests"));
    assert!(refused.head.contains("x-should-retry: false"));
    let agent = Agent::start(&provider, UsageLimits { requests: None, tokens: Some(100) });
    assert_eq!(agent.post("").status, 200);
    let refused = agent.post("");
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("100 tokens"), "{}", refused.body);
    assert_eq!(provider.received().len(), 3);
}

#[test]
fn stalled_sides_hold_only_themselves() {
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        if request.body == b"stall" {
            let mut byte = [0];
            let _ = tls.read(&mut byte);
            return false;
        }
        if request.body == b"flood" {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
            let _ = tls.write_all(head.as_bytes());
            while tls.write_all(&[0; 65536]).is_ok() {}
            return false;
        }
        write!(tls, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{{}}").is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = agent.phantom("openai");
    let before = resident_kib();
    let stalled: Vec<_> = (0..32)
        .map(|number| {
            let mut stream = agent.connect();
            let (length, body) = match number % 4 {
                0 => (5, "stall"),
                1 => (5, "flood"),
                // The agent sends a part of its body, or of its head.
                _ => (1_000_000, "part"),
            };
            let mut text = format!(
                "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\n\
                 Authorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}",
                agent.port
            );
            if number % 4 == 3 {
                text.truncate(40);
            }
            stream.write_all(text.as_bytes()).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(agent.post("{}").status, 200);
    }
    assert!(start.elapsed() < Duration::from_secs(30));
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    drop(stalled);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn failures_of_the_provider_are_answers() {
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        if request.body == b"redirect" {
            let head = "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://evil.example/\r\n";
            return write!(tls, "{head}Content-Length: 0\r\n\r\n").is_ok();
        }
        false
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let answer = agent.post("close");
    assert_eq!(answer.status, 502);
    assert!(answer.head.contains("x-aifo-refused: 1") && answer.body.contains("server_error"));
    // It is passed on, and not followed.
    assert_eq!(agent.post("redirect").status, 307);
    assert_eq!(provider.received().len(), 2);
    agent.rotate("no key");
    let other = TestProvider::start(json("{}"));
    let unreadable = Agent::start(&other, NO_LIMITS);
    unreadable.rotate("");
    let answer = unreadable.post("{}");
    assert_eq!(answer.status, 502);
    assert!(
        answer.body.contains("cannot read the key of 'openai': it is empty"),
        "{}",
        answer.body
    );
    assert!(other.received().is_empty());
}
