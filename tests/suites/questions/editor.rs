//! Calls that wait at an editor, and terminals of an agent that wait.

use std::fs;

use aifo_tests::{AcpAgent, Editor, Outcome, Script, SessionSetup, Signal, Step, eventually};
use serde_json::{Value, json};

use super::rules::{CONFIG, configure};

/// Programs that are no shims wait, too.
const RULES: &str = "[[rule]]\nrun = \"touch\"\nthen = \"ask\"\nbecause = \"it makes files\"\n\n\
                     [[rule]]\nrun = \"bash\"\nnet = \"none\"\n\n\
                     [judge]\nin_place = []\n\n[ask]\ntimeout_secs = 100\n";

pub(super) struct EditorTest {
    // Dropped in this order.
    pub(super) editor: Editor,
    pub(super) agent: AcpAgent,
    setup: SessionSetup,
}

fn turn(steps: Vec<Step>) -> Script {
    let all = steps.into_iter().chain([Step::stop("end_turn")]);
    Script::conforming().on("session/prompt", all.collect::<Vec<_>>())
}

impl EditorTest {
    /// An editor whose agent's turn runs these steps. `call` is a command of the agent's environment that
    /// runs meanwhile.
    #[track_caller]
    pub(super) fn start(steps: Vec<Step>, call: &str) -> Self {
        Self::with(setup(), steps, call)
    }

    #[track_caller]
    pub(super) fn with(setup: SessionSetup, steps: Vec<Step>, call: &str) -> Self {
        let agent = AcpAgent::new(&turn(steps));
        let mut coder = setup.coder();
        coder.args(["acp", "--backend", "local", "--terminals", "aifo", "--toolchain", "c-cpp"]);
        let go = "until [ -e go ]; do /bin/sleep 0.02; done";
        let call = format!("({go}; {call}; echo $? >> code) > out 2>&1 &");
        let line = format!("/bin/sh -c '{call} exec {}'", agent.command_line());
        let mut editor = Editor::start(coder.args(["--agent-command", &line]));
        let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
        editor.response(initialize).unwrap();
        let cwd = setup.workspace();
        let opened = editor.request("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        editor.response(opened).unwrap();
        let prompt = json!([{"type": "text", "text": "go"}]);
        let prompt = json!({"sessionId": "session-1", "prompt": prompt});
        editor.request("session/prompt", &prompt);
        EditorTest { editor, agent, setup }
    }

    /// Waits until the agent has begun its turn, then starts its call.
    #[track_caller]
    pub(super) fn go(&self) {
        eventually("the turn runs", || !self.agent.received_of("session/prompt").is_empty());
        fs::write(self.setup.workspace().join("go"), "").unwrap();
    }

    /// Waits for the next question and returns its request.
    #[track_caller]
    pub(super) fn question(&mut self) -> Value {
        self.editor
            .wait_for("a question", |message| message["method"] == "session/request_permission")
    }

    #[track_caller]
    pub(super) fn answer(&mut self, request: &Value, option: &str) {
        let outcome = json!({"outcome": "selected", "optionId": option});
        self.editor.respond(request, &json!({"outcome": outcome}));
    }

    pub(super) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.setup.workspace().join(name)).unwrap_or_default()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.setup.workspace().join(name).exists()
    }

    pub(super) fn approve(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.setup.coder().arg("approve").args(args))
    }

    #[track_caller]
    pub(super) fn exited(&self, code: &str) {
        eventually("the call has ended", || self.file("code") == code);
    }
}

/// A setup with the rules and the machine's programs.
pub(super) fn setup() -> SessionSetup {
    let setup = SessionSetup::new();
    configure(&setup, &format!("{CONFIG}{RULES}"));
    let path = format!("{}:/usr/bin:/bin", setup.tools().display());
    setup.env("PATH", &path)
}

pub(super) fn create(id: &str, command: &str, args: &[&str]) -> Step {
    let params = json!({"sessionId": "$session", "command": command, "args": args});
    Step::ask(id, "terminal/create", params)
}

