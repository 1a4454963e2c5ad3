//! Parents as agents use them (a shell, node, python and tmux) with native tools and with shims:
//! the results are equal.
//!
//! Proves `spec/native.md#known-differences`.

mod scripts;

use aifo_tests::{Comparison, ExecMode, RunResult, Tmux, can_run, passes_descriptors, program};

use scripts::{OF_BASH, OF_ONE_PIPE, SCRIPTS};

const TOOLS: [&str; 4] = ["python3", "node", "make", "cc"];

#[track_caller]
fn comparison(test: &str) -> Option<Comparison> {
    Comparison::start(&format!("parents::{test}"), &TOOLS)
}

/// Runs each script in each shell and mode; panics with all differences.
#[track_caller]
fn check_scripts(comparison: &Comparison, modes: &[ExecMode], shells: &[&str], scripts: &[&str]) {
    let calls = shells.iter().flat_map(|shell| scripts.iter().map(move |script| (shell, script)));
    let printed =
        calls.filter_map(|(shell, script)| comparison.compare(modes, &[shell, "-c", script]).err());
    let differences: Vec<String> = printed.collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.concat());
}

/// The result of a script, which must be equal natively and with shims.
#[track_caller]
fn everywhere(comparison: &Comparison, words: &[&str]) -> RunResult {
    comparison.compare(&ExecMode::ALL, words).unwrap_or_else(|difference| panic!("{difference}"))
}

#[test]
fn bash_runs_its_scripts() {
    let Some(comparison) = comparison("bash_runs_its_scripts") else { return };
    check_scripts(&comparison, &ExecMode::ALL, &["bash"], SCRIPTS);
    check_scripts(&comparison, &ExecMode::ALL, &["bash"], OF_BASH);
}

#[test]
fn dash_runs_its_scripts() {
    let test = "dash_runs_its_scripts";
    if !can_run(&format!("parents::{test}"), &["dash", "-c", ":"]) {
        return;
    }
    let Some(comparison) = comparison(test) else { return };
    check_scripts(&comparison, &ExecMode::ALL, &["dash"], SCRIPTS);
}

#[test]
fn a_pipe_of_several_readers_stays_whole() {
    if !passes_descriptors("a_pipe_of_several_readers_stays_whole") {
        return;
    }
    let Some(comparison) = comparison("a_pipe_of_several_readers_stays_whole") else { return };
    check_scripts(&comparison, &[ExecMode::Native, ExecMode::Passed], &["bash", "sh"], OF_ONE_PIPE);
}

/// Proves that the comparison can fail.
#[test]
fn expected_results_are_compared() {
    let Some(comparison) = comparison("expected_results_are_compared") else { return };
    let bash = |script| everywhere(&comparison, &["bash", "-c", script]);
    let rows = [
        ("ninja both 2 2>/dev/null", Ok(0), "out 0\nout 1\n", ""),
        ("ninja both 2 >/dev/null; exit 3", Ok(3), "", "err 0\nerr 1\n"),
        ("x=$(python3 -c 'print(1); raise SystemExit(3)'); echo \"$x $?\"", Ok(0), "1 3\n", ""),
        ("python3 - <<'EOF'\nprint('heredoc')\nEOF", Ok(0), "heredoc\n", ""),
        ("printf 'a' | node -e 'process.stdin.pipe(process.stdout)'", Ok(0), "a", ""),
        ("clang | head -1; echo ${PIPESTATUS[@]}", Ok(0), "y\n141 0\n", ""),
        ("exec ninja die 15", Err(15), "", ""),
        ("ninja die 9; echo $?", Ok(0), "137\n", "bash: line 1: PID Killed ninja die 9\n"),
        ("ninja die 15; echo $?", Ok(0), "143\n", "Terminated\n"),
        ("CI=1 python3 -c 'import os; print(os.environ[\"CI\"])'", Ok(0), "1\n", ""),
    ];
    for (script, ending, stdout, stderr) in rows {
        let left = bash(script);
        assert_eq!(
            (left.ending, &*left.stdout, &*left.stderr),
            (ending, stdout, stderr),
            "{script}"
        );
    }
    let left = bash("umask 027; ninja say hi > made");
    let [(path, mode, content)] = &left.files[..] else { panic!("{left:?}") };
    assert!(path.ends_with("made"), "{left:?}");
    assert_eq!((mode & 0o777, content.as_str()), (0o640, "hi\n"));

    let differs = comparison.compare(&[ExecMode::Passed], &["bash", "-c", "command -v python3"]);
    assert!(differs.is_err_and(|printed| printed.contains("shims/python3")), "a shim is no tool");
}

