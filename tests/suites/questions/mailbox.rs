//! Mailbox requests that wait for approval.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aifo_tests::{Mailbox, Outcome, Running, SessionSetup, Signal, Tool};
use aifo_tests::{eventually, host};

fn mailbox() -> Mailbox {
    let setup = SessionSetup::new();
    let mut daemon = setup.example("ask_mailbox");
    daemon.arg(setup.workspace().join("mailbox")).arg("make").arg(setup.tools().join("make"));
    Mailbox::served_by(setup, &mut daemon)
}

#[test]
fn a_request_runs_once_it_is_allowed() {
    let mailbox = mailbox();
    let outcome = mailbox.run("make", &["say", "hello", "ask-once"]);
    assert_eq!(outcome.exited(0).text(), "hello ask-once\n");
    let outcome = mailbox.run("make", &["say", "hello", "ask-deny"]);
    let denied = "denied by the user: make say hello ask-deny (rule 'mailbox')";
    assert!(outcome.exited(125).stderr.contains(denied), "{}", outcome.stderr);
    mailbox.assert_clean();
}

#[test]
fn a_signal_and_a_disconnect_end_the_wait() {
    let mailbox = mailbox();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut client = mailbox.client("make");
        let client = Running::start(client.args(["count", "ran", "ask"]));
        eventually("the request is claimed", || {
            mailbox.names().iter().any(|name| name.ends_with(".run"))
        });
        client.signal(signal);
        client.finish();
        mailbox.assert_clean();
    }
    assert!(!mailbox.setup().workspace().join("ran").exists());
}

/// `aifo-coder mailbox git` with this file of the user and these flags.
fn git_mailbox(config: &str, flags: &[&str]) -> Mailbox {
    let setup = host().tool("git", Tool::Fake);
    super::rules::configure(&setup, config);
    Mailbox::of(setup, &[&["git"], flags].concat())
}

#[test]
fn a_daemon_obeys_the_rules_of_the_configuration() {
    let deny = "[[rule]]\nrun = \"git say\"\nthen = \"deny\"\nbecause = \"not here\"\n\n\
                [ask]\ntimeout_secs = 0\n";
    let mailbox = git_mailbox(deny, &[]);
    let outcome = mailbox.run("git", &["say", "x"]);
    let denied = "proxy: denied by rule";
    assert!(outcome.exited(125).stderr.contains(denied), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("not here"), "{}", outcome.stderr);
    assert_eq!(outcome.text(), "");
    // A default rule asks, and there is no time to answer.
    let outcome = mailbox.run("git", &["push", "--force"]);
    let denied = "not approved: git push --force";
    assert!(outcome.exited(125).stderr.contains(denied), "{}", outcome.stderr);
    assert_eq!(mailbox.run("git", &["exit", "3"]).exited(3).text(), "");
    mailbox.assert_clean();
}

#[test]
fn approve_answers_the_questions_of_a_daemon() {
    let rule = "[[rule]]\nrun = \"git say\"\nthen = \"ask\"\n";
    let mailbox = git_mailbox(rule, &[]);
    let approve = |args: &[&str]| Outcome::of(mailbox.setup().coder().arg("approve").args(args));
    approve(&[]).exited(0);
    for (option, code) in [("once", 0), ("deny", 125)] {
        let mut client = mailbox.client("git");
        let call = Running::start(client.args(["say", option]));
        let mut listed = String::new();
        eventually("it is listed", || {
            listed = approve(&[]).exited(0).text();
            listed.contains(&format!("  git say {option}\n"))
        });
        let id = listed.split_whitespace().next().unwrap();
        approve(&["--answer", id, option]).exited(0);
        assert_eq!(call.finish().code(), Some(code), "{option}");
    }
    // It is no session: other commands do not find it.
    let sessions = Outcome::of(mailbox.setup().coder().arg("sessions"));
    assert!(sessions.stderr.contains("no running sessions"), "{sessions:?}");
    let hint = "waiting for approval: git say once; answer with: aifo-coder approve ";
    mailbox.assert_clean();
    let (_, outcome) = mailbox.stop();
    assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
}

#[test]
fn a_daemon_without_rules_runs_every_call() {
    let mailbox = git_mailbox("", &["--no-rules"]);
    let outcome = mailbox.run("git", &["push", "--force"]);
    assert!(!outcome.stderr.contains("denied"), "{}", outcome.stderr);
    assert_ne!(outcome.code(), Some(125));
}

#[test]
fn the_program_of_ask_command_answers_a_daemons_questions() {
    let setup = host().tool("git", Tool::Fake);
    let directory = setup.scratch().join("programs");
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join("answers");
    let body = "#!/bin/sh\nread line\ncase $line in *yes*) echo once;; *) echo deny;; esac\n";
    fs::write(&program, body).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let rule = "[[rule]]\nrun = \"git say\"\nthen = \"ask\"\n";
    super::rules::configure(&setup, &format!("{rule}[ask]\ncommand = [{program:?}]\n"));
    let mailbox = Mailbox::of(setup, &["git"]);
    assert_eq!(mailbox.run("git", &["say", "yes"]).exited(0).text(), "yes\n");
    let outcome = mailbox.run("git", &["say", "no"]);
    let denied = "denied by the user: git say no";
    assert!(outcome.exited(125).stderr.contains(denied), "{}", outcome.stderr);
    mailbox.assert_clean();
}