pub(super) fn of_terminal(id: &str, method: &str, create: &str) -> Step {
    let terminal = format!("$answer:{create}/result/terminalId");
    Step::ask(id, method, json!({"sessionId": "$session", "terminalId": terminal}))
}

fn hold() -> Vec<Step> {
    vec![Step::wait_for("session/cancel")]
}

#[test]
fn an_editor_allows_denies_and_ends_the_turn() {
    let mut test = EditorTest::start(hold(), "make count a; make count b; make count c");
    test.go();
    for (option, call) in [("once", "a"), ("deny", "b"), ("end", "c")] {
        let request = test.question();
        let asked = &request["params"]["toolCall"];
        assert_eq!(asked["rawInput"]["command"], json!(["make", "count", call]));
        let options = request["params"]["options"].as_array().unwrap();
        let ids: Vec<_> = options.iter().map(|option| option["optionId"].clone()).collect();
        assert_eq!(ids, ["once", "session", "deny", "end"]);
        test.answer(&request, option);
    }
    test.exited("86\n");
    eventually("the turn is cancelled", || !test.agent.received_of("session/cancel").is_empty());
    assert_eq!([test.has("a"), test.has("b"), test.has("c")], [true, false, false]);
    assert!(test.file("out").contains("end your turn and wait for the user"));
}

#[test]
fn a_terminal_runs_without_network_by_a_rule() {
    let tries = ": < /dev/tcp/127.0.0.1/9";
    let mut steps = vec![create("bash", "bash", &["-c", tries])];
    steps.push(create("text", &format!("true && bash -c '{tries}'"), &[]));
    steps.push(create("plain", "/bin/echo", &["plain"]));
    for id in ["bash", "text", "plain"] {
        steps.push(of_terminal(&format!("end {id}"), "terminal/wait_for_exit", id));
        steps.push(of_terminal(&format!("output {id}"), "terminal/output", id));
    }
    steps.extend(hold());
    let test = EditorTest::start(steps, "true");
    eventually("all terminals have ended", || !test.agent.answers("output plain").is_empty());
    let output = |id: &str| {
        let answer = test.agent.answers(format!("output {id}")).remove(0);
        answer["result"]["output"].as_str().unwrap().to_owned()
    };
    for id in ["bash", "text"] {
        assert!(output(id).contains("Network is unreachable"), "{id}: {}", output(id));
    }
    assert_eq!(output("plain"), "plain\n");
}

#[test]
fn a_cancelled_question_stays_open_for_other_frontends() {
    let mut test = EditorTest::start(hold(), "make count a; make count b");
    test.go();
    let request = test.question();
    test.editor.respond(&request, &json!({"outcome": {"outcome": "cancelled"}}));
    let listed = test.approve(&[]).exited(0).text();
    assert!(listed.starts_with("q1  make count a\n"), "{listed}");
    assert!(!test.has("a"));
    test.approve(&["--answer", "q1", "once"]).exited(0);
    // Another frontend is first: the editor request is cancelled.
    let request = test.question();
    test.approve(&["--answer", "q2", "deny"]).exited(0);
    test.editor.wait_for("the cancellation", |message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == request["id"]
    });
    // A late answer has no effect.
    test.answer(&request, "once");
    test.exited("86\n");
    assert_eq!([test.has("a"), test.has("b")], [true, false]);
}

#[test]
fn an_editor_that_disconnects_runs_nothing_and_a_new_one_is_asked_again() {
    let mut test = EditorTest::with(setup(), hold(), "make count a");
    test.go();
    test.question();
    let EditorTest { editor, setup, .. } = test;
    editor.finish();
    assert!(!setup.workspace().join("a").exists());
    let _ = fs::remove_file(setup.workspace().join("code"));
    // Its call waits before the turn begins.
    let mut test = EditorTest::with(setup, hold(), "make count a");
    let request = test.question();
    assert!(!test.has("a"));
    test.answer(&request, "once");
    test.exited("0\n");
    assert!(test.has("a"));
    test.editor.end_by(Signal::SIGTERM);
}

