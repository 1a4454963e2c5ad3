//! Calls that are judged where they run (`spec/rules.md#judged-where-they-run`).

mod git;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{Outcome, Running, SessionSetup, Tool, binaries, can_run, eventually};

/// A setup whose agent has these tools of the machine.
fn setup() -> SessionSetup {
    let names = ["sh", "cat", "grep", "env", "rm"];
    let link = |setup: SessionSetup, name: &str| {
        let path = ["/usr/bin", "/bin"].map(|directory| PathBuf::from(directory).join(name));
        let found = path.into_iter().find(|path| path.exists()).expect("the machine has the tool");
        setup.tool(name, Tool::Link(found))
    };
    let setup = names.into_iter().fold(SessionSetup::new(), link);
    user_file(&setup, "");
    setup
}

/// A session around a shell script, which is the agent.
fn agent(setup: &SessionSetup, script: &str) -> Command {
    let mut run = setup.coder();
    run.args(["run", "-q", "--backend", "local", "--toolchain", "c-cpp", "--", "sh", "-c", script]);
    run
}

fn rules(setup: &SessionSetup, text: &str) {
    fs::write(setup.workspace().join(".aifo.toml"), text).unwrap();
}

fn user_file(setup: &SessionSetup, text: &str) {
    let directory = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    // Where these tests have a git, it is a fake one.
    let text = format!("{text}\n[history]\nenabled = false\n");
    fs::write(directory.join("config.toml"), text).unwrap();
}

fn command(setup: &SessionSetup, words: &[&str]) -> Command {
    let mut command = setup.coder();
    command.args(words);
    command
}

/// Waits until a question is open, and answers it.
#[track_caller]
fn answer(setup: &SessionSetup, option: &str) -> String {
    let mut listed = String::new();
    eventually("a question is open", || {
        listed = Outcome::of(&mut command(setup, &["approve"])).text();
        listed.starts_with('q')
    });
    let id = listed.split_whitespace().next().unwrap();
    Outcome::of(&mut command(setup, &["approve", "--answer", id, option])).exited(0);
    listed
}

#[test]
fn a_program_in_place_is_as_without_a_shim() {
    let setup = setup().tool("git", Tool::Fake);
    let native = setup.tools().join("git");
    let script = |git: &str| {
        format!(
            "exec 5<.; umask 027; cd sub; \
             {git} args a '' 'b c' \"$(printf '\\377\\n\\tx')\"; {git} env; {git} fds <&- 3>&1; \
             {git} limits; {git} cwd; {git} argv0; echo x | {git} stdin; \
             {git} exit 3; echo $?; {git} die 15; echo $?; \
             trap '' PIPE INT USR1; {git} say ignoring; {git} limits; exit 9"
        )
    };
    fs::create_dir(setup.workspace().join("sub")).unwrap();
    let run = |git: &str| Outcome::of(&mut agent(&setup, &script(git)));
    let (judged, plain) = (run("git"), run(&native.display().to_string()));
    // The name differs as typed, and the session's own values from one session to the next.
    let text = |outcome: &Outcome| {
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let own = native.display().to_string();
        let shown = |line: &str| match (line.split_once("pipe:"), line.split_once("/run/aifo-")) {
            (Some((number, _)), _) => format!("{number}pipe"),
            (_, Some((before, id))) => format!("{before}/run/{}", &id[16..]),
            _ if line == own => "git".to_owned(),
            _ => line.to_owned(),
        };
        let is_own = |line: &&str| !line.starts_with("AIFO_") && !line.contains(".aifo/");
        text.lines().filter(is_own).map(shown).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text(&judged), text(&plain));
    assert!(text(&judged).contains("ignoring"), "{}", text(&judged));
    assert_eq!((judged.code(), plain.code()), (Some(9), Some(9)));
    assert_eq!(judged.stderr, plain.stderr);
    let log = Outcome::of(&mut command(&setup, &["log", "--json"])).text();
    assert!(!log.contains("in-place"), "the last session has no judged call: {log}");
}

