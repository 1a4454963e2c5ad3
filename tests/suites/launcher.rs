//! `aifo-coder run`: a session around one command, which leaves nothing.
//!
//! Proves `spec/cli.md#run`, `spec/cli.md#exit-codes`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    Outcome, Running, SessionSetup, Signal, Tool, argv, children, descendants, eventually,
    files_below, is_alive, is_zombie,
};
use nix::sys::signal::killpg;
use nix::unistd::Pid;

/// `aifo-coder run --toolchain c-cpp -- COMMAND`
fn run(setup: &SessionSetup, command: &[&str]) -> Command {
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "c-cpp", "--"]).args(command);
    run
}

/// A setup with a fake agent: the fake tool under a name that no sidecar allows.
fn setup() -> SessionSetup {
    SessionSetup::new().tool("my-agent", Tool::Fake).tool("sh", Tool::Link("/bin/sh".into()))
}

/// The value of a variable in the output of `env`.
fn variable<'a>(env: &'a str, name: &str) -> Option<&'a str> {
    env.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[track_caller]
fn check_nothing_left(setup: &SessionSetup) {
    let left = files_below(&setup.runtime());
    assert!(left.is_empty(), "{left:?}");
}

/// The launcher raises its own soft limit, for connections and calls.
#[test]
fn a_commands_open_files_are_limited_as_the_launchers_were() {
    let setup = setup().through(&["/bin/sh", "-c", "ulimit -S -n 333; exec \"$@\"", "sh"]);
    let report = "ulimit -S -n; /bin/grep 'open files' /proc/$PPID/limits";
    let text = Outcome::of(&mut run(&setup, &["sh", "-c", report])).exited(0).text();
    let (own, launchers) = text.split_once('\n').unwrap();
    assert_eq!(own, "333");
    let numbers: Vec<&str> = launchers.split_whitespace().collect();
    assert_eq!(numbers.get(3), numbers.get(4), "raised: {launchers}");
}

#[test]
fn the_exit_code_is_the_commands() {
    let setup = setup();
    for code in [0, 1, 86, 125, 255] {
        Outcome::of(&mut run(&setup, &["my-agent", "exit", &code.to_string()])).exited(code);
    }
    Outcome::of(&mut run(&setup, &["my-agent", "die", "9"])).exited(137);
    check_nothing_left(&setup);
}

#[test]
fn the_commands_output_is_untouched() {
    let setup = setup();
    let outcome = Outcome::of(&mut run(&setup, &["my-agent", "both", "2"]));
    assert_eq!(outcome.exited(0).text(), "out 0\nout 1\n");
    assert!(outcome.stderr.contains("err 0\nerr 1\n"), "{}", outcome.stderr);
}

#[test]
fn arguments_behind_the_dashes_are_the_commands() {
    let setup = setup();
    let args = ["--toolchain", "x", "--", "-h", "", "a b"];
    let outcome = Outcome::of(&mut run(&setup, &[&["my-agent", "args"], &args[..]].concat()));
    let expected: String = args.iter().map(|arg| format!("{arg}\0")).collect();
    assert_eq!(outcome.exited(0).text(), expected);
}

#[test]
fn the_environment_contract_is_set() {
    let setup = setup();
    let outcome = Outcome::of(&mut run(&setup, &["my-agent", "env"]));
    let env = outcome.exited(0).text();
    assert_eq!(variable(&env, "AIFO_AGENT_NAME"), Some("my-agent"));
    assert_eq!(variable(&env, "AIFO_WORKSPACE"), setup.workspace().to_str());
    assert!(variable(&env, "AIFO_TOOLEEXEC_URL").is_some_and(|url| url.starts_with("unix:///")));
    assert!(variable(&env, "AIFO_TOOLEEXEC_TOKEN").is_some_and(|token| token.len() >= 32));
    let path = variable(&env, "PATH").expect("PATH is set");
    let (shims, rest) = path.split_once(':').expect("shims first, then the rest");
    assert_eq!(Some(rest), setup.tools().to_str());
    assert_ne!(Some(shims), setup.tools().to_str());
}

#[test]
fn tools_that_the_command_calls_run_in_their_sidecar() {
    let setup = setup();
    let script = "command -v make; make env; make exit 7";
    let outcome = Outcome::of(&mut run(&setup, &["sh", "-c", script]));
    let text = outcome.exited(7).text();
    let found = text.lines().next().expect("sh finds make");
    assert!(!Path::new(found).starts_with(setup.tools()), "{found} is the tool itself");
    assert!(variable(&text, "AIFO_EXEC").is_some(), "it carries an exec tag: {text}");
    assert_eq!(variable(&text, "AIFO_TOOLEEXEC_TOKEN"), None);
}

