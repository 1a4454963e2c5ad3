//! Keys typed while a tool runs that does not read them.

use std::fs;

use aifo_tests::{Comparison, ExecMode, Terminal, eventually};
use nix::sys::termios::LocalFlags;

use super::{PYTHON, STAY, comparison, number};

/// Ends when the file `go` exists. Reads as many lines as its argument.
const WAITS: &str = r#"import os, sys, time
for _ in range(int(sys.argv[1])): print("read", sys.stdin.readline().strip(), flush=True)
with open("pid", "w") as file: file.write(str(os.getpid()))
while not os.path.exists("go"): time.sleep(.01)"#;

/// Waits until the shim reads the terminal. Keys typed before are echoed twice.
fn expect_reader(mode: ExecMode, terminal: &Terminal) {
    eventually("the shim reads the terminal", || {
        mode == ExecMode::Native || !terminal.modes().local_flags.contains(LocalFlags::ICANON)
    });
}

/// Types keys while the tool runs, which shows them; then the tool ends. Returns the screen.
#[track_caller]
fn typed_ahead(
    comparison: &Comparison,
    mode: ExecMode,
    shell: &[&str],
    lines: usize,
    keys: &str,
    last: &str,
) -> String {
    comparison.clear();
    fs::write(comparison.dir().join("waits.py"), WAITS).unwrap();
    let terminal = Terminal::sized(80, 24);
    let mut command = comparison.command(mode, shell);
    command.env("PS1", "$ ").env("TERM", "dumb").env("HISTFILE", "/dev/null");
    let shell = terminal.start(&command);
    terminal.expect("$ ").press(&format!("python3 waits.py {lines}\n"));
    for line in 0..lines {
        terminal.press(&format!("line{line}\n"));
        terminal.expect(&format!("read line{line}"));
    }
    number(comparison, "pid");
    expect_reader(mode, &terminal);
    terminal.press(keys);
    // The echo: the keys have arrived where the tool could read them.
    let echo = keys.replace('\n', "\r\n");
    eventually(&format!("{mode:?} echoes {echo:?}"), || terminal.shown().contains(&echo));
    fs::write(comparison.dir().join("go"), "").unwrap();
    terminal.expect(last);
    terminal.press("exit 7\n");
    assert_eq!(shell.finish(), Ok(7), "{mode:?}: {}", terminal.shown());
    terminal.shown()
}

/// The kernel may not allow a shim to return keys.
fn modes() -> &'static [ExecMode] {
    let setting = fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti");
    match setting.is_ok_and(|value| value.trim() == "0") {
        true => &ExecMode::ALL[..1],
        false => &ExecMode::ALL,
    }
}

/// They are echoed once, by the terminal, and the shell executes them.
#[test]
fn lines_typed_ahead_stay_for_the_shell() {
    let Some(comparison) = comparison("lines_typed_ahead_stay_for_the_shell", PYTHON) else {
        return;
    };
    let keys = "echo a$((1+1))\necho b$((1+1))\n";
    for &mode in modes() {
        for shell in [&["/bin/dash"][..], &["/bin/bash", "--norc", "--noprofile"]] {
            for lines in [0, 2] {
                let screen = typed_ahead(&comparison, mode, shell, lines, keys, "b2\r\n");
                let count = screen.matches("echo a").count();
                // bash shows what it edits.
                let expected = if shell.len() == 1 { 1 } else { 2 };
                assert_eq!(count, expected, "{mode:?} {shell:?}: {screen}");
                assert_eq!(screen.matches("a2\r\n").count(), 1, "{mode:?} {shell:?}: {screen}");
            }
        }
    }
}

/// Also without the end of its line.
#[test]
fn a_line_begun_ahead_can_be_completed() {
    let Some(comparison) = comparison("a_line_begun_ahead_can_be_completed", PYTHON) else {
        return;
    };
    for &mode in modes() {
        comparison.clear();
        fs::write(comparison.dir().join("waits.py"), WAITS).unwrap();
        fs::write(comparison.dir().join("stay.py"), STAY).unwrap();
        let terminal = Terminal::sized(80, 24);
        let mut command = comparison.command(mode, &["/bin/bash", "--norc", "--noprofile"]);
        command.env("PS1", "$ ").env("TERM", "dumb").env("HISTFILE", "/dev/null");
        let shell = terminal.start(&command);
        terminal.expect("$ ").press("python3 waits.py 0\n");
        number(&comparison, "pid");
        expect_reader(mode, &terminal);
        terminal.press("echo be");
        terminal.expect("echo be");
        fs::write(comparison.dir().join("go"), "").unwrap();
        eventually("the shell shows it again", || terminal.shown().matches("echo be").count() == 2);
        terminal.press("gun\n");
        terminal.expect("begun\r\n").press("exit 7\n");
        assert_eq!(shell.finish(), Ok(7), "{mode:?}: {}", terminal.shown());
    }
}
