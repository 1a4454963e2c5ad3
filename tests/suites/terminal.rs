//! Terminals: aifo's own lines, the calling shell, and job control.
//!
//! Proves `spec/shim.md#parent-shell`.

use std::process::Command;

use aifo_tests::{
    Running, Session, SessionSetup, Signal, Terminal, Tool, argv, eventually, fresh_id, is_alive,
    is_stopped, send_signal, tagged_processes,
};

/// Returns to the line's start and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// An interactive or script shell in which `make` is the shim.
fn bash(session: &Session, args: &[&str]) -> Command {
    let mut shell = Command::new("/bin/bash");
    shell.args(["--norc", "--noprofile"]).args(args).env_clear();
    let shim = session.shim("make");
    shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // A fixed prompt and no line editing, so the screen has only printed text.
    shell.env("TERM", "dumb").env("PS1", "PROMPT ").current_dir(session.workspace());
    shell
}

/// Waits for the shell's nth prompt. Keys typed before it go to the tool.
#[track_caller]
fn expect_prompts(terminal: &Terminal, count: usize) -> &Terminal {
    eventually(&format!("the shell has prompted {count} times"), || {
        terminal.shown().matches("PROMPT ").count() == count
    });
    terminal
}

/// The tool of an exec, which may have other tagged processes.
#[track_caller]
fn waiting_tool(id: &str) -> i32 {
    let tool = tagged_processes(id).into_iter().find(|&pid| argv(pid) == ["make", "wait"]);
    tool.expect("the tool of the exec runs")
}

/// Waits for a complete line with `text`; each of aifo's lines must start on a cleared line.
#[track_caller]
fn check_lines(terminal: &Terminal, text: &str, prefix: &str) {
    eventually(&format!("a line holds {text:?}"), || {
        let shown = terminal.shown();
        shown.contains(text) && shown.ends_with('\n')
    });
    for line in terminal.shown().split_inclusive('\n') {
        assert!(line.starts_with(&format!("{CLEAR}{prefix}")), "{line:?}");
    }
}

#[test]
fn a_shims_lines_clear_the_line_they_stand_on() {
    let session = Session::start();
    let shown_by = |tool: &str, verbose: &str| {
        let terminal = Terminal::new();
        let mut shim = session.shim(tool);
        shim.arg("exit").arg("3").env("AIFO_TOOLCHAIN_VERBOSE", verbose).stderr(terminal.stdio());
        let ended = shim.status().expect("the shim starts").code();
        (ended, terminal)
    };
    let (ended, terminal) = shown_by("make", "1");
    assert_eq!(ended, Some(3));
    check_lines(&terminal, "tool=make", "aifo-shim: ");

    let (ended, terminal) = shown_by("ls", "0");
    assert_eq!(ended, Some(86));
    check_lines(&terminal, "forbidden", "aifo-shim: ");

    let (ended, terminal) = shown_by("make", "0");
    assert_eq!((ended, terminal.shown().as_str()), (Some(3), ""), "quiet is quiet");
}

#[test]
fn a_launchers_lines_clear_the_line_they_stand_on() {
    let setup = SessionSetup::new().verbose();
    let terminal = Terminal::new();
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "c-cpp", "--", "make", "say", "hi"]).stderr(terminal.stdio());
    let output = run.output().expect("aifo-coder starts");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"hi\n"[..]));
    check_lines(&terminal, "until the command ends, log lines go to '", "aifo-");
}

/// Also the launcher's last error.
#[test]
fn a_failed_start_clears_the_line_it_stands_on() {
    let setup = SessionSetup::new();
    let terminal = Terminal::new();
    let mut serve = setup.coder();
    serve.args(["serve", "--workspace", "/no/such/place"]).stderr(terminal.stdio());
    assert_eq!(serve.status().expect("aifo-coder starts").code(), Some(86));
    check_lines(&terminal, "cannot be the workspace", "aifo-coder: ");
}

#[test]
fn an_interactive_shell_without_its_proxy_is_hung_up() {
    let session = Session::start();
    let terminal = Terminal::new();
    let shell = terminal.start(&bash(&session, &["-i"]));
    terminal.expect("PROMPT ").press("make wait\n");
    terminal.expect("ready");
    send_signal(session.pid(), Signal::SIGKILL);
    assert_eq!(shell.finish(), Err(Signal::SIGHUP as i32));
    terminal.expect("status is unknown");
}

#[test]
fn the_environment_keeps_the_shell() {
    let session = Session::start();
    let terminal = Terminal::new();
    let mut shell = bash(&session, &["-i"]);
    shell.env("AIFO_SHIM_KILL_PARENT_SHELL_ON_SIGINT", "0");
    let shell = terminal.start(&shell);
    terminal.expect("PROMPT ").press("make wait\n");
    terminal.expect("ready");
    send_signal(session.pid(), Signal::SIGKILL);
    terminal.expect("status is unknown").press("echo code=$?\n");
    terminal.expect("code=125").press("exit 7\n");
    assert_eq!(shell.finish(), Ok(7));
}

