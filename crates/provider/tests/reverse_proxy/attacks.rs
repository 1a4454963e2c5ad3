//! Ways to get the key, or to use it for something else, by what an agent sends. The ways of a process in the
//! agent's container are in the suite `container_keys`.
//!
//! | ways | test |
//! | --- | --- |
//! | no key, a guessed one, another session's, another provider's, another scheme, two keys, in two headers, in the query, escaped in the query, as another parameter | `no_way_leads_to_the_key_or_to_another_api` |
//! | foreign, missing, second and wrong host; absolute target, CONNECT, `OPTIONS *`, TRACE, DELETE, HTTP/1.0, HTTP/2 | the same |
//! | `..`, `%2e%2e`, `%2f`, `%00`, `\\`, `;`, `//`; other APIs of the provider, the prefix of another provider | the same |
//! | two lengths, a negative one, unknown transfer coding, folded line, NUL, space before a colon, a huge head | the same |
//! | a second request in the body, behind chunks (CL.TE), in a chunk extension, in a trailer, behind a bare CR or LF | `a_smuggled_request_does_not_arrive` |
//! | `Connection` lists the key's header; overrides of method and path; an upgrade to another protocol | `no_header_changes_the_request` |
//! | a redirect to another host | `a_redirect_is_neither_followed_nor_has_it_the_key` |
//! | the provider's response has the key: body, header, reason, trailer, cut in parts, WebSocket | `a_key_that_the_provider_echoes_does_not_reach_the_agent` |
//! | the same in another coding: compressed, escaped in JSON or a URL, of which a part is asked for | `a_key_in_another_coding_does_not_reach_the_agent` |
//! | the phantom key after the session, and in the next one | `a_phantom_key_ends_with_its_session` |
//! | slow heads and bodies | `a_slow_head_ends` `main::stalled_sides_hold_only_themselves` |
//! | debug output | `debug_output_has_no_key` |

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::NO_LIMITS;
use crate::agent::Agent;
use crate::provider::{KEY, Received, TestProvider, Tls};

/// Echoes all that it receives, as a provider might, but for the key.
fn provider() -> TestProvider {
    TestProvider::start(|request: &Received, tls: &mut Tls| {
        let text = request.head.replace(KEY, "(key)");
        write!(tls, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).is_ok()
    })
}

