//! Tests of an agent's terminals with real commands.
//!
//! Proves `spec/acp-hosts.md#terminals`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scratch::Scratch;
use aifo_acp::code;
use aifo_acp_io::{CommandBuilder, TerminalConfig, TerminalVerdict, Terminals};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Command;

/// Returns commands with a readable PATH: with an unreadable directory in it, a missing program would
/// be a permission error.
fn here() -> CommandBuilder {
    Arc::new(|program: &OsStr, variables: &[(String, String)]| {
        let mut command = Command::new(program);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.env("PATH", "/usr/bin:/bin");
        Ok(command)
    })
}

fn config(scratch: &Scratch) -> TerminalConfig {
    TerminalConfig::new(scratch.workspace(), "/ws", here())
}

fn terminals(scratch: &Scratch) -> Terminals {
    Terminals::new(config(scratch))
}

fn create(terminals: &Terminals, params: Value) -> Value {
    let answer = terminals.create(&params).unwrap();
    assert!(answer["terminalId"].is_string());
    answer
}

/// Creates the terminal of a shell line.
fn line(terminals: &Terminals, line: &str) -> Value {
    create(terminals, json!({"sessionId": "s", "command": line}))
}

/// Waits for the exit, and returns output and exit status.
async fn ended(terminals: &Terminals, id: &Value) -> (String, Value) {
    let exit = terminals.wait_for_exit(id).await.unwrap();
    let output = terminals.output(id).unwrap();
    assert_eq!(output["exitStatus"], exit);
    (output["output"].as_str().unwrap().to_owned(), exit)
}

fn exited(code: u8) -> Value {
    json!({"exitCode": code, "signal": null})
}

fn killed() -> Value {
    json!({"exitCode": null, "signal": "SIGKILL"})
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    let patience = tokio::time::timeout(Duration::from_secs(60), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    patience.await.expect("it comes to that");
}

/// Waits until a command has written a number to a file.
async fn pid_in(file: &Path) -> Pid {
    let number = || fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok();
    until(|| number().is_some()).await;
    Pid::from_raw(number().unwrap())
}

/// Returns whether a process is gone or a zombie that init must reap.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) == Err(Errno::ESRCH) || stat.contains(") Z ")
}

#[tokio::test]
async fn shell_lines_and_programs_are_run() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let shell = line(&terminals, "echo out; echo err >&2; printf '%s' \"$0\"; exit 7");
    assert_eq!(ended(&terminals, &shell).await, ("out\nerr\nsh".to_owned(), exited(7)));
    let words =
        create(&terminals, json!({"command": "printf", "args": ["[%s]", "a b", "", "$HOME;"]}));
    assert_eq!(ended(&terminals, &words).await, ("[a b][][$HOME;]".to_owned(), exited(0)));
    let input = line(&terminals, "cat; echo over");
    assert_eq!(ended(&terminals, &input).await, ("over\n".to_owned(), exited(0)));
}

#[tokio::test]
async fn commands_run_in_a_directory_of_the_workspace() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.ws("sub/deep")).unwrap();
    fs::write(scratch.ws("file"), "").unwrap();
    std::os::unix::fs::symlink(scratch.outside(), scratch.ws("away")).unwrap();
    let terminals = Terminals::new(TerminalConfig { cwd: "/ws/sub".into(), ..config(&scratch) });
    let host = scratch.named("sub/deep");
    let rows =
        [(json!(null), "sub"), (json!("/ws/sub/deep"), "sub/deep"), (json!(host), "sub/deep")];
    for (cwd, expected) in rows {
        let id = create(&terminals, json!({"command": "pwd", "cwd": cwd}));
        assert_eq!(ended(&terminals, &id).await.0.trim_end(), scratch.named(expected), "{cwd}");
    }
    for cwd in ["/", "/tmp", "sub", "/ws/../outside", "/ws/away", "/ws-evil", "/ws/file"] {
        let refused = terminals.create(&json!({"command": "pwd", "cwd": cwd})).unwrap_err();
        assert_eq!(refused.code, code::INVALID_PARAMS, "{cwd}");
    }
    let missing = terminals.create(&json!({"command": "pwd", "cwd": "/ws/no"})).unwrap_err();
    assert_eq!(missing.code, code::NOT_FOUND);
}

