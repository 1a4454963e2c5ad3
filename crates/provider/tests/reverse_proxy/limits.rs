//! Ways of an agent to spend more tokens than `--max-tokens` allows.
//!
//! | ways | test |
//! | --- | --- |
//! | no usage: a stream without it, another type of content, a compressed one, usage of another form or within the model's words | `a_response_without_usage_costs_its_reservation` |
//! | the agent leaves: before the head, within the response; a response that is cut | `a_response_that_the_agent_leaves_is_read` `a_response_without_an_end_costs_its_reservation` |
//! | many requests at once | `parallel_requests_do_not_pass_the_limit` |
//! | WebSockets; `alt`, `fields`, `callback`, field masks; bodies that are not JSON, with a member twice, or answered later; many answers in one | `requests_that_cannot_be_counted_do_not_arrive` |
//! | errors of the provider: those cost nothing, unless it may have worked, or they have usage or more than a plain error | `errors_cost_nothing_unless_they_leave_open_what_was_done` |

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use aifo_provider::{Tokens, UsageLimits};

use crate::agent::Agent;
use crate::provider::{Received, TestProvider, Tls, json};

const LIMIT: u64 = 16_000;
/// The smallest reservation.
const PART: u64 = LIMIT / 16;

fn limits(tokens: u64) -> UsageLimits {
    UsageLimits { requests: None, tokens: Some(tokens) }
}