#[test]
fn no_way_leads_to_the_key_or_to_another_api() {
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    let other_session = Agent::start(&provider, NO_LIMITS);
    let host = format!("Host: 127.0.0.1:{}", agent.port);
    let host = host.as_str();
    let bearer = format!("Authorization: Bearer {}", agent.phantom("openai"));
    let key = bearer.as_str();
    let other_provider = format!("Authorization: Bearer {}", agent.phantom("anthropic"));
    let gemini = format!("x-goog-api-key: {}", agent.phantom("gemini"));
    let gemini = gemini.as_str();
    let other_session = format!("Authorization: Bearer {}", other_session.phantom("openai"));
    let foreign_host = "Host: evil.example";
    let chat = "POST /openai/v1/chat/completions HTTP/1.1";
    let empty = "Content-Length: 0";
    let huge = format!("X: {}", "a".repeat(70_000));
    let many = vec!["X: a"; 110].join("\r\n");
    let attacks: &[(&str, &[&str])] = &[
        ("no key", &[chat, host, empty]),
        ("a guessed key", &[chat, host, "Authorization: Bearer sk-guess", empty]),
        ("another session's key", &[chat, host, &other_session, empty]),
        ("another provider's key", &[chat, host, &other_provider, empty]),
        ("a key of another scheme", &[chat, host, &key.replace("Bearer", "Basic"), empty]),
        ("two keys", &[chat, host, key, "Authorization: Bearer x", empty]),
        ("a second key header", &[chat, host, key, "x-api-key: real?", empty]),
        (
            "a second key in the query",
            &["POST /openai/v1/responses?key=x HTTP/1.1", host, key, empty],
        ),
        (
            "an escaped key in the query",
            &["POST /gemini/v1/models/m:generateContent?%6bey=x HTTP/1.1", host, gemini, empty],
        ),
        (
            "an access token in the query",
            &[
                "POST /gemini/v1/models/m:generateContent?access_token=x HTTP/1.1",
                host,
                gemini,
                empty,
            ],
        ),
        (
            "another method in the query",
            &[
                "POST /gemini/v1/models/m:generateContent?$httpMethod=DELETE HTTP/1.1",
                host,
                gemini,
                empty,
            ],
        ),
        ("foreign host (DNS rebinding)", &[chat, foreign_host, key, empty]),
        ("two hosts", &[chat, host, foreign_host, key, empty]),
        ("no host", &[chat, key, empty]),
        ("another port", &[chat, "Host: 127.0.0.1:1", key, empty]),
        (
            "absolute target",
            &["POST http://evil.example/openai/v1/responses HTTP/1.1", host, key, empty],
        ),
        ("CONNECT", &["CONNECT evil.example:443 HTTP/1.1", host, key]),
        ("OPTIONS *", &["OPTIONS * HTTP/1.1", host, key]),
        ("path traversal", &["GET /openai/v1/models/../files HTTP/1.1", host, key]),
        ("encoded traversal", &["GET /openai/v1/models/%2e%2e/files HTTP/1.1", host, key]),
        ("encoded slash", &["GET /openai/v1/models/..%2f..%2ffiles HTTP/1.1", host, key]),
        ("encoded NUL", &["GET /openai/v1/models/%00 HTTP/1.1", host, key]),
        ("double encoding", &["GET /openai/v1/models/%252e%252e/files HTTP/1.1", host, key]),
        ("another provider's prefix", &["POST /anthropic/v1/messages HTTP/1.1", host, key, empty]),
        ("the root of a provider", &["GET /openai/ HTTP/1.1", host, key]),
        ("a huge head", &[chat, host, key, &huge, empty]),
        ("too many headers", &[chat, host, key, &many, empty]),
        ("backslash", &["GET /openai/v1/models\\..\\files HTTP/1.1", host, key]),
        ("path parameter", &["GET /openai/v1/models/..;/files HTTP/1.1", host, key]),
        ("empty segment", &["GET //openai/v1/models HTTP/1.1", host, key]),
        ("another API: files", &["GET /openai/v1/files HTTP/1.1", host, key]),
        (
            "another API: keys",
            &["POST /openai/v1/organization/admin_api_keys HTTP/1.1", host, key, empty],
        ),
        ("another method", &["DELETE /openai/v1/models/m HTTP/1.1", host, key]),
        ("method override", &["TRACE /openai/v1/models HTTP/1.1", host, key]),
        (
            "upgrade elsewhere",
            &[
                "GET /openai/v1/realtime HTTP/1.1",
                host,
                key,
                "Connection: Upgrade",
                "Upgrade: websocket",
            ],
        ),
        ("smuggling, TE.TE", &[chat, host, key, "Transfer-Encoding: xchunked"]),
        ("two lengths", &[chat, host, key, "Content-Length: 0", "Content-Length: 5"]),
        ("negative length", &[chat, host, key, "Content-Length: -1"]),
        ("folded header", &[chat, host, key, "X: a", " b", empty]),
        ("NUL in a header", &[chat, host, key, "X: a\0b", empty]),
        ("space before colon", &[chat, host, key, "Content-Length : 5"]),
        ("HTTP/1.0", &["POST /openai/v1/responses HTTP/1.0", host, key, empty]),
        ("HTTP/2 preface", &["PRI * HTTP/2.0", "", "SM"]),
        ("an unknown provider", &["POST /evil/v1/responses HTTP/1.1", host, key, empty]),
    ];
    for (class, lines) in attacks {
        let text = lines.join("\r\n") + "\r\nConnection: close\r\n\r\n";
        let answer = agent.exchange(text.as_bytes());
        assert!(!answer.contains(" 200 OK"), "{class}: {answer:.200}");
        assert!(!answer.contains(KEY), "{class}: {answer:.200}");
        assert_eq!(provider.received().len(), 0, "{class}: {:?}", provider.received());
    }
    assert!(attacks.len() >= 30);
}