/// A tool gets the passed descriptors only, not its parent's others.
#[test]
fn further_descriptors_stay_with_the_parent() {
    let Some(comparison) = comparison("further_descriptors_stay_with_the_parent") else { return };
    let script = "exec 3> side 5< /etc/passwd 9>&1; ninja fds; echo kept >&3";
    let numbers = |mode| {
        let left = comparison.run(mode, &["bash", "-c", script]);
        assert!(left.files.iter().any(|(_, _, content)| content == "kept\n"), "{left:?}");
        let number = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let mut numbers: Vec<String> = left.stdout.lines().map(number).collect();
        numbers.sort_unstable();
        numbers
    };
    let native = numbers(ExecMode::Native);
    assert!(["3", "5", "9"].iter().all(|own| native.iter().any(|one| one == own)), "{native:?}");
    for mode in ExecMode::SHIMS {
        assert_eq!(numbers(mode), ["0", "1", "2"], "{mode:?}");
    }
}

/// Runs each case of an agent program in each mode; panics with all differences.
#[track_caller]
fn check_cases(test: &str, runtime: &str, source: &str, head: &str, tail: &str) {
    let Some(comparison) = comparison(test) else { return };
    let runtime = program(runtime).expect("the stage has it");
    let agent = comparison.session().scratch().join("agent");
    std::fs::write(&agent, source).expect("the scratch directory is writable");
    let (runtime, agent) = (runtime.to_str().unwrap(), agent.to_str().unwrap());
    let cases: Vec<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix(head)?.strip_suffix(tail))
        .map(|name| name.trim_matches('\''))
        .collect();
    assert!(cases.len() >= 12, "the cases are found by how they begin: {cases:?}");
    let mut differences = String::new();
    for case in cases {
        match comparison.compare(&ExecMode::ALL, &[runtime, agent, case]) {
            Ok(left) => {
                assert!(left.ending == Ok(0) && !left.stdout.is_empty(), "{case}: {left:?}");
            }
            Err(difference) => differences += &difference,
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn node_has_its_children() {
    let source = include_str!("parents/node.js");
    check_cases("node_has_its_children", "node", source, "  async ", "() {");
}

#[test]
fn python_has_its_children() {
    let source = include_str!("parents/python.py");
    check_cases("python_has_its_children", "python3", source, "def ", "():");
}

/// node announces an IPC channel in a variable, but the descriptor is not passed.
#[test]
fn a_channel_that_does_not_cross_is_none() {
    let Some(comparison) = comparison("a_channel_that_does_not_cross_is_none") else { return };
    let agent = "
        const stdio = ['ignore', 'inherit', 'inherit', 'ipc'];
        const child = require('child_process').spawn('node', ['-p', 'typeof process.send'], { stdio });
        child.on('exit', (code) => { process.exitCode = code })";
    let node = program("node").expect("the stage has it");
    for (mode, printed) in
        [ExecMode::Native, ExecMode::Passed].into_iter().zip(["function\n", "undefined\n"])
    {
        let left = comparison.run(mode, &[node.to_str().unwrap(), "-e", agent]);
        assert_eq!((left.ending, &*left.stdout, &*left.stderr), (Ok(0), printed, ""), "{mode:?}");
    }
}

/// tmux as an agent drives it: send keys, read the screen.
#[test]
fn tmux_shows_the_same_screen() {
    let test = "tmux_shows_the_same_screen";
    if !can_run(&format!("parents::{test}"), &["/usr/bin/tmux", "-V"]) {
        return;
    }
    let Some(comparison) = comparison(test) else { return };
    let screens = ExecMode::ALL.map(|mode| {
        comparison.clear();
        let mut shell = comparison.command(mode, &["/bin/bash", "--norc", "--noprofile"]);
        let tmux = Tmux::start(shell.env("PS1", "$ "));
        let say = |line: &str, shown: &str| {
            tmux.line(line).expect(shown).prompt("$");
        };
        tmux.prompt("$");
        say("python3 -c 'print(6 * 7)'", "42");
        say("ninja both 3 2>&1 | cmake; echo code=$?", "code=0");
        say("x=$(ninja say captured); echo \"<$x>\"", "<captured>");
        say("python3 -c 'import os; print(os.get_terminal_size())'", "columns=80, lines=24");
        say("node -p 'process.stdout.isTTY + \" \" + process.stdout.columns'", "true 80");
        tmux.line("python3 -c 'print(input(\"name? \"))'").prompt("name?");
        tmux.line("somebody").prompt("$");
        tmux.line("python3 -c 'import sys; print(\"say:\", flush=True); print(sys.stdin.read())'");
        tmux.prompt("say:").line("line").press(&["C-d"]).prompt("$");
        tmux.screen()
    });
    assert!(screens[0].contains("name? somebody\nsomebody\n$"), "{}", screens[0]);
    for (mode, screen) in ExecMode::ALL.iter().zip(&screens) {
        assert_eq!(screen, &screens[0], "{mode:?}");
    }
}