/// Sends a response of this type, and closes the connection.
fn send(tls: &mut Tls, content_type: &str, body: &str) -> bool {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n");
    let _ = write!(tls, "{head}Connection: close\r\n\r\n{body}");
    tls.conn.send_close_notify();
    let _ = tls.flush();
    false
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_response_without_usage_costs_its_reservation() {
    let usage = r#"{"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let long = format!("data: {{\"x\":\"{}\"}}\n\n", "a".repeat(8 * LIMIT as usize));
    let rows = [
        ("text/event-stream", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", PART),
        ("text/event-stream", &long, long.len() as u64 / 4),
        ("text/plain", usage, PART),
        ("application/x-protobuf", usage, PART),
        ("", usage, PART),
        ("application/json\r\nContent-Encoding: gzip", usage, PART),
        ("application/json", r#"{"usage":null}"#, PART),
        ("application/json", r#"{"usage":{"prompt_tokens":-5}}"#, PART),
        ("application/json", r#"{"a":{"usage":{"prompt_tokens":1}}}"#, PART),
        ("application/json", r#"{"tool":{"input":{"usage":{"prompt_tokens":1}}}}"#, PART),
        ("application/json", r#"{"text":"{\"usage\":{\"prompt_tokens\":1}}"}"#, PART),
        ("text/event-stream", "data: {\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n", PART),
    ];
    for (content_type, body, cost) in rows {
        let (sent_type, text) = (content_type.to_owned(), body.to_owned());
        let provider =
            TestProvider::start(move |_: &Received, tls: &mut Tls| send(tls, &sent_type, &text));
        let agent = Agent::start(&provider, limits(LIMIT));
        // Its length and its maximum are the smallest part of the limit.
        let small = "{\"max_tokens\":982}";
        agent.post(small);
        let charged = || agent.proxy.usage().estimated + agent.proxy.usage().tokens.input;
        eventually("it is charged", || charged() > 0);
        assert!(
            (cost..cost + 100).contains(&charged()),
            "{content_type} {body:.80}: {}",
            charged()
        );
        let mut requests = 1;
        while agent.post(small).status != 429 {
            requests += 1;
            assert!(requests <= 16, "{content_type} {body:.80}");
        }
        assert_eq!(provider.received().len(), requests);
    }
}

#[test]
fn usage_settles_a_request() {
    let provider = TestProvider::start(json(
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":10}}"#,
    ));
    let agent = Agent::start(&provider, limits(LIMIT));
    for number in 1..=100 {
        assert_eq!(agent.post(r#"{"max_tokens":15000}"#).status, 200);
        eventually("it is settled", || agent.proxy.usage().tokens.output == 7 * number);
    }
    let usage = agent.proxy.usage();
    assert_eq!((usage.tokens, usage.estimated), (Tokens { input: 300, output: 700 }, 0));
    assert_eq!(usage.sent, 100 * r#"{"max_tokens":15000}"#.len() as u64);
    let refused = agent.post(r#"{"max_tokens":15001}"#);
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("leaves 15000, and the request may use 15001"), "{refused:?}");
    assert!(refused.head.contains("x-should-retry: false"));
}

#[test]
fn requests_that_cost_nothing_are_not_charged() {
    let provider = TestProvider::start(json(r#"{"data":[]}"#));
    let agent = Agent::start(&provider, limits(LIMIT));
    let key = format!("x-api-key: {}", agent.phantom("anthropic"));
    let body = "x".repeat(100_000);
    for _ in 0..20 {
        assert_eq!(agent.request("GET /anthropic/v1/models?limit=5", &[&key], "").status, 200);
        let count = agent.request("POST /anthropic/v1/messages/count_tokens", &[&key], &body);
        assert_eq!(count.status, 200);
    }
    assert_eq!((agent.proxy.usage().estimated, agent.proxy.usage().requests), (0, 40));
}

/// Begins a request, and returns its connection.
fn begin(agent: &Agent, body: &str) -> TcpStream {
    let mut stream = agent.connect();
    write!(
        stream,
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        agent.port,
        agent.phantom("openai"),
        body.len()
    )
    .unwrap();
    stream
}

#[test]
fn a_response_that_the_agent_leaves_is_read() {
    for has_length in [false, true] {
        let (left, has_left) = mpsc::channel();
        let has_left = Mutex::new(has_left);
        let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
            let first = "data: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n";
            let filler = format!("data: {{\"delta\":\"{}\"}}\n\n", "x".repeat(1000)).repeat(1000);
            let last =
                "data: {\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":9}}}\n\n";
            let length = first.len() + filler.len() + last.len();
            let framing = match has_length {
                true => format!("Content-Length: {length}"),
                false => "Connection: close".to_owned(),
            };
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
            let _ = write!(tls, "{head}{framing}\r\n\r\n{first}");
            let _ = has_left.lock().unwrap().recv_timeout(Duration::from_secs(60));
            let _ = write!(tls, "{filler}{last}");
            tls.conn.send_close_notify();
            let _ = tls.flush();
            false
        });
        let agent = Agent::start(&provider, limits(1_000_000));
        let mut stream = begin(&agent, "{}");
        let mut part = [0; 4096];
        let mut text = String::new();
        while !text.contains("response.created") {
            let count = stream.read(&mut part).unwrap();
            text += std::str::from_utf8(&part[..count]).unwrap();
        }
        drop(stream);
        left.send(()).unwrap();
        let expected = Tokens { input: 5, output: 9 };
        eventually("the rest is read", || agent.proxy.usage().tokens == expected);
        assert_eq!(agent.proxy.usage().estimated, 0);
    }
}

#[test]
fn a_response_without_an_end_costs_its_reservation() {
    // The provider closes the connection within the response, or before it.
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n";
        if request.body == b"{\"max_tokens\":900}" {
            let usage = "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1},";
            let _ = write!(tls, "{head}\r\n{usage}");
        }
        false
    });
    let agent = Agent::start(&provider, limits(LIMIT));
    for (body, charged) in [("{\"max_tokens\":900}", PART), ("{\"max_tokens\":3000}", PART + 3019)]
    {
        drop(agent.post(body));
        let spent = || agent.proxy.usage().tokens.output + agent.proxy.usage().estimated;
        eventually(body, || (charged - 1..=charged).contains(&spent()));
    }
    // The agent leaves before the head of the response.
    let (arrived, has_arrived) = mpsc::channel();
    let arrived = Mutex::new(arrived);
    let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
        arrived.lock().unwrap().send(()).unwrap();
        let _ = tls.read(&mut [0]);
        false
    });
    let agent = Agent::start(&provider, limits(LIMIT));
    let stream = begin(&agent, "{\"max_output_tokens\":2000}");
    has_arrived.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(stream);
    eventually("it is charged", || agent.proxy.usage().estimated >= 2000);
}

#[test]
fn parallel_requests_do_not_pass_the_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&now), Arc::clone(&most));
    let answer = json(r#"{"usage":{"prompt_tokens":900,"completion_tokens":100}}"#);
    let provider = TestProvider::start(move |request: &Received, tls: &mut Tls| {
        counters.1.fetch_max(counters.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        counters.0.fetch_sub(1, Ordering::SeqCst);
        answer(request, tls)
    });
    let agent = Agent::start(&provider, limits(LIMIT));
    let begin = Barrier::new(100);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let post = || {
            begin.wait();
            agent.post("{\"max_tokens\":100}").status
        };
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(post)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let passed = statuses.iter().filter(|&&status| status == 200).count();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert_eq!((passed, provider.received().len()), (16, 16));
    assert!((2..=16).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(agent.proxy.usage().tokens, Tokens { input: 14_400, output: 1600 });
}

#[test]
fn requests_that_cannot_be_counted_do_not_arrive() {
    let provider = TestProvider::start(json("{}"));
    let agent = Agent::start(&provider, limits(LIMIT));
    let gemini = format!("x-goog-api-key: {}", agent.phantom("gemini"));
    let openai = format!("Authorization: Bearer {}", agent.phantom("openai"));
    let generate = "POST /gemini/v1beta/models/m:streamGenerateContent";
    let web_socket = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: abc"];
    let mut headers = vec![openai.as_str()];
    headers.extend(web_socket);
    assert_eq!(agent.request("GET /openai/v1/responses", &headers, "").status, 426);
    for query in ["alt=proto", "alt=sse&fields=candidates", "callback=f", "generationConfig.n=1"] {
        let answer = agent.request(&format!("{generate}?{query}"), &[&gemini], "{}");
        assert_eq!(answer.status, 400, "{query}");
    }
    for mask in ["X-Goog-FieldMask: candidates", "x-goog-fieldmask: *"] {
        let query = format!("{generate}?alt=sse");
        assert_eq!(agent.request(&query, &[&gemini, mask], "{}").status, 400, "{mask}");
    }
    for (body, status) in [
        ("max_tokens=1", 400),
        ("{\"max_tokens\":1,\"max_tokens\":99999}", 400),
        ("{\"background\":true}", 400),
        ("{\"prompt\":[\"a\",\"b\"]}", 400),
        ("{\"max_tokens\":1000,\"n\":128}", 429),
        ("{\"n\":2}", 429),
        ("{\"stream\":true,\"stream_options\":{}}", 400),
    ] {
        assert_eq!(agent.post(body).status, status, "{body}");
    }
    let many = "{\"generationConfig\":{\"maxOutputTokens\":4096,\"candidateCount\":8}}";
    assert_eq!(agent.request(generate, &[&gemini], many).status, 429);
    for path in ["batchGenerateContent", "predict", "predictLongRunning"] {
        let line = format!("POST /gemini/v1beta/models/m:{path}");
        assert!([404, 405].contains(&agent.request(&line, &[&gemini], "{}").status), "{path}");
    }
    let line = "HEAD /openai/v1/responses";
    assert_eq!(agent.request(line, &[&openai], "").status, 405);
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(33 << 20));
    let stream = begin(&agent, &long[..10]);
    drop(stream);
    let text = format!(
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\n{openai}\r\n\
         Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        agent.port,
        long.len()
    );
    let answer = agent.exchange(text.as_bytes());
    assert!(answer.is_empty() || answer.contains(" 400 "), "{answer:.200}");
    assert_eq!((provider.received().len(), agent.proxy.usage().estimated), (0, 0));
    // A chunked body has the same demand.
    let text = format!(
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\n{openai}\r\n\
         Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{{\"max_out\r\n\
         14\r\nput_tokens\": 30000 }}\r\n0\r\n\r\n",
        agent.port
    );
    let answer = agent.exchange(text.as_bytes());
    assert!(answer.contains(" 429 ") && provider.received().is_empty(), "{answer}");
}

#[test]
fn errors_cost_nothing_unless_they_leave_open_what_was_done() {
    for (status, is_charged) in
        [(307, false), (400, false), (429, false), (500, false), (529, false), (504, true)]
    {
        let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n");
            write!(tls, "{head}Content-Length: 2\r\n\r\n{{}}").is_ok()
        });
        let agent = Agent::start(&provider, limits(LIMIT));
        assert_eq!(agent.post("{}").status, status);
        let received = || agent.proxy.usage().received == 2;
        eventually("it has ended", || {
            received() && is_charged == (agent.proxy.usage().estimated > 0)
        });
    }
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "a".repeat(40_000));
    let sent = 2;
    for (body, tokens, estimated) in [
        (r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, 0, 0),
        (r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"@type":"x"}]}}]"#, 0, 0),
        (r#"{"error":{"message":"m","failed_generation":"{}"}}"#, 0, sent + 12),
        (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, 7, 0),
        (r#"{"error":{},"usage":{"prompt_tokens":3,"completion_tokens":40}}"#, 43, 0),
        (&long, 0, sent + long.len() as u64 / 4),
        ("{\"error\":", 0, sent + 2),
    ] {
        let text = body.to_owned();
        let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
            let head = "HTTP/1.1 400 X\r\nContent-Type: application/json\r\n";
            write!(tls, "{head}Content-Length: {}\r\n\r\n{text}", text.len()).is_ok()
        });
        let agent = Agent::start(&provider, limits(1_000_000));
        assert_eq!(agent.post("{}").status, 400);
        eventually(&format!("{body:.80} costs {tokens} and {estimated}"), || {
            let usage = agent.proxy.usage();
            (usage.tokens.input + usage.tokens.output, usage.estimated) == (tokens, estimated)
        });
    }
    let mut gone = TestProvider::start(json("{}"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    gone.port = listener.local_addr().unwrap().port();
    drop(listener);
    let agent = Agent::start(&gone, limits(LIMIT));
    assert_eq!(agent.post("{}").status, 502);
    assert_eq!((agent.proxy.usage().requests, agent.proxy.usage().estimated), (1, 0));
}
