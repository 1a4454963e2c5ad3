//! A thousand questions of clients of every version and of a mailbox, with frontends of every kind, all of
//! which disconnect at random.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use aifo_tests::{
    AcpAgent, Editor, Mailbox, Script, SessionSetup, Step, WebBrowser, WebServer, binaries,
    eventually, free_port,
};
use serde_json::json;

use super::Control;
use super::chaos::Random;
use super::rules::{CONFIG, configure};

/// Questions of shims, and of mailbox clients.
const CALLS: usize = 900;
const REQUESTS: usize = 100;
/// Clients at a time.
const CALLERS: usize = 10;
/// The whole test's time.
const TIME: Duration = Duration::from_secs(400);

/// Answers, by the call name: calls `yes..` are always allowed, `no..` denied, others either.
fn option_for(name: &str, random: &mut Random) -> &'static str {
    match name {
        name if name.starts_with("yes") => "once",
        name if name.starts_with("no") => "deny",
        _ => ["once", "deny"][random.below(2)],
    }
}

fn name_of(number: usize) -> String {
    format!("{}{number}", ["yes", "no", "any"][number % 3])
}

/// The last word of a command.
fn last_word(command: &str) -> &str {
    command.rsplit([' ', '/']).next().unwrap_or_default()
}

struct Shared {
    directory: PathBuf,
    workspace: PathBuf,
    variables: Vec<(String, String)>,
    shims: PathBuf,
    done: AtomicBool,
    next: AtomicUsize,
    finished: AtomicUsize,
    /// The accepted answers of the frontends that learn it.
    accepted: Mutex<BTreeMap<String, String>>,
    began: Instant,
}

impl Shared {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn accept(&self, id: &str, option: &str) {
        let before = self.accepted.lock().unwrap().insert(id.to_owned(), option.to_owned());
        // A repetition of the same answer has no effect.
        assert!(before.is_none_or(|before| before == option), "{id} was answered twice");
    }

    fn approver(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.is_done() {
            let mut control = Control::at(&self.directory);
            control.send(&json!({"list": true}));
            let mut open = Vec::new();
            while let Some(question) = control.next().get("question") {
                open.push(question.clone());
                // It leaves within the list.
                if random.below(40) == 0 {
                    break;
                }
            }
            if open.is_empty() {
                thread::sleep(Duration::from_millis(5));
            }
            let mut control = Control::at(&self.directory);
            for question in open {
                let (id, name) = (&question["id"], question["argv"][2].as_str().unwrap());
                let option = option_for(name, &mut random);
                if random.below(6) == 0 {
                    // It leaves without reading whether its answer was accepted, and repeats it.
                    control.send(&json!({"answer": id, "option": option}));
                    control = Control::at(&self.directory);
                }
                let line = control.answer(id, option);
                match line["error"].as_str() {
                    None => self.accept(id.as_str().unwrap(), option),
                    Some(text) => assert!(
                        ["was already answered", "no question", "was withdrawn"]
                            .iter()
                            .any(|why| text.contains(why)),
                        "{text}"
                    ),
                }
            }
        }
    }