#[test]
fn a_terminal_waits_for_its_answer() {
    let steps = vec![
        create("c", "/usr/bin/touch", &["a b"]),
        of_terminal("o", "terminal/output", "c"),
        of_terminal("w", "terminal/wait_for_exit", "c"),
        create("d", "/usr/bin/touch", &["denied"]),
        of_terminal("x", "terminal/wait_for_exit", "d"),
        of_terminal("y", "terminal/output", "d"),
    ];
    let mut test = EditorTest::start(steps, "true");
    let request = test.question();
    let asked = &request["params"]["toolCall"];
    assert_eq!(asked["rawInput"]["command"], json!(["/usr/bin/touch", "a b"]));
    // The terminal exists, and waits.
    eventually("its output", || !test.agent.answers("o").is_empty());
    let output = test.agent.answers("o").remove(0)["result"].clone();
    let notice =
        "aifo: waiting for approval: /usr/bin/touch \"a b\"; answer with: aifo-coder approve\n";
    assert_eq!((&output["output"], &output["exitStatus"]), (&json!(notice), &Value::Null));
    assert!(!test.has("a b") && test.agent.answers("w").is_empty());
    test.answer(&request, "once");
    let request = test.question();
    assert!(test.has("a b"), "the first one has run");
    assert_eq!(test.agent.answers("w")[0]["result"]["exitCode"], 0);
    test.answer(&request, "deny");
    eventually("it ends", || !test.agent.answers("y").is_empty());
    assert_eq!(test.agent.answers("x")[0]["result"]["exitCode"], 126);
    let output = test.agent.answers("y")[0]["result"]["output"].to_string();
    assert!(output.contains("denied by the user: /usr/bin/touch denied"), "{output}");
    assert!(!test.has("denied"));
}

#[test]
fn a_terminal_that_is_killed_or_released_does_not_run() {
    let steps = vec![
        create("c", "/usr/bin/touch", &["a"]),
        of_terminal("k", "terminal/kill", "c"),
        of_terminal("w", "terminal/wait_for_exit", "c"),
        create("d", "/usr/bin/touch", &["b"]),
        of_terminal("r", "terminal/release", "d"),
        Step::WaitForWord("end".to_owned()),
    ];
    let test = EditorTest::start(steps, "true");
    eventually("it is released", || !test.agent.answers("r").is_empty());
    assert_eq!(test.agent.answers("w")[0]["result"]["signal"], "SIGKILL");
    // Late answers cover a repetition, and start nothing.
    let listed = test.approve(&[]).exited(0).text();
    assert_eq!(listed.matches("its client has left").count(), 2, "{listed}");
    for id in ["q1", "q2"] {
        test.approve(&["--answer", id, "once"]).exited(0);
    }
    assert_eq!([test.has("a"), test.has("b")], [false, false]);
    test.agent.release("end");
}

#[test]
fn a_shell_text_is_asked_once_with_its_shims() {
    let text = "true && /usr/bin/touch a; make count b; echo done";
    let steps = vec![create("c", text, &[]), of_terminal("w", "terminal/wait_for_exit", "c")];
    let mut test = EditorTest::start(steps, "true");
    let request = test.question();
    let asked = &request["params"]["toolCall"]["rawInput"]["command"];
    assert_eq!(asked, &json!(["sh", "-c", text]));
    assert!(!test.has("a") && !test.has("b"));
    test.answer(&request, "once");
    eventually("it ends", || !test.agent.answers("w").is_empty());
    assert_eq!(test.agent.answers("w")[0]["result"]["exitCode"], 0);
    assert!(test.has("a") && test.has("b"));
    let questions = test.editor.received();
    let asked = questions.iter().filter(|it| it["method"] == "session/request_permission");
    assert_eq!(asked.count(), 1);
}