#[tokio::test]
async fn variables_that_select_programs_are_dropped() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let env = json!([
        {"name": "GIVEN", "value": "a b\n=c"},
        {"name": "PATH", "value": "/nowhere"},
        {"name": "LD_PRELOAD", "value": "/nowhere.so"},
    ]);
    let command = "printf '%s|' \"$GIVEN\" \"$LD_PRELOAD\"; test \"$PATH\" != /nowhere";
    let id = create(&terminals, json!({"command": command, "env": env}));
    assert_eq!(ended(&terminals, &id).await, ("a b\n=c||".to_owned(), exited(0)));
}

#[tokio::test]
async fn the_tail_of_much_output_is_kept() {
    let scratch = Scratch::new();
    let terminals = Terminals::new(TerminalConfig { output: 1000, ..config(&scratch) });
    let flood = "i=0; while [ $i -lt 2000 ]; do printf '€🦀'; i=$((i + 1)); done";
    let rows = [
        (json!(100), 100),
        (json!(null), 1000),
        (json!(1u64 << 40), 1000),
        (json!(-1), 1000),
        (json!("x"), 1000),
        (json!(0), 0),
    ];
    for (asked, limit) in rows {
        let id = create(&terminals, json!({"command": flood, "outputByteLimit": asked}));
        terminals.wait_for_exit(&id).await.unwrap();
        let output = terminals.output(&id).unwrap();
        let text = output["output"].as_str().unwrap();
        assert!(text.len() <= limit && text.len() + 4 > limit, "{asked}: {}", text.len());
        assert!("€🦀".repeat(2000).ends_with(text), "{asked}");
        assert_eq!(output["truncated"], json!(true));
    }
    let little = line(&terminals, "echo little");
    ended(&terminals, &little).await;
    assert_eq!(terminals.output(&little).unwrap()["truncated"], json!(false));
}

#[tokio::test]
async fn endless_output_is_bounded_and_can_be_killed() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let id = create(&terminals, json!({"command": "yes", "outputByteLimit": 50}));
    until(|| terminals.output(&id).unwrap()["truncated"] == json!(true)).await;
    let output = terminals.output(&id).unwrap();
    assert!(output["output"].as_str().unwrap().len() <= 50);
    assert_eq!(output["exitStatus"], Value::Null);
    terminals.kill(&id).unwrap();
    assert_eq!(ended(&terminals, &id).await.1, killed());
}

#[tokio::test]
async fn the_exit_can_be_requested_repeatedly() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let id = line(&terminals, "until test -e go; do sleep 0.01; done; echo gone; exit 3");
    let opening = terminals.output(&id).unwrap();
    assert_eq!(opening, json!({"output": "", "truncated": false, "exitStatus": null}));
    let go = async { fs::write(scratch.ws("go"), "").unwrap() };
    let (first, second, ()) =
        tokio::join!(terminals.wait_for_exit(&id), terminals.wait_for_exit(&id), go);
    assert_eq!([first.unwrap(), second.unwrap()], [exited(3), exited(3)]);
    for _ in 0..2 {
        assert_eq!(ended(&terminals, &id).await, ("gone\n".to_owned(), exited(3)));
    }
}

#[tokio::test]
async fn all_output_is_there_at_the_exit() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    // It ends while the runtime is blocked, so exit and output arrive at once, in any order.
    for n in 0..10 {
        let command = format!("head -c 60000 /dev/zero | tr '\\0' x; echo $$ > leader{n}");
        let id = line(&terminals, &command);
        let number = || fs::read_to_string(scratch.ws(&format!("leader{n}"))).ok();
        let pid = || number()?.strip_suffix('\n')?.parse().ok().map(Pid::from_raw);
        while !pid().is_some_and(is_gone) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ended(&terminals, &id).await, ("x".repeat(60_000), exited(0)));
    }
}

#[tokio::test]
async fn signals_are_reported_by_name() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    for signal in ["SIGTERM", "SIGSEGV", "SIGINT"] {
        let id = line(&terminals, &format!("kill -{} $$", signal.trim_start_matches("SIG")));
        let expected = json!({"exitCode": null, "signal": signal});
        assert_eq!(ended(&terminals, &id).await.1, expected);
    }
}

