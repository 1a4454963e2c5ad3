//! Ends of held sessions: with a client, without one, and of their holders.

use std::fs;

use aifo_tests::{Outcome, Signal, Terminal, eventually, is_alive, send_signal};

use super::{DRAWS, appears, coder, held_setup, holder, holders, kept, put, sessions};

#[test]
fn an_end_that_no_terminal_showed_waits_for_the_next() {
    let setup = held_setup();
    let script = "echo the result; : >began; while [ ! -e go ]; do /bin/sleep 0.02; done; exit 5";
    let id = Outcome::of(&mut kept(&setup, "--detach", script)).exited(0).text();
    let id = id.trim_end();
    appears(&setup, "began");
    put(&setup, "go");
    eventually("the end is listed", || {
        let text = sessions(&setup);
        text.starts_with("bash-1 ") && text.contains(" ended ")
    });
    // It is no remain of a killed session.
    Outcome::of(&mut coder(&setup, &["cleanup"])).exited(0);
    assert_eq!(holders(&setup).len(), 1);
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&coder(&setup, &["attach", &id[..6]]));
    assert_eq!(attach.finish(), Ok(5), "{}", terminal.shown());
    assert!(terminal.shown().contains("the result"), "{}", terminal.shown());
    assert_eq!(holders(&setup).len(), 0);
    let again = terminal.start(&coder(&setup, &["attach", id]));
    assert_eq!(again.finish(), Ok(1));
    terminal.expect("no held session '");
}

#[test]
fn a_killed_holder_ends_the_command() {
    let setup = held_setup();
    let script = "trap 'echo >hung-up; exit' HUP; echo started; while :; do /bin/sleep 0.02; done";
    let terminal = Terminal::sized(80, 24);
    let before = terminal.modes();
    let run = terminal.start(&kept(&setup, "--keep", script));
    terminal.expect("started");
    eventually("the session is listed", || sessions(&setup).contains("\n  1 client\n"));
    let pid = holder(&setup);
    send_signal(pid, Signal::SIGKILL);
    assert_eq!(run.finish(), Ok(125));
    terminal.expect("was killed; the session's command was hung up");
    assert_eq!(terminal.modes(), before);
    appears(&setup, "hung-up");
    eventually("the session has ended", || {
        let text = sessions(&setup);
        text.lines().count() == 1 && text.contains("was hung up: its holder was killed")
    });
    Outcome::of(&mut coder(&setup, &["cleanup"])).exited(0);
    eventually("nothing is left", || fs::read_dir(setup.runtime()).unwrap().count() == 0);
}

#[test]
fn a_terminated_holder_ends_the_session_in_order() {
    let setup = held_setup();
    let script = "trap 'echo told; exit 9' TERM; : >began; while :; do /bin/sleep 0.02; done";
    Outcome::of(&mut kept(&setup, "--detach", script)).exited(0);
    appears(&setup, "began");
    let pid = holder(&setup);
    send_signal(pid, Signal::SIGTERM);
    eventually("the holder has ended", || !is_alive(pid));
    let terminal = Terminal::sized(80, 24);
    assert_eq!(terminal.start(&coder(&setup, &["attach"])).finish(), Ok(9));
    terminal.expect("told");
}

#[test]
fn a_session_that_cannot_start_says_so() {
    let setup = held_setup();
    let terminal = Terminal::sized(80, 24);
    let words = ["run", "--keep", "--toolchain", "auto", "--", "/no/such/program"];
    assert_eq!(terminal.start(&coder(&setup, &words)).finish(), Ok(127), "{}", terminal.shown());
    terminal.expect("cannot run '/no/such/program'");
    let words = ["run", "--detach", "--backend", "local", "--toolchain", "nonsense", "--", "x"];
    let outcome = Outcome::of(&mut coder(&setup, &words));
    assert!(outcome.exited(2).stderr.clone().contains("nonsense"));
    assert_eq!(holders(&setup).len(), 0);
}

/// Its tools' sidecars too: nothing of the session is left.
#[test]
fn a_client_may_leave_while_the_session_ends() {
    for _ in 0..5 {
        let setup = held_setup();
        let terminal = Terminal::sized(80, 24);
        let run = terminal.start(&kept(&setup, "--keep", DRAWS));
        terminal.expect("drawn for");
        put(&setup, "go");
        send_signal(run.pid(), Signal::SIGKILL);
        assert_eq!(run.finish(), Err(9));
        eventually("the session has ended", || !sessions(&setup).contains(", local\n"));
        let attach = terminal.start(&coder(&setup, &["attach"]));
        // The first client may have got the end before it was killed.
        let code = attach.finish().unwrap();
        assert!([7, 1].contains(&code), "{code} {}", terminal.shown());
    }
}
