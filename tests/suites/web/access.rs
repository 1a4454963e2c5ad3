//! Requests that must not get in.

use aifo_tests::{Script, Step, WebAnswer, WebBrowser, WebServer, web_request};
use serde_json::{Value, json};

use super::{WebTest, turn};

/// A server with a signed-in browser and a session.
pub(crate) struct Signed {
    pub(crate) test: WebTest,
    pub(crate) server: WebServer,
    pub(crate) browser: WebBrowser,
    pub(crate) session: String,
}

pub(crate) fn signed(script: &Script) -> Signed {
    let test = WebTest::with(script);
    let server = test.start();
    let browser = server.sign_in();
    let session = browser.new_session();
    Signed { test, server, browser, session }
}

impl Signed {
    /// Sends a request with some headers replaced; an empty value removes one.
    fn send(&self, method: &str, path: &str, replaced: &[(&str, &str)]) -> WebAnswer {
        let mut headers = self.browser.headers();
        headers.push(("Idempotency-Key", "some-key-1"));
        headers.retain(|(name, _)| !replaced.iter().any(|(other, _)| other == name));
        headers.extend(replaced.iter().filter(|(_, value)| !value.is_empty()));
        web_request(self.server.port, method, path, &headers, b"{\"text\":\"x\"}")
    }
}

/// Every path that reads or changes something.
fn guarded(session: &str) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("GET", "/api/stream".to_owned()),
        ("GET", "/api/sessions".to_owned()),
        ("POST", "/api/sessions".to_owned()),
        ("POST", "/api/link".to_owned()),
        ("POST", "/api/revoke".to_owned()),
        ("POST", "/api/visible".to_owned()),
        ("POST", "/api/questions/x".to_owned()),
        ("GET", format!("/api/stream?session={session}")),
        ("GET", format!("/api/sessions/{session}/events")),
        ("GET", format!("/media/{}", "0".repeat(64))),
        ("GET", "/api/nothing".to_owned()),
        ("GET", "/nothing".to_owned()),
    ];
    for verb in ["prompt", "cancel", "close", "delete"] {
        all.push(("POST", format!("/api/sessions/{session}/{verb}")));
    }
    all
}

#[test]
fn no_request_gets_in_without_cookie_and_key() {
    let signed = signed(&Script::conforming());
    for (method, path) in guarded(&signed.session) {
        let answer = signed.send(method, &path, &[("Cookie", "")]);
        assert_eq!(answer.status, 401, "no cookie: {method} {path}");
        let answer = signed.send(method, &path, &[("Cookie", "aifo-web=guess")]);
        assert_eq!(answer.status, 401, "a wrong cookie: {method} {path}");
        if !path.starts_with("/media/") {
            let answer = signed.send(method, &path, &[("X-Aifo-Key", "")]);
            assert_eq!(answer.status, 401, "the cookie alone: {method} {path}");
        }
    }
    assert_eq!(signed.test.agent.received(), [Value::Null; 0], "the agent was not started");
}

#[test]
fn a_foreign_origin_is_refused() {
    let signed = signed(&Script::conforming());
    let host = signed.server.host.as_str();
    let (name, port) = host.rsplit_once(':').unwrap();
    let other_port = format!("http://{name}:{}", port.parse::<u16>().unwrap() - 1);
    let secure = format!("https://{host}");
    for origin in ["http://evil.example", "null", "", &other_port, &secure] {
        for (method, path) in guarded(&signed.session) {
            let answer = match origin {
                // A page on another port of the same site sends the cookie, and this header.
                "" => signed.send(method, &path, &[("Sec-Fetch-Site", "same-site")]),
                origin => signed.send(method, &path, &[("Origin", origin)]),
            };
            assert_eq!(answer.status, 403, "{origin:?}: {method} {path}");
        }
        let sign_in = signed.send(
            "POST",
            "/sign-in",
            &[("Origin", if origin.is_empty() { "null" } else { origin })],
        );
        assert_eq!(sign_in.status, 403, "{origin:?}");
    }
    let own = format!("http://{host}");
    assert_eq!(signed.send("GET", "/api/sessions", &[("Origin", &own)]).status, 200);
}

#[test]
fn a_foreign_host_is_refused() {
    let signed = signed(&Script::conforming());
    let port = signed.server.port;
    let near = format!("aifo-000000000000.localhost:{port}");
    for host in ["evil.example", "localhost", &format!("localhost:{port}"), &near, "127.0.0.1"] {
        for path in ["/", "/assets/main.js", "/api/sessions", "/sign-in"] {
            let answer = signed.send("GET", path, &[("Host", host)]);
            assert_eq!(answer.status, 421, "{host} {path}");
        }
    }
    let loopback = format!("127.0.0.1:{port}");
    assert_eq!(signed.send("GET", "/", &[("Host", &loopback)]).status, 200);
}

#[test]
fn a_second_value_of_a_checked_header_is_refused() {
    let signed = signed(&Script::conforming());
    let (host, key) = (signed.server.host.as_str(), signed.browser.key.as_str());
    let origin = format!("http://{host}");
    let rows = [
        ("Host", host, "evil.example", 421),
        ("Host", host, host, 421),
        ("Host", host, "", 421),
        ("Origin", &origin, "http://evil.example", 403),
        ("Sec-Fetch-Site", "none", "cross-site", 403),
        ("X-Aifo-Key", key, "x", 401),
    ];
    for (name, own, other, status) in rows {
        for values in [[own, other], [other, own]] {
            let mut headers = signed.browser.headers();
            headers.retain(|(known, _)| *known != name);
            headers.extend(values.map(|value| (name, value)));
            let answer = web_request(signed.server.port, "GET", "/api/sessions", &headers, b"");
            assert_eq!(answer.status, status, "{name}: {values:?}");
        }
    }
    for (name, status) in [("Origin", 403), ("Sec-Fetch-Site", 403)] {
        let answer = signed.send("GET", "/api/sessions", &[(name, "\u{e9}")]);
        assert_eq!(answer.status, status, "{name} that is not ASCII");
    }
}

