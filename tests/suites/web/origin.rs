//! A page behind a proxy of the user's own, which adds TLS.

use aifo_tests::{Outcome, Script, WebServer, web_request};
use serde_json::Value;

use super::WebTest;

const ORIGIN: &str = "https://aifo.example";
const HOST: &str = "aifo.example";

#[test]
fn its_cookie_is_secure_and_for_this_host_only() {
    let test = WebTest::with(&Script::conforming());
    let server = WebServer::start(test.command().args(["--origin", ORIGIN]));
    assert_eq!(server.host, HOST, "the link is for the user's origin");
    let send = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        web_request(test.port, method, path, headers, body.as_bytes())
    };
    let own = [("Host", HOST), ("Origin", ORIGIN), ("Sec-Fetch-Site", "same-origin")];
    let signed = send("POST", "/sign-in", &own, &server.secret);
    assert_eq!(signed.status, 200, "{}", signed.text());
    let set = &signed.headers["set-cookie"];
    let (cookie, attributes) = set.split_once("; ").expect("attributes");
    assert!(cookie.starts_with("__Host-aifo-web="), "{set}");
    let attributes: Vec<&str> = attributes.split("; ").collect();
    // Browsers take the prefix only with these.
    for needed in ["Secure", "Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(attributes.contains(&needed), "no {needed}: {set}");
    }
    assert!(!set.contains("Domain"), "{set}");

    let key = signed.json()["key"].as_str().expect("a key").to_owned();
    let status = |host: &str, origin: &str, cookie: &str| {
        let headers =
            [("Host", host), ("Origin", origin), ("Cookie", cookie), ("X-Aifo-Key", &key)];
        send("GET", "/api/sessions", &headers, "").status
    };
    assert_eq!(status(HOST, ORIGIN, cookie), 200);
    assert_eq!(status(HOST, "http://aifo.example", cookie), 403, "without TLS");
    assert_eq!(status(HOST, "https://aifo.example:8443", cookie), 403, "another port");
    assert_eq!(status("other.example", ORIGIN, cookie), 421);
    let plain = cookie.trim_start_matches("__Host-");
    assert_eq!(status(HOST, ORIGIN, plain), 401, "a page without TLS can set that name");

    // A link for another device has the same origin.
    let headers = [("Host", HOST), ("Origin", ORIGIN), ("Cookie", cookie), ("X-Aifo-Key", &key)];
    let link: Value = send("POST", "/api/link", &headers, "").json();
    let link = link["link"].as_str().expect("a link").to_owned();
    assert!(link.starts_with("https://aifo.example/#"), "{link}");
}

#[test]
fn an_origin_without_tls_or_with_a_path_is_refused() {
    for origin in ["http://aifo.example", "aifo.example", "https://aifo.example/x", "https://"] {
        let test = WebTest::with(&Script::conforming());
        let outcome = Outcome::of(test.command().args(["--origin", origin]));
        outcome.exited(2);
        assert!(outcome.stderr.contains("--origin"), "{origin}: {outcome:?}");
    }
}

#[test]
fn an_address_of_other_machines_needs_an_origin() {
    let test = WebTest::with(&Script::conforming());
    let mut command = test.setup.coder();
    command.args(["web", "--backend", "local", "--listen", "0.0.0.0:0"]);
    command.args(["--agent-command", &test.agent.command_line()]);
    let outcome = Outcome::of(&mut command);
    outcome.exited(86);
    assert!(outcome.stderr.contains("--origin"), "{outcome:?}");
}