#[test]
fn kinds_are_detected_from_the_projects_files() {
    let rows = [
        ("Cargo.toml", "cargo", "rust"),
        ("Makefile", "make", "c-cpp"),
        ("go.mod", "go", "go"),
        ("package.json", "node", "node"),
        ("pyproject.toml", "python3", "python"),
    ];
    for (file, tool, kind) in rows {
        let setup = rows.iter().fold(setup(), |setup, row| setup.tool(row.1, Tool::Fake));
        fs::write(setup.workspace().join(file), "").unwrap();
        let explained = Outcome::of(setup.coder().args(["why", tool]));
        let line = format!("\nsidecars:    {kind}; on the first call: ");
        assert!(explained.exited(0).text().contains(&line), "{file}: {explained:?}");
        for (_, called, _) in rows {
            let mut run = setup.coder();
            run.args(["run", "--", "sh", "-c"]).arg(format!("{called} say hi"));
            assert_eq!(Outcome::of(&mut run).exited(0).text(), "hi\n", "{file} {called}");
        }
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let setup = setup().tool("no-program", Tool::File(b"text\n".to_vec(), 0o644));
    for (command, code) in [("no-such-command", 127), ("/no/such/command", 127)] {
        let outcome = Outcome::of(&mut run(&setup, &[command]));
        assert!(outcome.exited(code).stderr.contains(command), "{}", outcome.stderr);
    }
    let path = setup.tools().join("no-program");
    Outcome::of(&mut run(&setup, &[path.to_str().unwrap()])).exited(126);
    check_nothing_left(&setup);
}

/// The command runs a tool when the session is ended from outside.
#[test]
fn a_signal_ends_the_session_and_all_in_it() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let setup = setup();
        let mut command = run(&setup, &["sh", "-c", "make wait"]);
        let run = Running::start(command.process_group(0));
        run.expect("ready\n");
        let all = descendants(run.pid());
        assert!(all.len() >= 4, "guard, runner, tool and shim, which sh may have become: {all:?}");
        match signal {
            // As Ctrl-C in a terminal: to the whole foreground group.
            Signal::SIGINT => killpg(Pid::from_raw(run.pid()), signal).unwrap(),
            _ => _ = run.signal(signal),
        }
        run.finish().exited(code);
        eventually("no process is left", || !all.iter().any(|&pid| is_alive(pid)));
        check_nothing_left(&setup);
    }
}

#[test]
fn background_processes_of_tools_end_with_the_session() {
    let setup = setup();
    let file = setup.workspace().join("leaf");
    let outcome = Outcome::of(&mut run(&setup, &["make", "daemon", file.to_str().unwrap()]));
    outcome.exited(0);
    let leaf = fs::read_to_string(file).unwrap().parse().expect("the leaf writes its pid");
    eventually("the leaf is gone", || !is_alive(leaf));
}

/// A known agent on this machine, in a directory with shells that have this login profile.
fn known_agent(profile: &str) -> SessionSetup {
    let setup = SessionSetup::new()
        .script("codex", "make args; echo $AIFO_SHIM_SMART_NODE \"$@\"")
        .tool("sh", Tool::Link("/bin/sh".into()))
        .tool("bash", Tool::Link("/bin/bash".into()));
    fs::write(setup.scratch().join("home/.bash_profile"), profile).unwrap();
    setup
}

const SHIMS_FIRST: &str =
    "own=${AIFO_TOOLEEXEC_URL#unix://}; PATH=\"${own%/front/*}/shims:$PATH\"\n";

#[test]
fn a_known_agents_shells_are_looked_at_before_it_starts() {
    let setup = known_agent("PATH=/usr/bin:/bin\n");
    let outcome = Outcome::of(&mut run(&setup, &["codex", "-x"]));
    assert_eq!(outcome.exited(0).text(), "1 -x\n");
    let warnings: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("WARNING")).collect();
    let beginning = "aifo-coder: WARNING: 'bash -lc' ";
    assert!(matches!(warnings[..], [only] if only.starts_with(beginning)), "{outcome:?}");

    let setup = known_agent(SHIMS_FIRST);
    let outcome = Outcome::of(&mut run(&setup, &["codex"]));
    assert!(!outcome.exited(0).stderr.contains("WARNING"), "{outcome:?}");
    check_nothing_left(&setup);
}