/// Signals are inherited as they were, and none is caught or blocked.
#[test]
fn a_program_in_place_inherits_signals() {
    let setup = setup().script("git", "exec grep Sig[BIC] /proc/self/status");
    let script = |git: &str| format!("trap '' INT USR1; {git}; trap - INT; {git}");
    let run = |git: &str| Outcome::of(&mut agent(&setup, &script(git))).exited(0).text();
    let native = setup.tools().join("git").display().to_string();
    let judged = run("git");
    assert!(judged.contains("SigIgn"), "{judged}");
    assert_eq!(judged, run(&native));
}

#[test]
fn a_denied_call_does_not_run_and_the_log_has_all() {
    let setup = setup().tool("git", Tool::Fake);
    rules(
        &setup,
        "[[rule]]\nrun = 'git count'\nthen = 'deny'\nbecause = 'it is shared'\n\
         [[rule]]\nrun = 'git push'\nthen = 'deny'\n",
    );
    let script = "git say hello; git -C . count ran; echo $?; \
                  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='push o' git x; echo $?; \
                  GIT_CONFIG_PARAMETERS=\"'alias.x=push o'\" git x; echo $?; \
                  export PAGER=cat GIT_SSH_COMMAND='ssh -i k' GIT_EXTERNAL_DIFF='git push'; git diff; echo $?; \
                  unset GIT_EXTERNAL_DIFF; export VISUAL='sh -c \"git push\"'; git -C . commit; echo $?";
    let outcome = Outcome::of(&mut agent(&setup, script));
    assert_eq!(outcome.text(), "hello\n86\n86\n86\n86\n86\n");
    let line = format!(
        "aifo-shim: denied by rule '{}:1': it is shared; hint: do not repeat this call; choose another \
         way or report to the user",
        setup.workspace().join(".aifo.toml").display()
    );
    assert!(outcome.stderr.starts_with(&line), "{}", outcome.stderr);
    assert!(!setup.workspace().join("ran").exists());
    let log = Outcome::of(&mut command(&setup, &["log"])).text();
    for line in [
        "env \"GIT_EXTERNAL_DIFF=git push\" git diff  # denied",
        "env \"VISUAL=sh -c \\\"git push\\\"\" git -C . commit  # denied",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("  git ")).collect();
    let [said, denied, aliased] = lines[..] else { panic!("{log}") };
    assert!(said.ends_with("  agent     git say hello"), "{said}");
    assert!(denied.contains("  refused ") && denied.contains("# denied by rule '"), "{denied}");
    let twice = "git -c \"alias.x=push o\" x  # 2 times  # denied";
    assert!(aliased.contains(twice) && aliased.contains("; hint: do not repeat"), "{aliased}");
    let log = Outcome::of(&mut command(&setup, &["log", "--json"])).text();
    let said: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let fields = ["kind", "rule"].map(|field| said[field].clone());
    assert_eq!(fields, ["agent", "in-place"]);
    assert_eq!(said["status"], 204);
    let failed = Outcome::of(&mut command(&setup, &["log", "--failed"])).text();
    assert!(!failed.contains("say hello"), "{failed}");
}