#[tokio::test]
async fn kill_ends_the_group_and_keeps_the_terminal() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let id = line(&terminals, "trap '' TERM INT HUP; echo on; sleep 1000 & echo $! > child; wait");
    let child = pid_in(&scratch.ws("child")).await;
    terminals.kill(&id).unwrap();
    assert_eq!(ended(&terminals, &id).await, ("on\n".to_owned(), killed()));
    until(|| is_gone(child)).await;
    terminals.kill(&id).unwrap();
    assert_eq!(ended(&terminals, &id).await.1, killed());
}

#[tokio::test]
async fn release_ends_the_group_and_removes_the_terminal() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let id = line(&terminals, "sleep 1000 & echo $! > child; echo $$ > leader; wait");
    let (child, leader) = (pid_in(&scratch.ws("child")).await, pid_in(&scratch.ws("leader")).await);
    let (waited, released) = tokio::join!(terminals.wait_for_exit(&id), terminals.release(&id));
    assert_eq!((waited.unwrap(), released.unwrap()), (killed(), json!({})));
    assert_eq!(kill(leader, None), Err(Errno::ESRCH), "it was reaped");
    until(|| is_gone(child)).await;
    for refused in [terminals.output(&id), terminals.kill(&id)] {
        assert_eq!(refused.unwrap_err().code, code::NOT_FOUND);
    }
    assert_eq!(terminals.release(&id).await.unwrap_err().code, code::NOT_FOUND);
}

#[tokio::test]
async fn background_processes_do_not_delay_the_exit() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let id = line(
        &terminals,
        "(until test -e go; do sleep 0.01; done; echo late; exec sleep 1000) & echo $! > child; echo on",
    );
    assert_eq!(ended(&terminals, &id).await, ("on\n".to_owned(), exited(0)));
    // It may still print.
    fs::write(scratch.ws("go"), "").unwrap();
    until(|| terminals.output(&id).unwrap()["output"] == json!("on\nlate\n")).await;
    let child = pid_in(&scratch.ws("child")).await;
    assert!(!is_gone(child));
    terminals.release(&id).await.unwrap();
    until(|| is_gone(child)).await;
}