#[test]
fn an_agent_by_its_name_runs_here_where_there_are_no_containers() {
    let setup = known_agent(SHIMS_FIRST);
    let agent = |words: &[&str]| {
        let mut run = setup.coder();
        run.args(["run", "--backend", "local", "--toolchain", "c-cpp"]).args(words);
        Outcome::of(&mut run)
    };
    // The row's own arguments come first, once.
    let outcome = agent(&["codex", "exec", "-q", "--", "x"]);
    assert_eq!(outcome.exited(0).text(), "1 --no-daemon exec -q -- x\n");
    let last = outcome.stderr.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("aifo-coder: 1 tool call, none failed, "), "{outcome:?}");
    assert_eq!(agent(&["codex", "--no-daemon"]).exited(0).text(), "1 --no-daemon\n");
    assert_eq!(agent(&["-q", "codex"]).exited(0).stderr, "");
    let unknown = agent(&["codx"]);
    assert!(unknown.exited(2).stderr.contains("did you mean 'codex'?"), "{unknown:?}");
    check_nothing_left(&setup);
}

#[test]
fn the_top_level_of_a_repository_is_the_workspace() {
    let setup = setup();
    let below = setup.workspace().join("sub/deep");
    fs::create_dir_all(&below).unwrap();
    let printed = |options: &[&str]| {
        let mut run = setup.coder();
        run.args(["run", "-q", "--backend=local", "--toolchain=rust"]).args(options);
        run.args(["--", "/bin/sh", "-c", "echo $AIFO_WORKSPACE; pwd"]).current_dir(&below);
        Outcome::of(&mut run).exited(0).text()
    };
    let (root, deep) = (setup.workspace(), below.clone());
    let lines = |workspace: &Path| format!("{}\n{}\n", workspace.display(), deep.display());
    assert_eq!(printed(&[]), lines(&deep), "no repository");
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert_eq!(printed(&[]), lines(&root));
    assert_eq!(printed(&["--workspace", "."]), lines(&deep));
}

/// Their parents end first, so the launcher adopts them. Meanwhile the statuses of its own children arrive.
#[test]
fn orphans_of_a_command_are_reaped_while_it_runs() {
    let setup = setup();
    let script = "i=0; while [ $i -lt 1000 ]; do ( /bin/sleep 0.2 & ); i=$((i + 1)); done
        for code in 0 3 77; do make exit $code; echo $?; done > codes
        : > started; until [ -e end ]; do /bin/sleep 0.02; done; exit 7";
    let running = Running::start(&mut run(&setup, &["sh", "-c", script]));
    let started = setup.workspace().join("started");
    eventually("all are started", || started.exists());
    eventually("none is left", || {
        children(running.pid()).iter().all(|pid| !is_zombie(*pid) && !is_orphan(*pid))
    });
    assert_eq!(fs::read_to_string(setup.workspace().join("codes")).unwrap(), "0\n3\n77\n");
    fs::write(setup.workspace().join("end"), "").unwrap();
    assert_eq!(running.finish().code(), Some(7));
    check_nothing_left(&setup);
}

/// Returns whether a process is one of the orphans.
fn is_orphan(pid: i32) -> bool {
    argv(pid) == ["/bin/sleep", "0.2"]
}

/// `-h` shows the options that matter; `--help` shows all.
#[test]
fn the_short_help_of_run_fits_on_a_screen() {
    let setup = SessionSetup::new();
    let help = |words: &[&str]| {
        let outcome = Outcome::of(setup.coder().args(words));
        assert_eq!(outcome.exited(0).stderr, "", "{words:?}");
        outcome.text().to_owned()
    };
    let (short, long) = (help(&["run", "-h"]), help(&["run", "--help", "all"]));
    assert_eq!(help(&["run", "--help"]), short);
    assert!(short.lines().count() <= 50, "{short}");
    let options = |text: &str| {
        text.lines().filter(|line| line.contains(" --") && line.starts_with("      --")).count()
    };
    assert_eq!(options(&short), 10, "{short}");
    assert!(options(&long) > 40, "{long}");
    assert!(
        short.starts_with("Run an agent in a container") && short.contains("run --help all"),
        "{short}"
    );
    assert!(long.contains("--max-secs") && !short.contains("--max-secs"), "{short}");
}
