//! The start of test programs is the same wherever cargo was started.

use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{Outcome, Running, Scratch, Signal, copy_executable, eventually, processes_using};

/// Prints all that a process inherits.
const REPORT: &str = "\
    grep -E '^(Umask|Sig(Blk|Ign)|NSsid|NSpgid)' /proc/self/status | sed 's/NS.*//'
    ulimit -a; ls /proc/self/fd; readlink /proc/self/fd/0; env -u PWD -u _ | sort
    set -- $(sed 's/.*) //' /proc/$$/stat)
    [ \"$2\" = \"$4\" ] && [ \"$3\" = $$ ] && echo \"child of the session leader, own group, terminal $5\"";

/// Places and ways in which a caller starts the program.
const CALLERS: [(&str, &str); 8] = [
    ("a service or setsid", r#"exec setsid --wait "$@""#),
    ("nohup, and a CI runner", r#"exec env --ignore-signal=HUP,PIPE,TTIN,TTOU,TSTP "$@""#),
    ("all ignorable signals ignored", r#"exec env --ignore-signal "$@""#),
    ("all signals blocked", r#"exec env --block-signal "$@""#),
    ("another umask", r#"umask 077; exec "$@""#),
    ("a closed stdin", r#"exec "$@" <&-"#),
    ("limits and open files", r#"ulimit -S -n 40 -c unlimited; exec "$@" 3</dev/null 7>&1"#),
    ("variables", r#"TMPDIR=/none GIT_DIR=/none MAKEFLAGS=-n LC_ALL=tr_TR exec "$@""#),
];

#[test]
fn a_test_program_starts_in_the_same_way_from_everywhere() {
    let scratch = Scratch::new();
    let program = probe(&scratch);
    let started = |caller: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", caller, "bash", RUNNER]).arg(&program).args(["-c", REPORT]);
        Outcome::of(&mut command).exited(0).text()
    };
    let plain = started(r#"exec "$@""#);
    assert!(plain.ends_with("child of the session leader, own group, terminal 0\n"), "{plain}");
    for (name, caller) in CALLERS {
        assert_eq!(started(caller), plain, "{name}");
    }
}

#[test]
fn a_test_program_ends_with_its_caller_and_as_it_does() {
    let scratch = Scratch::new();
    let program = probe(&scratch);
    let run = |script: &str| {
        let mut command = Command::new(RUNNER);
        command.arg(&program).args(["-c", script]);
        command
    };
    Outcome::of(&mut run("exit 7")).exited(7);
    Outcome::of(&mut run("kill -ABRT $$")).exited(128 + Signal::SIGABRT as i32);
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let mut caller = Command::new("sh");
        caller.args(["-c", r#""$@" & wait"#, "sh", RUNNER]).arg(&program);
        let caller = Running::start(caller.args(["-c", "sleep 1000 & echo ready; wait"]));
        caller.expect("ready").signal(signal);
        eventually("the program and its group have ended", || {
            processes_using(scratch.path()).is_empty()
        });
    }
}

/// A program in a directory of test programs.
fn probe(scratch: &Scratch) -> PathBuf {
    let program = scratch.path().join("deps/probe");
    std::fs::create_dir(scratch.path().join("deps")).unwrap();
    copy_executable("/bin/sh", &program);
    program
}

const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/run_test_program.py");
