//! A page with every kind of block.

use aifo_tests::{Script, Step, keys};
use serde_json::json;

use super::appearance::assert_fits;
use super::axe::{assert_accessible, axe};
use super::{BrowserTest, rich, turn};

/// A picture of stripes.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAKAAAAA8AgMAAACcBVmGAAAADFBMVEUfX7+KtPj19vgXaTqDKzXJAAAAuElEQVR42u3OsQ2DUBAE0SWgBEo7AkqgtHPgEqAkCkCyb8/xlya1xIarCZ7khZfexxt+k7/V38vfPfo0+9x8vn1eo0+Lz93n4fMcfQ/xIf4dUZA4CRJnQeIiSAxBYoeE2CEhdkiIDhHRISI6RESHiFghI1bIiBUyYoWMGILEECSGIDEEib8QEFdB4iZI3AWJKUjskBA7JMQOCdEhIjpERIeI6BARK2TEChmxQkaskBFTkJiCxBQk5hdlJquNjNADpQAAAABJRU5ErkJggg==";

const MARKDOWN: &str = "\
## Markdown

A paragraph with *emphasis*, **strong words**, ~~what is gone~~, `code`, and a \
[link](https://example.org/).

1. First, the parser
2. Then the tests
   - with `numbers`
   - and words

- [x] read
- [ ] written

> A quotation of the manual, which is a little longer than one line of the page so that it wraps.

| crate | tests | time |
| --- | ---: | --- |
| parser | 12 | 1.2 s |
| printer | 7 | 0.4 s |

```rust
/// A line that is longer than the page of a phone, so that it scrolls by itself.
fn main() { println!(\"{}\", parse(\"42\")); }
```

***

";

fn tool(id: &str, kind: &str, status: &str, more: serde_json::Value) -> Step {
    let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "a call",
        "kind": kind, "status": status});
    let more = more.as_object().cloned().unwrap_or_default();
    update.as_object_mut().expect("an object").extend(more);
    Step::update(update)
}

fn asked(id: &str, command: &str) -> serde_json::Value {
    json!({"toolCallId": id, "title": command, "kind": "execute",
        "rawInput": {"command": command, "cwd": "/workspace/sub"}})
}

fn output(text: &str) -> serde_json::Value {
    json!([{"type": "content", "content": {"type": "text", "text": text}}])
}

/// Turns that end well, with an error, and that wait for an answer.
fn script() -> Script {
    let edit = json!({"type": "diff", "path": "/workspace/src/parser.rs",
        "oldText": "fn parse() {\n    todo!()\n}\n\nfn a() {}\nfn b() {}\nfn c() {}\nfn d() {}\n\
                    fn e() {}\nfn f() {}\nfn g() {}\nfn h() {}\n// end\n",
        "newText": "fn parse() {\n    number()\n}\n\nfn a() {}\nfn b() {}\nfn c() {}\nfn d() {}\n\
                    fn e() {}\nfn f() {}\nfn g() {}\nfn h() {}\n// the end of a long, long line of this file\n"});
    let picture = json!([{"type": "content",
        "content": {"type": "image", "mimeType": "image/png", "data": PNG}}]);
    let link =
        json!({"type": "resource_link", "uri": "file:///workspace/README.md", "name": "README.md"});
    let long: String = (1..60).map(|line| format!("test parser::case_{line} ... ok\n")).collect();
    let command = |command: &str| json!({"command": command, "cwd": "/workspace"});
    let mut steps = rich().on["session/prompt"][0].clone();
    steps.retain(|step| !matches!(step, Step::WaitForWord(_) | Step::Answer(_)));
    steps.extend([
        Step::say(MARKDOWN),
        Step::say(&format!("![stripes](data:image/png;base64,{PNG})\n\n")),
        Step::update(json!({"sessionUpdate": "agent_message_chunk", "content": link})),
        tool("read", "read", "completed", json!({"title": "Read src/parser.rs",
            "locations": [{"path": "/workspace/src/parser.rs"}], "content": output("fn parse()\n")})),
        tool("long", "execute", "failed", json!({"rawInput": command("cargo test -p parser"),
            "content": output(&long)})),
        tool("script", "execute", "completed", json!({"content": output("done\n"),
            "rawInput": command("for name in one two; do\n  cargo test \"$name\"\ndone")})),
        tool("edit", "edit", "completed", json!({"title": "Edit parser.rs", "content": [edit]})),
        tool("see", "fetch", "completed", json!({"title": "Take a screenshot", "content": picture})),
        Step::ask(7, "session/request_permission", Step::permission(asked("p1", "make 'a b'"))),
        Step::ask(8, "session/request_permission", Step::permission(asked("p2", "rm -r target"))),
        Step::say("That is all."),
        Step::update(json!({"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000,
            "cost": {"amount": 0.42, "currency": "USD"}})),
        Step::stop("end_turn"),
    ]);
    let failing = [Step::say("Half of"), Step::Error(-32603, "the model is overloaded".to_owned())];
    let waiting = [
        Step::think("Is it allowed?"),
        tool("open", "execute", "in_progress", json!({"rawInput": command("make install")})),
        Step::ask(9, "session/request_permission", Step::permission(asked("open", "make install"))),
        Step::wait_for("session/cancel"),
        Step::stop("cancelled"),
    ];
    turn(steps).then("session/prompt", failing).then("session/prompt", waiting)
}

#[test]
fn every_kind_fits_and_is_accessible() {
    let name = "blocks::every_kind_fits_and_is_accessible";
    let Some(test) = BrowserTest::start(name, &script()) else { return };
    let page = &test.browser;
    let answer = |option: &str, command: &str| {
        page.wait_text("#asks .command", command);
        page.wait(
            "it takes answers",
            "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
        );
        page.click(&format!("#asks button[data-option={option}]"));
    };
    test.prompt("Why does the parser fail?");
    answer("once", "make 'a b'");
    answer("no", "rm -r target");
    test.wait_end(1);
    test.prompt("Go on,");
    test.wait_end(2);
    page.write("#text", "Install it,");
    page.press(&[keys::SHIFT, keys::ENTER]);
    page.write("#text", "please.");
    page.press(&[keys::ENTER]);
    page.wait_text("#asks .command", "make install");
    page.run("document.querySelectorAll('#log details').forEach((fold) => { fold.open = true; })");
    for image in ["#log .md img", "#log .tool img"] {
        let is_loaded = format!("document.querySelector('{image}').naturalWidth === 160");
        page.wait(
            "an image",
            &format!("document.querySelector('{image}').scrollIntoView() ?? {is_loaded}"),
        );
    }
    for class in [
        "prompt",
        "md",
        "thought",
        "plan",
        "tool.done",
        "tool.failed",
        "tool.open",
        "diff",
        "decision.allow",
        "decision.reject",
        "other",
        "turn-end.failed",
        "question",
        "image",
    ] {
        let found = page.run(&format!("return document.querySelectorAll('main .{class}').length"));
        assert!(found.as_u64() > Some(0), "no {class}");
    }

    let axe = axe(&format!("web_browser::{name}"));
    for scheme in ["light", "dark"] {
        page.prefer(scheme);
        page.resize(1200, 4600);
        page.screenshot(&format!("blocks-{scheme}"));
        if let Some(axe) = &axe {
            assert_accessible(page, axe, &format!("blocks, {scheme}"));
        }
        page.be_a_phone(360, 6000);
        page.screenshot(&format!("blocks-phone-{scheme}"));
        assert_fits(page, scheme);
    }
}