#[tokio::test]
async fn unknown_terminals_are_errors() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let ids = [json!("terminal-1"), json!(""), json!("x".repeat(1 << 20))];
    for id in ids.map(|id| json!({"terminalId": id})) {
        for refused in [terminals.output(&id), terminals.kill(&id)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code, code::NOT_FOUND);
            assert!(refused.message.len() < 100);
        }
        assert_eq!(terminals.wait_for_exit(&id).await.unwrap_err().code, code::NOT_FOUND);
    }
    for id in [json!({}), json!({"terminalId": 1}), Value::Null] {
        assert_eq!(terminals.output(&id).unwrap_err().code, code::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn the_number_of_terminals_is_limited() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let ids: Vec<_> = (0..32).map(|_| line(&terminals, "exit 0")).collect();
    for id in &ids {
        ended(&terminals, id).await;
    }
    let refused = terminals.create(&json!({"command": "true"})).unwrap_err();
    assert_eq!(refused.code, code::INTERNAL);
    assert!(refused.message.contains("32"), "{refused}");
    terminals.release(&ids[0]).await.unwrap();
    let next = line(&terminals, "exit 0");
    assert!(!ids.contains(&next), "no number is used again");
}

#[tokio::test]
async fn a_denied_command_gets_an_ended_terminal() {
    let scratch = Scratch::new();
    let judged = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&judged);
    let mut config = config(&scratch);
    config.judge = Arc::new(move |command, (real, _)| {
        let judged_command = (command.argv.join("|"), command.cwd.clone(), real.to_owned());
        seen.lock().unwrap().push(judged_command);
        if command.argv.iter().any(|word| word.starts_with("rm")) {
            TerminalVerdict::Denied("denied by the rule 'no-rm'".into())
        } else {
            TerminalVerdict::Run { no_network: false }
        }
    });
    let terminals = Terminals::new(config);
    fs::write(scratch.ws("file"), "").unwrap();
    let denied = line(&terminals, "rm -f file");
    let reason = "denied by the rule 'no-rm'\n".to_owned();
    assert_eq!(ended(&terminals, &denied).await, (reason, exited(126)));
    assert!(scratch.ws("file").exists());
    terminals.kill(&denied).unwrap();
    terminals.release(&denied).await.unwrap();
    let allowed = create(&terminals, json!({"command": "echo", "args": ["a b"]}));
    assert_eq!(ended(&terminals, &allowed).await, ("a b\n".to_owned(), exited(0)));
    fs::create_dir_all(scratch.ws(".git/sub")).unwrap();
    std::os::unix::fs::symlink(".git", scratch.ws("link")).unwrap();
    let elsewhere = json!({"command": "true", "cwd": "/ws/link/sub"});
    ended(&terminals, &create(&terminals, elsewhere)).await;
    let expected = [
        ("sh|-c|rm -f file", "/ws", ""),
        ("echo|a b", "/ws", ""),
        ("true", "/ws/link/sub", ".git/sub"),
    ];
    let expected = expected.map(|(argv, cwd, real)| (argv.to_owned(), cwd.to_owned(), real.into()));
    assert_eq!(*judged.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_command_without_network_runs_through_the_wrapper() {
    let scratch = Scratch::new();
    let mut config = config(&scratch);
    config.without_network = ["printf", "%s."].map(str::to_owned);
    config.judge = Arc::new(|command, _| TerminalVerdict::Run {
        no_network: command.argv.iter().any(|word| word == "curl"),
    });
    let terminals = Terminals::new(config);
    let args = json!({"command": "curl", "args": ["-o", "a b"]});
    let wrapped = create(&terminals, args);
    assert_eq!(ended(&terminals, &wrapped).await, ("curl.-o.a b.".to_owned(), exited(0)));
    let plain = create(&terminals, json!({"command": "echo", "args": ["x"]}));
    assert_eq!(ended(&terminals, &plain).await, ("x\n".to_owned(), exited(0)));
}

#[tokio::test]
async fn a_failed_start_gets_an_ended_terminal() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    fs::write(scratch.ws("plain"), "not executable").unwrap();
    let rows = [("aifo-no-such-tool", 127), ("./no", 127), ("./plain", 126)];
    for (command, expected) in rows {
        let id = create(&terminals, json!({"command": command}));
        let (output, exit) = ended(&terminals, &id).await;
        assert_eq!(exit, exited(expected), "{command}");
        assert!(output.starts_with(&format!("{command}: ")), "{output}");
    }
    let nowhere: CommandBuilder = Arc::new(|_, _| Err(std::io::Error::other("no container")));
    let terminals = Terminals::new(TerminalConfig { builder: nowhere, ..config(&scratch) });
    assert_eq!(terminals.create(&json!({"command": "ls"})).unwrap_err().code, code::INTERNAL);
}

#[tokio::test]
async fn terminals_end_with_the_connection() {
    let scratch = Scratch::new();
    let terminals = terminals(&scratch);
    let command = |n| format!("sleep 1000 & echo $! > child{n}; echo $$ > leader{n}; wait");
    let running: Vec<_> = (0..3).map(|n| line(&terminals, &command(n))).collect();
    let mut pids = Vec::new();
    for n in 0..3 {
        pids.push(pid_in(&scratch.ws(&format!("child{n}"))).await);
        pids.push(pid_in(&scratch.ws(&format!("leader{n}"))).await);
    }
    let (waited, ()) = tokio::join!(terminals.wait_for_exit(&running[0]), terminals.end_all());
    assert_eq!(waited.unwrap(), killed());
    until(|| pids.iter().all(|pid| is_gone(*pid))).await;
    let refused = terminals.create(&json!({"command": "true"})).unwrap_err();
    assert_eq!(refused.code, code::INTERNAL);
    terminals.end_all().await;
}

#[test]
fn dropping_terminals_ends_them() {
    // Together with their runtime, and before it.
    for drops_in_runtime in [true, false] {
        let scratch = Scratch::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let terminals = terminals(&scratch);
        let pid = runtime.block_on(async {
            line(&terminals, "echo $$ > leader; sleep 1000");
            pid_in(&scratch.ws("leader")).await
        });
        if drops_in_runtime {
            runtime.block_on(async {
                drop(terminals);
                until(|| is_gone(pid)).await;
            });
        } else {
            drop(runtime);
            let waiting =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            waiting.block_on(until(|| is_gone(pid)));
        }
    }
}