#[test]
fn a_link_cannot_be_used_again() {
    let signed = signed(&Script::conforming());
    let host = [("Host", signed.server.host.as_str())];
    let again = |secret: &str| {
        web_request(signed.server.port, "POST", "/sign-in", &host, secret.as_bytes())
    };
    for secret in [&signed.server.secret, "", "0", &"0".repeat(64)] {
        let answer = again(secret);
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    signed.browser.post("/api/revoke", &Value::Null);
    assert_eq!(signed.browser.get("/api/sessions").status, 401, "signed out everywhere");
}

#[test]
fn the_cookie_is_for_this_host_and_this_site_only() {
    let test = WebTest::with(&Script::conforming());
    let server = test.start();
    let host = [("Host", server.host.as_str())];
    let answer = web_request(server.port, "POST", "/sign-in", &host, server.secret.as_bytes());
    let cookie = &answer.headers["set-cookie"];
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    let page = web_request(server.port, "GET", "/", &host, b"");
    let policy = &page.headers["content-security-policy"];
    for rule in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
    {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn a_path_cannot_leave_the_images() {
    let signed = signed(&Script::conforming());
    for path in [
        "/media/..%2faccess.json",
        "/media/../access.json",
        "/media/%2e%2e%2faccess.json",
        "/media/..%2f..%2fsessions",
        "/media/",
        "/media/lock",
        "/assets/../media/x",
        "/assets/..%2f..%2fCargo.toml",
        "/api/sessions/..%2f..%2faccess/events",
        "/api/stream?session=..%2faccess",
    ] {
        let answer = signed.send("GET", path, &[]);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.text().contains("browsers"), "{path}");
    }
}

#[test]
fn markdown_brings_no_script_and_no_svg() {
    let svg = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIj48L3N2Zz4=";
    let fake = "data:image/png;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIj48L3N2Zz4=";
    let text = format!(
        "<script>alert(1)</script>\n\n[a](javascript:alert(1)) ![b](javascript:alert(1)) \
         ![c]({svg}) ![d]({fake}) <img src=x onerror=alert(1)> ![e](http://evil.example/e.png)\n"
    );
    let script = turn([
        Step::say(&text),
        Step::tool_call("t", "<script>alert(2)</script>", "completed"),
        Step::ask(
            7,
            "session/request_permission",
            Step::permission(json!({
                "toolCallId": "u", "title": "<img src=x onerror=alert(3)>",
                "rawInput": {"command": "echo '</pre><script>alert(4)</script>'"},
            })),
        ),
        Step::stop("end_turn"),
    ]);
    let signed = signed(&script);
    signed.browser.prompt(&signed.session, "<script>alert(5)</script>");
    let page = signed
        .browser
        .page_when(&signed.session, "a question", |page| !page.region("asks").is_empty());
    let html: String = page.shown.values().cloned().collect();
    for bad in ["<script", "<svg", "<img", "href=\"javascript", "href=\"data"] {
        assert!(!html.to_lowercase().contains(bad), "{bad} in {html}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)"), "it is shown as text: {html}");
}

#[test]
fn a_text_cannot_end_an_event_or_begin_another() {
    let evil = "x\r\n\r\nevent: reset\r\nid: 1\ndata: {}\n\nevent: gone\ndata: {}\n\n\u{2028}\u{0}";
    let signed = signed(&turn([
        Step::say(evil),
        Step::tool_call(evil, evil, "completed"),
        Step::stop("end_turn"),
    ]));
    signed.browser.prompt(&signed.session, evil);
    let page = signed.browser.page_when(&signed.session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    let mut stream = signed.browser.page_stream(&signed.session, &Default::default());
    let mut resets = 0;
    loop {
        let event = stream.next().unwrap();
        assert!(["", "hello", "reset", "synced"].contains(&event.name.as_str()), "{event:?}");
        resets += usize::from(event.name == "reset");
        if event.name == "synced" {
            break;
        }
    }
    assert_eq!(resets, 1, "{page:?}");
}

#[test]
fn an_oversized_upload_is_refused() {
    let signed = signed(&Script::conforming());
    let path = format!("/api/sessions/{}/prompt", signed.session);
    let prompt = |mime: &str, data: &str| {
        let files = json!([{"name": "f", "mime": mime, "data": data}]);
        let body = json!({"text": "x", "attachments": files});
        signed.browser.post_as(&format!("upload-{}", aifo_tests::fresh_id()), &path, &body).status
    };
    assert_eq!(prompt("text/plain", &"QUFB".repeat(3_600_000)), 413, "10.8 MB");
    assert_eq!(prompt("text/plain", &"QUFB".repeat(5_000_000)), 413, "longer than a body may be");
    assert_eq!(prompt("text/plain", "not base64!"), 400);
    assert_eq!(prompt("application/zip", "//79"), 415, "no text and no image");
    assert_eq!(prompt("text/plain", "aGk="), 200);
}
