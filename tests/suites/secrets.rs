//! The token is visible only to the processes that need it, and secret arguments are not logged.

use std::fs;

use aifo_tests::{Outcome, Running, Session, SessionSetup, Signal, argv, fresh_id};

fn all_command_lines() -> String {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.flat_map(argv).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_token_is_on_no_command_line_and_in_no_log() {
    let session = SessionSetup::new().verbose().start();
    let mut command = session.shim("make");
    let shim = Running::start(command.arg("wait").env("AIFO_TOOLCHAIN_VERBOSE", "1"));
    shim.expect("ready\n");
    assert!(!all_command_lines().contains(session.token()));
    shim.signal(Signal::SIGTERM);
    let outcome = shim.finish();
    assert!(!outcome.stderr.contains(session.token()));

    let wrong = session.exec("make", ["say"]).with("Authorization", "Bearer almost");
    assert_eq!(session.answer(&wrong).status(), 401);
    let malformed = session.post("/exec").header("X-Odd Name", "x").body("tool=make");
    assert_eq!(session.answer(&malformed).status(), 400);
    assert!(!session.log().contains(session.token()), "{}", session.log());
    assert!(!session.log().contains("almost"), "{}", session.log());
}

#[test]
fn no_process_of_a_sidecar_has_the_token() {
    let session = Session::start();
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
    let sidecars = session.sidecars();
    let processes = sidecars.iter().flat_map(|s| [s.guard, s.runner]);
    for pid in processes.chain(aifo_tests::tagged_processes(&id)) {
        let environment = aifo_tests::environment(pid).join("\n");
        assert!(!environment.contains(session.token()), "process {pid}: {environment}");
    }
    assert_eq!(session.signal(&id, "KILL").status(), 204);
    call.answer();
}

/// A variable with a secret name has its value removed from log lines and from `why`.
#[test]
fn the_value_of_a_secret_name_is_in_no_log() {
    let page = include_str!("../../spec/environment.md");
    let rows = page.split("\n## Secrets\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = rows.lines().filter(|line| line.starts_with("| `") && line.contains("| yes"));
    let names: Vec<_> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(names.contains(&"GITHUB_PAT"), "{names:?}");
    let forms = |name: &&str| {
        [
            format!("{name}=hidden-1"),
            format!("--{name}"),
            "hidden-2".into(),
            format!("{name}: hidden-3"),
        ]
    };
    let args: Vec<String> = names.iter().flat_map(forms).collect();
    let session = SessionSetup::new().verbose().start();
    let words = ["say", "visible"].into_iter().chain(args.iter().map(String::as_str));
    let id = fresh_id();
    assert_eq!(session.answer(&session.exec("make", words).id(&id)).status(), 200);
    assert_eq!(session.log_lines(&["exec tool=make", "visible", &id]).len(), 1);
    assert!(!session.log().contains("hidden"), "{}", session.log());

    let setup = SessionSetup::new();
    let mut why = setup.coder();
    let outcome = Outcome::of(why.args(["why", "make", "visible"]).args(&args));
    let text = outcome.text();
    let call = text.lines().find(|line| line.contains("visible")).unwrap();
    assert!(!call.contains("hidden"), "{call}");
}

#[test]
fn arguments_that_look_like_secrets_are_redacted() {
    let session = SessionSetup::new().verbose().start();
    let args = [
        "say",
        "visible-1",
        "--token",
        "hidden-1",
        "--password",
        "hidden-2",
        "--api-key=hidden-3",
        "--api-key",
        "hidden-4",
        "--token=hidden-5",
        "visible-2",
    ];
    let id = fresh_id();
    let answer = session.answer(&session.exec("make", args).id(&id));
    let text = format!("{}\n", args[1..].join(" "));
    assert_eq!(answer.text(), text, "the tool gets them as they are");
    let lines = session.log_lines(&["exec tool=make", &id]);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for shown in ["visible-1", "visible-2", "--token", "--password", "--api-key"] {
        assert!(line.contains(shown), "{shown} is not in {line}");
    }
    assert!(!session.log().contains("hidden"), "{}", session.log());

    let mut command = session.shim("make");
    let outcome = Outcome::of(command.args(args).env("AIFO_TOOLCHAIN_VERBOSE", "1"));
    assert!(!outcome.stderr.contains("hidden"), "{}", outcome.stderr);
    assert!(!session.log().contains("hidden"), "{}", session.log());
}