#[test]
fn a_smuggled_request_does_not_arrive() {
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    let smuggled = "GET /v1/files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = agent.post(smuggled);
    assert_eq!(answer.status, 200);
    let requests = provider.received();
    assert_eq!((requests.len(), requests[0].body.as_slice()), (1, smuggled.as_bytes()));
    // CL.TE: the length is ignored, and the connection ends after the chunks.
    let key = format!("Authorization: Bearer {}", agent.phantom("openai"));
    let text = format!(
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\n{key}\r\nContent-Length: 60\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        agent.port
    );
    let answers = agent.exchange(text.as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 1, "{answers}");
    // Neither a chunk extension nor a trailer passes.
    let text = format!(
        "POST /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\n{key}\r\nConnection: close\r\n\
         TE: trailers\r\nTrailer: authorization\r\nTransfer-Encoding: chunked\r\n\r\n\
         2;x=\"GET /v1/files\"\r\nab\r\n0\r\nAuthorization: Bearer x\r\nX-Trailer: x\r\n\r\n",
        agent.port
    );
    assert!(agent.exchange(text.as_bytes()).starts_with("HTTP/1.1 200"));
    assert_eq!(provider.received().last().unwrap().body, b"ab");
    // A header with a line end cannot be written either.
    agent.request("POST /openai/v1/responses", &[&key, "X: a\rGET /v1/files HTTP/1.1"], "");
    agent.request("POST /openai/v1/responses", &[&key, "X: a\nX-Injected: b"], "");
    for request in provider.received() {
        assert!(request.line().starts_with("POST /v1/"), "{request:?}");
        assert_eq!(request.values("authorization"), [format!("Bearer {KEY}")]);
    }
}

#[test]
fn no_header_changes_the_request() {
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = format!("x-goog-api-key: {}", agent.phantom("gemini"));
    let answer = agent.request(
        "POST /gemini/v1/models/m:generateContent",
        &[
            &key,
            "Connection: x-goog-api-key, host, content-length, authorization",
            "X-HTTP-Method-Override: DELETE",
            "X-HTTP-Method: DELETE",
            "X-Method-Override: DELETE",
            "X-Original-URL: /v1/files",
            "X-Rewrite-URL: /v1/files",
            "X-Forwarded-Host: evil.example",
            "Forwarded: host=evil.example",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
            "Expect: 100-continue",
            "Proxy-Authorization: Basic eDp4",
        ],
        "{}",
    );
    assert_eq!(answer.status, 200);
    let received = provider.received();
    assert_eq!(received[0].values("x-goog-api-key"), [KEY]);
    assert_eq!(received[0].values("host"), [format!("localhost:{}", provider.port)]);
    let head = received[0].head.to_lowercase();
    for absent in ["delete", "files", "evil", "h2c", "100-continue", "basic", "upgrade"] {
        assert!(!head.contains(absent), "{absent}: {head}");
    }
}

