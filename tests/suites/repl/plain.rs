//! Tools on plain pseudo-terminals, with every combination of standard descriptors.

use std::fs;
use std::time::{Duration, Instant};

use aifo_tests::{Comparison, DEADLINE, ExecMode, Terminal, eventually};

use super::{CAT, PYTHON, number};

/// Reports which of its descriptors are terminals, and their size.
const TELL: &str = r#"import os
size = lambda fd: tuple(os.get_terminal_size(fd)) if os.isatty(fd) else None
with open("seen", "w") as file: file.write(repr([size(fd) for fd in range(3)]))
os.write(1, b"out\n"); os.write(2, b"err\n"); os.write(1, b"end\n")
"#;

/// Runs a script on a terminal in each mode, with `tell.py` beside it. `act` may type; afterwards
/// the script must end with 0.
#[track_caller]
fn on_a_terminal(
    test: &str,
    size: (u16, u16),
    scripts: &[&str],
    act: impl Fn(&Comparison, &Terminal, usize),
    check: impl Fn(&Comparison, &Terminal, usize),
) {
    let Some(comparison) = Comparison::start(&format!("repl::{test}"), PYTHON) else { return };
    for mode in ExecMode::ALL {
        for (index, script) in scripts.iter().enumerate() {
            comparison.clear();
            fs::write(comparison.dir().join("tell.py"), TELL).unwrap();
            let terminal = Terminal::sized(size.0, size.1);
            let before = terminal.modes();
            // The shell stays until the modes are checked: its end hangs up the terminal.
            let wait = format!(
                "{script}\nstatus=$?; echo $status > ended\nuntil [ -e over ]; do sleep .01; done"
            );
            let shell = terminal.start(&comparison.command(mode, &["/bin/bash", "-c", &wait]));
            act(&comparison, &terminal, index);
            eventually(&format!("{mode:?} {script}"), || {
                fs::read_to_string(comparison.dir().join("ended")).is_ok_and(|code| code == "0\n")
            });
            assert_eq!(terminal.modes(), before, "{mode:?} {script}");
            check(&comparison, &terminal, index);
            fs::write(comparison.dir().join("over"), "").unwrap();
            assert_eq!(shell.finish(), Ok(0));
        }
    }
}

/// All eight combinations: terminals stay terminals of the same size, and others stay others.
#[test]
fn each_descriptor_that_is_a_terminal_stays_one() {
    let redirections = |terminals: usize| {
        let other = |bit: usize, text: &'static str| if terminals & bit == 0 { text } else { "" };
        [other(1, " < tell.py"), other(2, " > out"), other(4, " 2> err")].concat()
    };
    let scripts: Vec<String> =
        (0..8).map(|terminals| format!("python3 tell.py{}", redirections(terminals))).collect();
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let test = "each_descriptor_that_is_a_terminal_stays_one";
    let check = |comparison: &Comparison, terminal: &Terminal, terminals: usize| {
        let is_one = |bit: usize| terminals & bit != 0;
        let size = |bit| if is_one(bit) { "(77, 33)" } else { "None" };
        let seen = fs::read_to_string(comparison.dir().join("seen")).unwrap();
        assert_eq!(seen, format!("[{}, {}, {}]", size(1), size(2), size(4)));
        // A terminal shows a line end as two characters, translated exactly once.
        let shown = ["out\r\n", "err\r\n", "end\r\n"].into_iter().zip([2, 4, 2]);
        let shown: String = shown.filter(|(_, bit)| is_one(*bit)).map(|(line, _)| line).collect();
        check_shown(terminal, &shown);
        let file = |name| fs::read_to_string(comparison.dir().join(name)).ok();
        assert_eq!(file("out").as_deref(), (!is_one(2)).then_some("out\nend\n"));
        assert_eq!(file("err").as_deref(), (!is_one(4)).then_some("err\n"));
    };
    on_a_terminal(test, (77, 33), &scripts, |_, _, _| {}, check);
}

/// The call has ended, so only the reader must catch up.
#[track_caller]
fn check_shown(terminal: &Terminal, expected: &str) {
    let started = Instant::now();
    while terminal.shown() != expected && started.elapsed() < DEADLINE {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(terminal.shown(), expected);
}

#[test]
fn a_terminal_without_a_size_has_none() {
    let test = "a_terminal_without_a_size_has_none";
    on_a_terminal(
        test,
        (0, 0),
        &["python3 tell.py"],
        |_, _, _| {},
        |comparison, _, _| {
            let seen = fs::read_to_string(comparison.dir().join("seen")).unwrap();
            assert_eq!(seen, "[(0, 0), (0, 0), (0, 0)]");
        },
    );
}

/// A terminal that is only stdin still accepts keys and echoes.
#[test]
fn typed_input_arrives_wherever_output_goes() {
    let scripts = [
        "python3 -c 'print(\"ready\"); print(input())' > out 2> err",
        "python3 -c 'print(input())' 2> err",
        "python3 -c 'import sys; print(input())' 2>&1 | cat > out",
        &format!("python3 -c '{CAT}' > out"),
    ];
    let test = "typed_input_arrives_wherever_output_goes";
    let act = |_: &Comparison, terminal: &Terminal, index: usize| {
        if index == 3 {
            terminal.expect("ready");
        }
        terminal.press("some words\n");
        // End of input is a character at the start of a line.
        if index == 3 {
            terminal.expect("some words\r\n").press("\x04");
        }
    };
    on_a_terminal(test, (80, 24), &scripts, act, |comparison, terminal, index| {
        let out = fs::read_to_string(comparison.dir().join("out")).unwrap_or_default();
        let printed = if index == 1 { terminal.shown() } else { out };
        assert!(printed.contains("some words"), "{index}: {printed}");
        terminal.expect("some words\r\n");
    });
}

/// Large fast output arrives complete and in order.
#[test]
fn a_terminal_shows_everything() {
    let script = "python3 -c 'print(*range(200000)); open(\"done\", \"w\").write(\"1\")'";
    on_a_terminal(
        "a_terminal_shows_everything",
        (80, 24),
        &[script],
        |_, _, _| {},
        |comparison, t, _| {
            assert_eq!(number(comparison, "done"), 1);
            let numbers: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
            let whole = numbers.join(" ") + "\r\n";
            eventually("all of it is shown", || t.shown().len() >= whole.len());
            assert!(t.shown() == whole, "as it was written");
        },
    );
}
