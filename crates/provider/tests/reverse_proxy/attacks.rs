//! Ways to get the key, or to use it for something else. Each names its class.

use std::io::Write;

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
    let other_session = format!("Authorization: Bearer {}", other_session.phantom("openai"));
    let foreign_host = "Host: evil.example";
    let chat = "POST /openai/v1/chat/completions HTTP/1.1";
    let empty = "Content-Length: 0";
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
        assert!(!answer.contains(" 200 OK"), "{class}: {answer}");
        assert!(!answer.contains(KEY), "{class}: {answer}");
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
    // A header with a line end cannot be written either.
    agent.request("POST /openai/v1/responses", &[&key, "X: a\rGET /v1/files HTTP/1.1"], "");
    agent.request("POST /openai/v1/responses", &[&key, "X: a\nX-Injected: b"], "");
    for request in provider.received() {
        assert!(request.line().starts_with("POST /v1/"), "{request:?}");
        assert_eq!(request.values("authorization"), [format!("Bearer {KEY}")]);
    }
}

#[test]
fn the_headers_of_a_provider_do_not_name_the_key() {
    // A request's own log must not have it, even in the debug output of the whole proxy.
    let provider = provider();
    let agent = Agent::start(&provider, NO_LIMITS);
    assert_eq!(agent.post("").status, 200);
    let shown = format!("{:?}", agent.proxy);
    assert!(!shown.contains(KEY) && !shown.contains(agent.phantom("openai")), "{shown}");
}
