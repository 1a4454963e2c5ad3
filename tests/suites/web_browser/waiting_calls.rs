//! Calls that wait for approval, answered in a browser (`spec/web.md#waiting-calls`).

use std::fs;
use std::path::PathBuf;

use aifo_tests::{Chromium, Outcome, Running, Script, Step, WebServer, eventually, keys};

use super::axe::{assert_accessible, axe};
use crate::web::{WebTest, turn};

/// The user's file: every `make count` waits.
const CONFIG: &str = "# mine\ntoolchains = [\"c-cpp\"] # for make\n\n[[rule]]\nrun = \"make count\"\n\
                      then = \"ask\"\nbecause = \"it <b>counts</b>\"\n";

struct Waiting {
    // Dropped in this order.
    page: Chromium,
    server: WebServer,
    test: WebTest,
}

impl Waiting {
    /// A page that only watches, and the user's file.
    #[track_caller]
    fn start(name: &str) -> Option<Self> {
        let page = Chromium::start(&format!("web_browser::waiting_calls::{name}"))?;
        let test = WebTest::with(&Script::conforming());
        fs::create_dir_all(file(&test).parent().unwrap()).unwrap();
        fs::write(file(&test), CONFIG).unwrap();
        let server = WebServer::start(&mut test.watch_command());
        page.open(&format!("http://{}/#{}", server.host, server.secret));
        page.wait_text("#empty", "Choose a running session");
        Some(Waiting { page, server, test })
    }

    /// `aifo-coder run` with a shell command.
    fn run(&self, script: &str) -> Running {
        let mut run = self.test.setup.coder();
        run.args(["run", "--backend", "local", "--quiet", "--", "/bin/sh", "-c", script]);
        Running::start(&mut run)
    }

    /// Waits until a question takes answers.
    #[track_caller]
    fn ready(&self, command: &str) -> &Self {
        self.page.wait_text("#asks .command", command);
        self.page.wait(
            "it takes answers",
            "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
        );
        self
    }

    fn approve(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.test.setup.coder().arg("approve").args(args))
    }

    fn runs(&self) -> usize {
        let ran = self.test.setup.workspace().join("ran");
        fs::read_to_string(ran).unwrap_or_default().lines().count()
    }

    fn is_empty(&self) -> bool {
        self.page.run("return document.querySelector('#asks').childElementCount") == 0
    }
}

fn file(test: &WebTest) -> PathBuf {
    test.setup.scratch().join("home/.config/aifo/config.toml")
}

const ONCE: &str = "#asks button[data-option=once]";

#[test]
fn a_call_of_run_is_shown_exactly_and_answered() {
    let Some(test) = Waiting::start("a_call_of_run_is_shown_exactly_and_answered") else { return };
    let run = test.run("make count ran 'a b' '<i>\u{202e}' \"$(printf 'x\\ny')\"; make count ran");
    let page = &test.ready("make count ran").page;
    let command = page.run("return document.querySelector('#asks .command').textContent");
    assert_eq!(command, "make count ran \"a b\" \"<i>\\xe2\\x80\\xae\" \"x\\ny\"");
    page.wait_text("#asks dl", "config.toml:4': it <b>counts</b>");
    page.wait_text("#asks dl", &test.test.setup.workspace().display().to_string());
    page.wait_text("[data-calls]", "waiting for approval");
    if let Some(axe) = axe("web_browser::waiting_calls") {
        page.run("document.querySelector('#asks details')?.setAttribute('open', '')");
        assert_accessible(page, &axe, "a waiting call");
    }
    assert_eq!(test.runs(), 0);
    page.click(ONCE);
    // The second call is another one, and is denied by its key.
    page.wait(
        "the second call",
        "document.querySelector('#asks .command')?.textContent === 'make count ran'",
    );
    test.ready("make count ran").page.press(&[keys::ALT, '3', keys::RELEASE]);
    page.wait_text("#answered", "Deny (page (pid ");
    assert_eq!(run.finish().code(), Some(86));
    assert_eq!(test.runs(), 1);
    assert!(test.is_empty());
}

#[test]
fn the_change_of_always_is_shown_and_made() {
    let Some(test) = Waiting::start("the_change_of_always_is_shown_and_made") else { return };
    let run = test.run("make count ran; make count ran");
    let page = &test.ready("make count ran").page;
    // The first press shows the change, the second one makes it.
    page.press(&[keys::ALT, '5', keys::RELEASE]);
    page.wait("the change", "document.querySelector('#asks details').open");
    let change = page.run("return document.querySelector('#asks .diff').textContent");
    assert_eq!(fs::read_to_string(file(&test.test)).unwrap(), CONFIG, "nothing is written yet");
    test.ready("make count ran").page.press(&[keys::ALT, '5', keys::RELEASE]);
    assert_eq!(run.finish().code(), Some(0), "the second call is covered");
    assert_eq!(test.runs(), 2);
    let after = fs::read_to_string(file(&test.test)).unwrap();
    let added = after.strip_prefix(CONFIG).expect("the rest is unchanged");
    let shown: String =
        change.as_str().unwrap().lines().skip(1).fold(String::new(), |all, line| {
            all + line.strip_prefix('+').expect("only additions") + "\n"
        });
    assert_eq!(added, shown);
    assert!(added.contains("examples = { yes = [\"make count ran\"] }"), "{added}");
    // Another session obeys the rule.
    assert_eq!(test.run("make count ran").finish().code(), Some(0));
    assert_eq!(test.runs(), 3);
}

