//! Mailbox requests that wait for approval.

use aifo_tests::{Mailbox, Running, SessionSetup, Signal, eventually};

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