#[test]
fn hidden_spellings_of_a_judged_program_wait() {
    let rows: [(&str, &[&str], Value); 6] = [
        ("/usr/bin/touch", &["x"], json!(null)),
        ("env", &["-i", "/usr/bin/touch", "x"], json!(null)),
        ("sh", &["-c", "$(echo /usr/bin/touch) x"], json!(null)),
        ("echo 't''ouch x' | sh", &[], json!(null)),
        ("sh", &["-c", "\"$P\" x"], json!([{"name": "P", "value": "/usr/bin/touch"}])),
        ("f() { /usr/bin/touch x; }; f", &[], json!(null)),
    ];
    let mut steps = Vec::new();
    for (number, (command, args, env)) in rows.iter().enumerate() {
        let params = json!({"sessionId": "$session", "command": command, "args": args, "env": env});
        steps.push(Step::ask(format!("c{number}"), "terminal/create", params));
    }
    steps.push(Step::WaitForWord("end".to_owned()));
    let test = EditorTest::start(steps, "true");
    eventually("all wait", || {
        let listed = test.approve(&[]).exited(0).text();
        listed.lines().filter(|line| line.starts_with('q')).count() == rows.len()
    });
    assert!(!test.has("x"));
    test.agent.release("end");
}

#[test]
fn an_allowed_permission_request_covers_its_terminal() {
    let text = "/usr/bin/touch a && /usr/bin/touch b";
    let call = |command: &str| {
        json!({"toolCallId": command, "title": format!("Run `{command}`"), "kind": "execute",
            "rawInput": {"command": command}})
    };
    let steps = vec![
        Step::ask("p", "session/request_permission", Step::permission(call(text))),
        create("c", text, &[]),
        of_terminal("w", "terminal/wait_for_exit", "c"),
        Step::ask("q", "session/request_permission", Step::permission(call("/usr/bin/touch c"))),
        create("d", "/usr/bin/touch", &["c"]),
        of_terminal("x", "terminal/wait_for_exit", "d"),
    ];
    let mut test = EditorTest::start(steps, "true");
    for _ in 0..2 {
        let request = test.question();
        let shown = request["params"]["toolCall"]["content"][0]["content"]["text"].as_str();
        assert_eq!(shown, Some("it makes files"), "the reason of the rule");
        test.answer(&request, "once");
    }
    eventually("both ran", || !test.agent.answers("x").is_empty());
    assert!(test.has("a") && test.has("b") && test.has("c"));
}

#[test]
fn an_agent_cannot_change_the_call_that_the_editor_shows() {
    let mut first = EditorTest::start(hold(), "make count a");
    first.go();
    let mut second = EditorTest::start(hold(), "make count a");
    second.go();
    let ids = [&mut first, &mut second].map(|test| {
        let request = test.question();
        let id = request["params"]["toolCall"]["toolCallId"].as_str().unwrap().to_owned();
        test.answer(&request, "deny");
        id
    });
    assert!(ids.iter().all(|id| id.starts_with("aifo-q1-") && id.len() > 20), "{ids:?}");
    assert_ne!(ids[0], ids[1], "the agent could send an update of this call");
}

#[test]
fn a_title_without_the_command_covers_nothing() {
    let call = json!({"toolCallId": "t", "title": "ls -la", "kind": "execute",
        "rawInput": {"command": "/usr/bin/touch a"}});
    let steps = vec![
        Step::ask("p", "session/request_permission", Step::permission(call)),
        create("c", "/usr/bin/touch", &["a"]),
        of_terminal("w", "terminal/wait_for_exit", "c"),
    ];
    let mut test = EditorTest::start(steps, "true");
    let request = test.question();
    test.answer(&request, "once");
    let request = test.question();
    assert_eq!(request["params"]["toolCall"]["title"], "/usr/bin/touch a");
    test.answer(&request, "deny");
    eventually("it ends", || !test.agent.answers("w").is_empty());
    assert!(!test.has("a"));
}