#[test]
fn a_read_only_file_is_not_changed_and_the_call_runs_once() {
    let name = "a_read_only_file_is_not_changed_and_the_call_runs_once";
    let Some(test) = Waiting::start(name) else { return };
    let run = test.run("make count ran; make count ran");
    let page = &test.ready("make count ran").page;
    let mut permissions = fs::metadata(file(&test.test)).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(file(&test.test), permissions).unwrap();
    page.press(&[keys::ALT, '5', keys::RELEASE]);
    test.ready("make count ran").page.press(&[keys::ALT, '5', keys::RELEASE]);
    page.wait_text("#problem", "the file is read-only; the call is allowed once");
    // Only the first call is allowed.
    test.ready("make count ran").page.click("#asks button[data-option=end]");
    assert_eq!(run.finish().code(), Some(86));
    assert_eq!(test.runs(), 1);
    assert_eq!(fs::read_to_string(file(&test.test)).unwrap(), CONFIG);
}

#[test]
fn the_answer_of_another_frontend_is_shown_and_pending_calls_come_back() {
    let name = "the_answer_of_another_frontend_is_shown_and_pending_calls_come_back";
    let Some(test) = Waiting::start(name) else { return };
    let run = test.run("make count ran; make count ran");
    test.ready("make count ran").page.reload();
    let page = &test.ready("make count ran").page;
    let listed = test.approve(&[]).exited(0).text();
    let id = listed.split_whitespace().next().unwrap().to_owned();
    test.approve(&["--answer", &id, "deny"]).exited(0);
    page.wait_text("#answered", "Deny (approve (pid ");
    // A late answer gets the first one and its sender.
    let late = format!(
        "const question = document.querySelector('#asks form')?.dataset.question; \
         const {{ post }} = await import('/assets/api.js'); \
         try {{ await post('/api/questions/' + question.replace(/q\\d+$/, '{id}'), \
         {{ option: 'once' }}); done('accepted'); }} catch (error) {{ done(error.message); }}"
    );
    test.ready("make count ran");
    let late = page.run_async(&format!("(async () => {{ {late} }})()"));
    let late = late.as_str().unwrap();
    assert!(late.contains("was already answered with 'deny' by approve (pid"), "{late}");
    // A new server shows the second one again.
    let Waiting { page, server, test } = test;
    drop(server);
    let server = WebServer::start(&mut test.watch_command());
    page.reload();
    page.wait_text("#asks .command", "make count ran");
    page.wait(
        "it takes answers",
        "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
    );
    page.click(ONCE);
    assert_eq!(run.finish().code(), Some(0));
    drop(server);
}

#[test]
fn a_call_of_the_pages_own_agent_waits_and_its_turn_ends() {
    let name = "a_call_of_the_pages_own_agent_waits_and_its_turn_ends";
    let Some(page) = Chromium::start(&format!("web_browser::waiting_calls::{name}")) else {
        return;
    };
    let script =
        turn([Step::say("it calls"), Step::wait_for("session/cancel"), Step::stop("cancelled")]);
    let test = WebTest::with(&script);
    fs::create_dir_all(file(&test).parent().unwrap()).unwrap();
    fs::write(file(&test), CONFIG).unwrap();
    let call = "(until [ -e go ]; do sleep 0.1; done; make count ran 2>denied) > /dev/null &";
    let agent = format!("/bin/sh -c '{call} exec {}'", test.agent.command_line());
    let server = test.start_with_agent(&agent);
    page.open(&format!("http://{}/#{}", server.host, server.secret));
    page.wait("the page", "document.querySelector('#empty').checkVisibility()");
    page.write("#text", "hello");
    page.press(&[keys::ENTER]);
    page.wait_text("#log .md", "it calls");
    fs::write(test.setup.workspace().join("go"), "").unwrap();
    page.wait_text("#asks .command", "make count ran");
    page.wait(
        "it takes answers",
        "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
    );
    page.click("#asks button[data-option=end]");
    page.wait("the turn ends", &super::ended(1));
    let denied = test.setup.workspace().join("denied");
    eventually("the agent gets the reason", || {
        let text = fs::read_to_string(&denied).unwrap_or_default();
        text.contains("denied by the user: make count ran") && text.contains("end your turn")
    });
}