/// Proves `spec/log.md#calls-in-place`.
#[test]
fn a_call_in_place_has_a_duration_and_an_ending_if_the_kernel_tells_them() {
    let setup = setup().tool("git", Tool::Fake);
    let logged = |uses_unix: &str| {
        let script = "git exit 3; git die 15; git say hi; git rev-parse; git rev-parse; exit 0";
        let mut run = agent(&setup, script);
        Outcome::of(run.env("AIFO_TOOLEEXEC_USE_UNIX", uses_unix)).exited(0);
        let log = Outcome::of(&mut command(&setup, &["log", "--json"])).exited(0).text();
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        log.lines().map(parse).filter(|call| call["rule"] == "in-place").collect::<Vec<_>>()
    };
    let knows_endings = {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        (numbers.next(), numbers.next()) >= (Some(6), Some(15))
    };
    let calls = logged("1");
    assert_eq!(calls.len(), 5);
    for (call, (ending, code)) in
        calls.iter().zip([("exited", 3), ("signaled", 143), ("exited", 0)])
    {
        assert!(call["wall_ms"].is_u64() && call["max_rss_kib"].is_null(), "{call}");
        match knows_endings {
            true => assert!(call["ending"] == ending && call["exit_code"] == code, "{call}"),
            false => assert_eq!(call["ending"], "in-place", "{call}"),
        }
    }
    let text = Outcome::of(&mut command(&setup, &["log"]));
    assert_eq!(text.exited(0).text().lines().count(), 3, "{}", text.text());
    let own = "2 calls of the agent itself left out (2 repository queries); see: log --all\n";
    assert!(text.stderr.ends_with(own), "{}", text.stderr);
    let all = Outcome::of(&mut command(&setup, &["log", "--all"])).exited(0).text();
    assert_eq!(all.lines().count(), 5, "{all}");
    // A client by TCP has no process that the proxy could watch.
    for call in logged("0") {
        assert!(call["ending"] == "in-place" && call["wall_ms"].is_null(), "{call}");
    }
}