    /// A browser that connects, answers and leaves.
    fn page(&self, browser: &WebBrowser, seed: u64) {
        let mut random = Random::new(seed);
        while !self.is_done() {
            let page = browser.page_of("/api/stream", "the page", |_| true);
            let html = page.region("asks");
            for form in html.split("<form").skip(1) {
                let part = |begin: &str, end: &str| {
                    let rest = form.split_once(begin).map_or("", |(_, rest)| rest);
                    rest.split(end).next().unwrap_or_default().to_owned()
                };
                let (id, command) = (part("data-question=\"", "\""), part("<code>", "</code>"));
                let option = option_for(last_word(&command), &mut random);
                let path = format!("/api/questions/{id}");
                let key = format!("answer-{}", aifo_tests::fresh_id());
                let answer = browser.post_as(&key, &path, &json!({"option": option}));
                match answer.status {
                    200 => self.accept(id.split('.').nth(1).unwrap(), option),
                    404 | 409 => {}
                    other => panic!("{other}: {}", answer.text()),
                }
                if random.below(4) == 0 {
                    break;
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// An editor that allows, denies, cancels and ignores.
    fn editor(&self, editor: &mut Editor, seed: u64) {
        let mut random = Random::new(seed);
        let mut read = 0;
        while !self.is_done() {
            let messages = editor.received();
            for message in messages.iter().skip(read) {
                if message["method"] != "session/request_permission" {
                    continue;
                }
                let command = &message["params"]["toolCall"]["rawInput"]["command"];
                let option = option_for(command[2].as_str().unwrap(), &mut random);
                let outcome = match random.below(4) {
                    0 => continue,
                    1 => json!({"outcome": "cancelled"}),
                    _ => json!({"outcome": "selected", "optionId": option}),
                };
                editor.respond(message, &json!({"outcome": outcome}));
            }
            read = messages.len();
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes calls until each has its result. A client may be killed; the same call then follows.
    fn caller(&self, seed: u64) {
        let mut random = Random::new(seed);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= CALLS {
                return;
            }
            let name = name_of(number);
            let version = ["1", "2", "3"][random.below(3)];
            while random.below(4) == 0 {
                let mut call = self.shim(version, &name);
                let pause = Duration::from_millis(random.below(30) as u64);
                thread::sleep(pause);
                let _ = call.kill();
                // The reader of `tool | tee` ends.
                let _ = call.wait_with_output().unwrap();
            }
            let output = self.shim(version, &name).wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            let ran = self.workspace.join(&name).exists();
            match output.status.code() {
                Some(0) => assert!(ran && !name.starts_with("no"), "{name}: {errors}"),
                Some(86) => {
                    assert!(!name.starts_with("yes"), "{name}: {errors}");
                    assert!(errors.contains("denied by the user"), "{name}: {errors}");
                }
                other => panic!("{name}: {other:?} {errors}"),
            }
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn shim(&self, version: &str, name: &str) -> std::process::Child {
        let mut shim = Command::new(self.shims.join("make"));
        shim.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        shim.env("PATH", &self.shims).env("AIFO_SHIM_PROTO", version);
        shim.args(["count", name]).current_dir(&self.workspace);
        let pipes = shim.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        pipes.spawn().unwrap()
    }
}

/// The program of `[ask] command`: it answers by the name, for a session only some questions.
const PROGRAM: &str = "#!/bin/sh\nread line\n\
                       case $line in *'\"session\":\"proxy\"'*) ;; *'3\",\"left\"'*|*'7\"'*) exit 1;; \
                       *'\"id\":\"q'*[05]'\"'*) kill -9 $$;; *'\"id\":\"q'*[1248]'\"'*) \
                       exec sleep 1000;; esac\ncase $line in *'\"no'*) echo deny;; *) echo once;; \
                       esac\n";

fn setup() -> SessionSetup {
    let setup = SessionSetup::new();
    let directory = setup.scratch().join("programs");
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join("answers");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ask = format!("[ask]\ntimeout_secs = 1000\ncommand = [{program:?}]\n");
    configure(&setup, &format!("{}{ask}", CONFIG.replace("max_secs = 100", "max_secs = 1000")));
    let path = format!("{}:/usr/bin:/bin", setup.tools().display());
    setup.env("PATH", &path)
}

/// An editor whose agent has a turn, and the variables of its session.
fn editor(setup: &SessionSetup, agent: &AcpAgent) -> (Editor, Vec<(String, String)>) {
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--toolchain", "c-cpp"]);
    let line = format!("/bin/sh -c 'env > variables; exec {}'", agent.command_line());
    let mut editor = Editor::start(coder.args(["--agent-command", &line]));
    let initialize = editor.request("initialize", &json!({"protocolVersion": 1}));
    editor.response(initialize).unwrap();
    let opened =
        editor.request("session/new", &json!({"cwd": setup.workspace(), "mcpServers": []}));
    editor.response(opened).unwrap();
    let prompt = json!([{"type": "text", "text": "go"}]);
    editor.request("session/prompt", &json!({"sessionId": "session-1", "prompt": prompt}));
    eventually("the turn runs", || !agent.received_of("session/prompt").is_empty());
    let text = fs::read_to_string(setup.workspace().join("variables")).unwrap();
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables = variables.filter(|(name, _)| name.starts_with("AIFO_"));
    (editor, variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The only session's directory.
fn session_directory(runtime: &Path) -> PathBuf {
    let mut found = fs::read_dir(runtime).unwrap().flatten().map(|entry| entry.path());
    found.find(|path| path.join("control.sock").exists()).expect("a session with rules")
}

#[test]
fn a_thousand_questions_of_every_client_reach_frontends_of_every_kind() {
    let setup = setup();
    let hold = [Step::wait_for("session/cancel"), Step::stop("cancelled")];
    let agent = AcpAgent::new(&Script::conforming().on("session/prompt", hold));
    let (mut editor, variables) = editor(&setup, &agent);
    let port = free_port();
    let mut watch = setup.coder();
    watch.args(["web", "--watch", "--quiet", "--listen", &format!("127.0.0.1:{port}")]);
    let server = WebServer::start(&mut watch);
    let browser = server.sign_in();
    let shims = setup.scratch().join("links");
    fs::create_dir_all(&shims).unwrap();
    symlink(&binaries().shim, shims.join("make")).unwrap();
    let shared = Arc::new(Shared {
        directory: session_directory(&setup.runtime()),
        workspace: setup.workspace(),
        variables,
        shims,
        done: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
        accepted: Mutex::default(),
        began: Instant::now(),
    });
    // Its user's file is another one with the same rules.
    let mailbox = Mailbox::of(self::setup(), &["make"]);
    thread::scope(|scope| {
        let shared = &shared;
        for seed in 0..2 {
            scope.spawn(move || shared.approver(seed));
        }
        let (browser, editor) = (&browser, &mut editor);
        scope.spawn(move || shared.page(browser, 10));
        scope.spawn(move || shared.editor(editor, 20));
        let callers: Vec<_> = (0..CALLERS)
            .map(|seed| scope.spawn(move || shared.caller(100 + seed as u64)))
            .collect();
        let requests = scope.spawn(|| requests(&mailbox));
        while !callers.iter().all(|caller| caller.is_finished()) || !requests.is_finished() {
            if shared.began.elapsed() > TIME {
                shared.done.store(true, Ordering::Relaxed);
                panic!("{} of {CALLS} ended", shared.finished.load(Ordering::Relaxed));
            }
            thread::sleep(Duration::from_millis(20));
        }
        // The questions of clients that left are answered, too.
        let mut control = Control::at(&shared.directory);
        eventually("no question is left over", || {
            control.send(&json!({"list": true}));
            let mut count = 0;
            while control.next()["question"].is_object() {
                count += 1;
            }
            count == 0
        });
        shared.done.store(true, Ordering::Relaxed);
    });
    assert_eq!(shared.finished.load(Ordering::Relaxed), CALLS);
    for number in 0..CALLS {
        let name = name_of(number);
        let runs = fs::read_to_string(shared.workspace.join(&name)).unwrap_or_default();
        if name.starts_with("no") {
            assert_eq!(runs, "", "{name} ran unanswered");
        }
    }
    eventually("no request runs", || mailbox.names().iter().all(|name| !name.ends_with(".run")));
}

/// Mailbox requests, some of whose clients are killed.
fn requests(mailbox: &Mailbox) {
    let mut random = Random::new(1000);
    for number in 0..REQUESTS {
        let name = name_of(number);
        if random.below(4) == 0 {
            let mut client = mailbox.client("make");
            let pipes = client.args(["count", &name]).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut client = pipes.spawn().unwrap();
            thread::sleep(Duration::from_millis(random.below(40) as u64));
            let _ = client.kill();
            let _ = client.wait();
        }
        let outcome = mailbox.run("make", &["count", &name]);
        let ran = mailbox.setup().workspace().join(&name).exists();
        let is_denied = name.starts_with("no");
        assert_eq!(outcome.code(), Some(if is_denied { 125 } else { 0 }), "{}", outcome.stderr);
        assert_eq!(ran, !is_denied, "{name}");
    }
}
