//! The page of `aifo-coder web` in headless Chromium, with a scripted agent.

mod appearance;
mod axe;
mod blocks;
mod connection;
mod network;
mod permissions;
mod timeline;
mod turns;
mod waiting_calls;

use aifo_tests::{Chromium, Script, Step, TestNetwork, WebServer, keys};
use serde_json::{Value, json};

use crate::web::{WebTest, call, turn};

/// A server and a signed-in browser.
struct BrowserTest {
    // Dropped in this order: the browser before its server.
    browser: Chromium,
    server: WebServer,
    test: WebTest,
}

impl BrowserTest {
    /// `None` if the machine has no browser; `test` is then reported as skipped.
    #[track_caller]
    fn start(test: &str, script: &Script) -> Option<Self> {
        let browser = Chromium::start(&format!("web_browser::{test}"))?;
        Some(Self::of(browser, WebTest::with(script)))
    }

    /// The same, with a network between browser and server.
    #[track_caller]
    fn start_behind_network(test: &str, script: &Script) -> Option<(Self, TestNetwork)> {
        let browser = Chromium::start_behind_network(&format!("web_browser::{test}"))?;
        let test = WebTest::with(script);
        let network = TestNetwork::new(test.port);
        Some((Self::of(browser, test), network))
    }

    #[track_caller]
    fn of(browser: Chromium, test: WebTest) -> Self {
        let server = test.start();
        browser.open(&format!("http://{}/#{}", server.host, server.secret));
        browser.wait("the page", "document.querySelector('#empty').checkVisibility()");
        BrowserTest { browser, server, test }
    }

    /// Sends a prompt as a user does with a keyboard.
    #[track_caller]
    fn prompt(&self, text: &str) {
        self.browser.write("#text", text);
        self.browser.press(&[keys::ENTER]);
    }

    /// Waits for the end of this many turns.
    #[track_caller]
    fn wait_end(&self, turns: usize) {
        self.browser.wait("the turn ends", &ended(turns));
    }
}

/// The expression that holds after the end of this many turns.
fn ended(turns: usize) -> String {
    format!(
        "document.body.dataset.state === 'idle' && \
         document.querySelectorAll('.turn-end').length === {turns}"
    )
}

/// The expression that holds while the conversation's end is in view.
const END_IS_IN_VIEW: &str = "(({scrollTop, scrollHeight, clientHeight}) => \
    scrollHeight - scrollTop - clientHeight < 4)(document.querySelector('#scroll'))";

/// The HTML of all keys that a page shows.
fn shown(browser: &Chromium) -> Value {
    browser.run(
        "return [...document.querySelectorAll('main .block')]\
         .map((block) => [block.dataset.key, block.innerHTML])",
    )
}

/// A turn with every kind of content, which stops in the middle until it gets the word `go`.
fn rich() -> Script {
    let entry = |content: &str, status: &str| json!({"content": content, "status": status});
    let plan = json!({"sessionUpdate": "plan", "entries": [
        entry("Read the failing test", "completed"),
        entry("Correct the parser", "in_progress"),
        entry("Run all tests", "pending"),
    ]});
    let running = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "tests",
        "kind": "execute", "status": "in_progress",
        "rawInput": {"command": "cargo test --workspace", "cwd": "/workspace"}});
    let output = json!({"type": "content", "content": {"type": "text",
        "text": "running 12 tests\ntest parser::numbers ... ok\n"}});
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t",
        "status": "completed", "content": [output]});
    let diff = json!({"type": "diff", "path": "/workspace/src/parser.rs",
        "oldText": "fn parse() {\n    todo!()\n}\n", "newText": "fn parse() {\n    number()\n}\n"});
    let edit = json!({"sessionUpdate": "tool_call", "toolCallId": "e", "title": "Edit parser.rs",
        "kind": "edit", "status": "completed", "content": [diff]});
    let table = "| crate | tests |\n| --- | --- |\n| parser | 12 |\n\n";
    turn([
        Step::think("The parser drops the last digit."),
        Step::update(plan),
        Step::say("# The parser\n\nThe *draft* of an answer"),
        Step::update(running),
        Step::WaitForWord("go".to_owned()),
        Step::update(done),
        Step::update(edit),
        Step::say(table),
        Step::say("```rust\nlet number = parse(\"42\");\n```\n\nThe final words.\n"),
        Step::update(json!({"sessionUpdate": "usage_update", "used": 50, "size": 100})),
        Step::stop("end_turn"),
    ])
}

/// A turn that asks for permission.
fn asking() -> Script {
    let question = Step::permission(call("make 'a b'"));
    turn([
        Step::ask(7, "session/request_permission", question),
        Step::say("went on"),
        Step::stop("end_turn"),
    ])
}