#[test]
fn a_redirect_is_neither_followed_nor_has_it_the_key() {
    let other = provider();
    let location = format!("https://localhost:{}/v1/models", other.port);
    let line = location.clone();
    let provider = TestProvider::start(move |_: &Received, tls: &mut Tls| {
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {line}\r\n");
        write!(tls, "{head}Content-Length: 0\r\n\r\n").is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let answer = agent.post("{}");
    assert_eq!(answer.status, 307);
    assert!(answer.head.to_lowercase().contains(&format!("location: {location}\r\n")));
    assert!(!answer.head.contains(KEY) && other.received().is_empty());
}

#[test]
fn a_key_that_the_provider_echoes_does_not_reach_the_agent() {
    let provider = TestProvider::start(|request: &Received, tls: &mut Tls| {
        let text = format!("{{\"error\":\"Incorrect API key provided: {KEY}.\"}}");
        if request.line().starts_with("GET") {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            let (first, second) = text.split_at(40);
            let _ = write!(tls, "{head}{first}");
            let mut byte = [0];
            let _ = tls.read(&mut byte);
            let _ = write!(tls, "{second}");
            tls.conn.send_close_notify();
            let _ = tls.flush();
            return false;
        }
        if request.body == b"chunked" {
            let _ = write!(
                tls,
                "HTTP/1.1 401 {KEY}\r\nTrailer: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            for byte in text.bytes() {
                let _ = write!(tls, "1\r\n{}\r\n", char::from(byte));
            }
            return write!(tls, "0\r\nx: {KEY}\r\n\r\n").is_ok();
        }
        let head =
            format!("HTTP/1.1 401 Unauthorized\r\nX-Key: {KEY}\r\nX-{KEY}: 1\r\nX-Other: 1\r\n");
        write!(tls, "{head}Content-Length: {}\r\n\r\n{text}", text.len()).is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let expected =
        format!("{{\"error\":\"Incorrect API key provided: {}.\"}}", "*".repeat(KEY.len()));
    for body in ["whole", "chunked"] {
        let answer = agent.post(body);
        assert_eq!((answer.status, &answer.body), (401, &expected), "{body}");
        assert!(!answer.head.to_lowercase().contains(KEY), "{}", answer.head);
    }
    assert!(agent.post("whole").head.contains("x-other: 1"));
    let text = format!(
        "GET /openai/v1/responses HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\r\nx",
        agent.port,
        agent.phantom("openai")
    );
    let answer = agent.exchange(text.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 101") && answer.ends_with(&expected), "{answer}");
    let received = provider.received();
    assert_eq!(received.last().unwrap().values("sec-websocket-extensions"), [""; 0]);
}

#[test]
fn a_key_in_another_coding_does_not_reach_the_agent() {
    let escaped: String = KEY.bytes().map(|byte| format!("\\u{byte:04X}")).collect();
    let text = escaped.clone();
    let provider = TestProvider::start(move |request: &Received, tls: &mut Tls| {
        assert_eq!(request.values("range"), [""; 0]);
        let body = String::from_utf8_lossy(&request.body);
        let head = format!("HTTP/1.1 401 Unauthorized\r\n{body}");
        if body.starts_with("Transfer-Encoding") {
            let _ = write!(tls, "{head}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
            return false;
        }
        let (first, second) = text.split_at(45);
        let _ =
            write!(tls, "{head}\r\nX-Key: {text}\r\nContent-Length: {}\r\n\r\n{first}", text.len());
        write!(tls, "{second}").is_ok()
    });
    let agent = Agent::start(&provider, NO_LIMITS);
    let key = format!("Authorization: Bearer {}", agent.phantom("openai"));
    let send =
        |body: &str| agent.request("POST /openai/v1/responses", &[&key, "Range: bytes=0-9"], body);
    for coding in ["GZIP", "br", "gzip, identity", "identity\r\nContent-Encoding: gzip"] {
        let answer = send(&format!("Content-Encoding: {coding}"));
        assert_eq!(answer.status, 502, "{coding}");
        assert!(answer.body.contains("encoded"), "{}", answer.body);
    }
    assert_eq!(send("Transfer-Encoding: gzip, chunked").status, 502);
    let answer = send("Content-Encoding: identity");
    assert_eq!((answer.status, answer.body), (401, "*".repeat(escaped.len())));
    assert!(!answer.head.contains(&escaped[..20]), "{}", answer.head);
}

#[test]
fn a_phantom_key_ends_with_its_session() {
    let provider = provider();
    let first = Agent::start(&provider, NO_LIMITS);
    assert_eq!(first.post("").status, 200);
    let (port, phantom) = (first.port, first.phantom("openai").to_owned());
    drop(first);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the listener has ended");
    let next = Agent::start(&provider, NO_LIMITS);
    let key = format!("Authorization: Bearer {phantom}");
    assert_eq!(next.request("POST /openai/v1/responses", &[&key], "").status, 401);
    assert_eq!(provider.received().len(), 1);
}

#[test]
fn a_slow_head_ends() {
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    let mut stream = agent.connect();
    let begin = Instant::now();
    write!(stream, "POST /openai/v1/responses HTTP/1.1\r\nHost: ").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(25) && !answer.contains(" 200 "), "{answer}");
}

#[test]
fn debug_output_has_no_key() {
    // A request's own log must not have it, even in the debug output of the whole proxy.
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    assert_eq!(agent.post("").status, 200);
    let shown = format!("{:?}", agent.proxy);
    assert!(!shown.contains(KEY) && !shown.contains(agent.phantom("openai")), "{shown}");
}