#[test]
fn an_asked_call_waits_and_runs_once_it_is_allowed() {
    let setup = setup().tool("git", Tool::Fake);
    let script = "git push --force; echo $?; git push --force; echo $?; git push -f; echo $?";
    let running = Running::start(&mut agent(&setup, script));
    running
        .complains("aifo: waiting for approval: git push --force; answer with: aifo-coder approve");
    let listed = answer(&setup, "session");
    assert!(listed.contains("  rule 'git|hub push (default)'"), "{listed}");
    // The second one is identical; the third is not.
    let question = answer(&setup, "deny");
    assert!(question.contains("git push -f\n"), "{question}");
    let outcome = running.finish();
    // The fake tool has no such command.
    assert_eq!(outcome.text(), "99\n99\n86\n");
    assert!(
        outcome.stderr.contains("aifo-shim: denied by the user: git push -f ("),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_answer_after_the_client_has_left_covers_one_repetition() {
    let setup = setup().tool("git", Tool::Fake);
    let script = "git push -f & sleep() { read x < go; }; pid=$!; read x < go; kill $pid; wait $pid; echo $?; \
                  read x < go; git push -f; echo $?";
    let fifo = setup.workspace().join("go");
    Outcome::of(Command::new("mkfifo").arg(&fifo)).exited(0);
    let running = Running::start(&mut agent(&setup, script));
    running.complains("waiting for approval: git push -f");
    fs::write(&fifo, "\n").unwrap();
    running.expect("143\n");
    answer(&setup, "once");
    fs::write(&fifo, "\n").unwrap();
    assert_eq!(running.finish().text(), "143\n99\n");
}

/// Only tools that rules are about have shims, and only those of the list.
#[test]
fn tools_have_shims_by_rules_and_configuration() {
    let names = ["git", "gh", "curl", "rm"];
    let check = |prepare: &dyn Fn(&SessionSetup), options: &[&str], expected: &[&str]| {
        let setup = names.into_iter().fold(setup(), |setup, name| setup.tool(name, Tool::Fake));
        prepare(&setup);
        let mut run = setup.coder();
        run.args(["run", "-q", "--backend", "local", "--toolchain", "c-cpp"]).args(options);
        let script = names.map(|name| format!("command -v {name};")).concat();
        let text = Outcome::of(run.args(["--", "sh", "-c", &script])).exited(0).text();
        let own = setup.tools();
        let shims = text.lines().filter(|line| !line.starts_with(own.to_str().unwrap()));
        let shims: Vec<_> = shims.filter_map(|line| line.rsplit('/').next()).collect();
        assert_eq!(shims, expected, "{text}");
    };
    check(&|_| {}, &[], &["git", "gh", "curl"]);
    check(&|_| {}, &["--no-rules"], &[]);
    check(
        &|setup| rules(setup, "[[rule]]\nrun = 'curl'\nthen = 'ask'"),
        &["--no-rules"],
        &["curl"],
    );
    check(
        &|setup| user_file(setup, "[judge]\nin_place = ['rm', 'cargo', 'nothing']"),
        &[],
        &["rm"],
    );
    check(&|setup| user_file(setup, "[judge]\nin_place = []"), &[], &[]);
    // A rule on any other tool holds by itself, unless it allows only or the user sets the list.
    let rule = "[[rule]]\nrun = 'rm'\n";
    let ask = format!("{rule}then = 'ask'\n");
    check(&|setup| rules(setup, &ask), &["--no-rules"], &["rm"]);
    check(&|setup| rules(setup, &format!("{rule}net = 'none'\n")), &["--no-rules"], &["rm"]);
    check(&|setup| user_file(setup, &format!("{rule}then = 'allow'\n")), &["--no-rules"], &[]);
    check(&|setup| user_file(setup, &format!("{ask}[judge]\nin_place = []")), &["--no-rules"], &[]);
    check(
        &|setup| rules(setup, "[[rule]]\nrun = '*'\nthen = 'ask'\n"),
        &[],
        &["git", "gh", "curl"],
    );
}

#[test]
fn invalid_names_are_errors() {
    let setup = setup();
    for (name, why) in [("aifo-x", "'aifo-x' is reserved"), ("a/b", "'a/b': ")] {
        user_file(&setup, &format!("[judge]\nin_place = ['{name}']\n"));
        let outcome = Outcome::of(&mut command(&setup, &["policy", "test"]));
        assert!(
            outcome.exited(1).stderr.contains(&format!("config.toml:2: {why}")),
            "{}",
            outcome.stderr
        );
    }
    user_file(&setup, "");
    rules(&setup, "[judge]\nin_place = []\n");
    let outcome = Outcome::of(&mut command(&setup, &["policy", "test"]));
    assert!(
        outcome
            .exited(1)
            .stderr
            .contains(".aifo.toml:2: [judge] in_place changes which calls are judged"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_call_that_cannot_be_judged_does_not_run() {
    let setup = setup().tool("git", Tool::Fake).tool("env", Tool::Link("/usr/bin/env".into()));
    let script = "shim=$(command -v git); \
                  AIFO_TOOLEEXEC_URL=unix:///nonexistent.sock git say x; echo $?; \
                  AIFO_TOOLEEXEC_TOKEN=wrong git say x; echo $?; \
                  env -i PATH=/nonexistent \"$shim\" say x; echo $?; \
                  env -i PATH=\"$PATH\" git say trimmed; echo $?";
    let outcome = Outcome::of(&mut agent(&setup, script));
    assert_eq!(outcome.text(), "86\n86\n127\ntrimmed\n0\n", "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [unreachable, unauthorized, absent] = lines[..] else { panic!("{lines:?}") };
    let hint = "; hint: 'git' runs only while the session that judges it does; start a new session";
    assert!(unreachable.contains("cannot reach the proxy") && unreachable.ends_with(hint));
    assert_eq!(unauthorized, "aifo-shim: unauthorized");
    assert_eq!(absent, "aifo-shim: 'git' is not found in PATH");
}

/// Another name in `argv[0]` could make the program another tool.
#[test]
fn a_call_under_another_name_is_refused() {
    let Some(bash) = aifo_tests::program("bash") else { return };
    let setup = setup().tool("git", Tool::Fake).tool("bash", Tool::Link(bash));
    let script = "bash -c 'exec -a git-push git -f'; echo $?";
    let outcome = Outcome::of(&mut agent(&setup, script));
    assert_eq!(outcome.text(), "86\n");
    let expected = "aifo-shim: 'git' is called as 'git-push', so it cannot be judged; hint: call it by its own name\n";
    assert_eq!(outcome.stderr, expected);
}

/// Two shims find the same program, and neither executes the other.
#[test]
fn a_session_in_a_session_judges_once_and_runs_the_program() {
    let setup = setup().tool("git", Tool::Fake);
    let coder = binaries().coder.display();
    let script = format!(
        "{coder} run -q --backend local --toolchain c-cpp -- sh -c 'git say inner; git argv0'; git say outer"
    );
    let outcome = Outcome::of(&mut agent(&setup, &script));
    assert_eq!(outcome.exited(0).text(), "inner\ngit\nouter\n", "{}", outcome.stderr);
}

#[test]
fn why_explains_a_call_in_place() {
    let setup = setup().tool("git", Tool::Fake).env("AIFO_BACKEND", "local");
    let why = |words: &[&str]| Outcome::of(command(&setup, &["why"]).args(words)).exited(0).text();
    let text = why(&["git", "push", "--force"]);
    assert!(text.contains("tools/git would run next to the agent\n"), "{text}");
    let because = "because:     'git' runs where the agent is, once the rules on its arguments allow it\n\
                   verdict:     ask, by rule 'git|hub push (default)': rewrites history that others have\n";
    assert!(text.contains(because), "{text}");
    let json: serde_json::Value = serde_json::from_str(&why(&["--json", "git", "status"])).unwrap();
    let fields = ["mode", "reason", "verdict"].map(|field| json[field].clone());
    assert_eq!(fields, ["in-place", "in-place", "allow"]);
    assert!(why(&["--no-rules", "git", "status"]).contains("so the agent's PATH decides"));
}

/// A process stays in its directory, but it is no longer at the path that the user is shown.
#[test]
fn a_call_whose_directory_is_replaced_does_not_run() {
    let setup = setup().tool("git", Tool::Fake);
    user_file(&setup, "[[rule]]\nrun = 'git count'\nthen = 'ask'\n[ask]\ntimeout_secs = 100\n");
    let sub = setup.workspace().join("sub");
    fs::create_dir(&sub).unwrap();
    let script = "cd sub; git count ../first; echo $?; git count ../second; echo $?";
    let running = Running::start(&mut agent(&setup, script));
    answer(&setup, "once");
    eventually("the second one waits", || {
        Outcome::of(&mut command(&setup, &["approve"])).text().contains("git count ../second")
    });
    fs::rename(&sub, sub.with_extension("moved")).unwrap();
    fs::create_dir(&sub).unwrap();
    answer(&setup, "once");
    let outcome = running.finish();
    assert!(outcome.stderr.contains("was replaced while the call waited"), "{}", outcome.stderr);
    assert_eq!(outcome.text(), "0\n86\n");
    assert!(!setup.workspace().join("second").exists());
}

/// As if the directory had been exchanged between its call and the question.
#[test]
fn a_call_in_another_directory_than_the_shown_one_does_not_run() {
    let test = "a_call_in_another_directory_than_the_shown_one_does_not_run";
    if !can_run(test, &["unshare", "--mount", "mount", "--bind", "/usr", "/mnt"]) {
        return;
    }
    let setup = setup().tool("git", Tool::Fake);
    user_file(&setup, "[[rule]]\nrun = 'git count'\nthen = 'ask'\n[ask]\ntimeout_secs = 100\n");
    for name in ["shown", "other"] {
        fs::create_dir(setup.workspace().join(name)).unwrap();
    }
    let script = "/usr/bin/unshare --mount sh -c \
                  '/bin/mount --bind other shown; cd shown; git count mark; echo $?'";
    let running = Running::start(&mut agent(&setup, script));
    answer(&setup, "once");
    let outcome = running.finish();
    assert_eq!(outcome.text(), "86\n");
    assert!(outcome.stderr.contains("'.' was replaced"), "{}", outcome.stderr);
    assert!(!setup.workspace().join("other/mark").exists());
}