/// A script is not treated as an interactive shell.
#[test]
fn a_script_on_a_terminal_is_no_interactive_shell() {
    let session = Session::start();
    let terminal = Terminal::new();
    let shell = terminal.start(&bash(&session, &["-c", "make wait; echo code=$?"]));
    terminal.expect("ready");
    send_signal(session.pid(), Signal::SIGKILL);
    terminal.expect("code=125");
    assert_eq!(shell.finish(), Ok(0));
}

#[test]
fn without_a_terminal_no_shell_is_hung_up() {
    let session = Session::start();
    let shell = Running::start(&mut bash(&session, &["-c", "make wait; echo code=$?"]));
    shell.expect("ready\n");
    send_signal(session.pid(), Signal::SIGKILL);
    assert_eq!(shell.finish().exited(0).text(), "ready\ncode=125\n");
}

#[test]
fn a_tool_that_fails_by_itself_hangs_up_on_no_process() {
    let session = Session::start();
    let terminal = Terminal::new();
    let shell = terminal.start(&bash(&session, &["-i"]));
    expect_prompts(&terminal, 1).press("make exit 125\n");
    expect_prompts(&terminal, 2).press("echo code=$?; exit 7\n");
    terminal.expect("code=125");
    assert_eq!(shell.finish(), Ok(7));
    assert!(!terminal.shown().contains("aifo-shim"), "{}", terminal.shown());
}

/// Version 3 types them on the tool terminal; version 2 forwards their signals.
#[test]
fn ctrl_c_and_ctrl_z_are_the_tools() {
    let session = Session::start();
    for version in ["2", "3"] {
        let id = fresh_id();
        let terminal = Terminal::new();
        let mut shell = bash(&session, &["-i"]);
        shell.env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", version);
        let shell = terminal.start(&shell);
        expect_prompts(&terminal, 1).press("make wait\n");
        terminal.expect("ready");
        let tool = waiting_tool(&id);

        terminal.press("\x1a");
        terminal.expect("Stopped");
        eventually("the tool is stopped", || is_stopped(tool));
        expect_prompts(&terminal, 2).press("fg\n");
        eventually("the tool goes on", || !is_stopped(tool));
        terminal.press("\x03");
        eventually("the tool is interrupted", || !is_alive(tool));
        expect_prompts(&terminal, 3).press("echo code=$?; exit 7\n");
        terminal.expect("code=130");
        assert_eq!(shell.finish(), Ok(7), "version {version}");
    }
}

/// Without a shell: the shim stops and continues with its tool.
#[test]
fn a_stopped_shim_stops_its_tool() {
    let session = Session::start();
    let interrupted = |version: &str| {
        let id = fresh_id();
        let mut command = session.shim("make");
        command.arg("wait").env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", version);
        let shim = Running::start(&mut command);
        shim.expect("ready\n");
        let tool = waiting_tool(&id);
        for _ in 0..3 {
            shim.signal(Signal::SIGTSTP);
            eventually("both are stopped", || is_stopped(tool) && is_stopped(shim.pid()));
            shim.signal(Signal::SIGCONT);
            eventually("both go on", || !is_stopped(tool) && !is_stopped(shim.pid()));
        }
        shim.signal(Signal::SIGTERM);
        shim.finish()
    };
    assert_eq!(interrupted("2").exited(143).text(), "ready\n");
    assert_eq!(interrupted("3").died_of(Signal::SIGTERM).text(), "ready\n");
}

/// An agent controls the terminal as if it had been started directly.
#[test]
fn an_agent_is_in_the_foreground_and_hears_ctrl_c() {
    let setup =
        SessionSetup::new().tool("my-agent", Tool::Fake).tool("sh", Tool::Link("/bin/sh".into()));
    let run = |command: &[&str]| {
        let terminal = Terminal::new();
        let mut run = setup.coder();
        run.args(["run", "--toolchain", "c-cpp", "--"]).args(command);
        let process = terminal.start(&run);
        (terminal, process)
    };
    let (terminal, process) = run(&["my-agent", "ids"]);
    let leader = process.pid();
    assert_eq!(process.finish(), Ok(0));
    terminal.expect(&format!(" {leader} {leader}\r\n"));

    let (terminal, process) = run(&["sh", "-c", "make catch; echo code=$?"]);
    // Not the sidecar's "ready in" line.
    terminal.expect("ready\r\n").press("\x03");
    terminal.expect("SIGINT\r\n");
    // The shell is interrupted as well, after its child has ended.
    assert!(matches!(process.finish(), Ok(0 | 130)), "{}", terminal.shown());
}
