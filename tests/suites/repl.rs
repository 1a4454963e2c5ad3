//! Interactive tools on terminals: under tmux, as agents and users drive them, and on plain
//! pseudo-terminals. Each test also runs natively.
//!
//! Proves `spec/terminal.md#background`, `spec/terminal.md#typing-ahead`.

mod ahead;
mod endings;
mod plain;

use std::fs;

use aifo_tests::{Comparison, ExecMode, Tmux, argv, can_run, eventually, is_alive};

const PYTHON: &[&str] = &["python3"];
const NODE: &[&str] = &["node"];

/// Prints nothing; signals by a file that it runs, and stays.
const STAY: &str = r#"import os, sys, time
with open(sys.argv[1], "w") as file: file.write(str(os.getpid()))
time.sleep(600)"#;

/// Prints a line to stderr and becomes `cat`. Keys typed before that may be lost, so tests wait for
/// it.
const CAT: &str = r#"import os
os.write(2, b"ready\n")
while data := os.read(0, 4096): os.write(1, data)"#;

/// A comparison with a file `stay.py`, on a machine with tmux.
#[track_caller]
fn comparison(test: &str, tools: &[&str]) -> Option<Comparison> {
    let test = format!("repl::{test}");
    let comparison =
        can_run(&test, &["/usr/bin/tmux", "-V"]).then(|| Comparison::start(&test, tools));
    comparison.flatten()
}

/// Runs a scenario in a shell under tmux in each mode, and checks that the terminal is restored.
#[track_caller]
fn in_each_way(test: &str, tools: &[&str], scenario: impl Fn(&Comparison, &Tmux)) {
    let Some(comparison) = comparison(test, tools) else { return };
    for mode in ExecMode::ALL {
        comparison.clear();
        fs::write(comparison.dir().join("stay.py"), STAY).unwrap();
        fs::write(comparison.dir().join("cat.py"), CAT).unwrap();
        let tmux = shell(&comparison, mode);
        tmux.line("stty -g > before").prompt("$").clear();
        scenario(&comparison, &tmux);
        tmux.prompt("$").clear().line("stty -g > after").prompt("$");
        let modes = |name| fs::read_to_string(comparison.dir().join(name)).unwrap();
        assert_eq!(modes("before"), modes("after"), "{mode:?}");
    }
}

#[track_caller]
fn shell(comparison: &Comparison, mode: ExecMode) -> Tmux {
    let mut shell = comparison.command(mode, &["/bin/bash", "--norc", "--noprofile"]);
    let tmux = Tmux::start(shell.env("PS1", "$ "));
    tmux.prompt("$").line("ulimit -c 0; PROMPT_COMMAND=").prompt("$").clear();
    tmux
}

/// Waits for a file with a number that a tool writes.
#[track_caller]
fn number(comparison: &Comparison, name: &str) -> i32 {
    let mut number = None;
    eventually(&format!("there is a number in '{name}'"), || {
        let text = fs::read_to_string(comparison.dir().join(name)).unwrap_or_default();
        number = text.parse().ok();
        number.is_some()
    });
    number.expect("the loop ends with a number")
}

/// Waits for a file with a script's pid, and maps it to this machine's namespace unless native.
#[track_caller]
fn process(comparison: &Comparison, name: &str) -> i32 {
    let printed = number(comparison, name);
    let is_it = argv(printed).iter().any(|word| word.ends_with(".py"));
    if is_it { printed } else { comparison.session().process(printed) }
}

#[test]
fn python_edits_recalls_stops_and_ends() {
    in_each_way("python_edits_recalls_stops_and_ends", PYTHON, |_, tmux| {
        tmux.line("python3 -q").prompt(">>>");
        tmux.line("1 + 41").expect("\n42\n>>>");
        tmux.press(&["12345", "Left", "Left", "+", "Enter"]).expect(">>> 123+45\n168\n>>>");
        tmux.press(&["Up", "Enter"]).expect(">>> 123+45\n168\n>>> 123+45\n168\n>>>").clear();

        tmux.line("import os, time; print('sleep' + 'ing'); time.sleep(600)").expect("sleeping");
        tmux.press(&["C-c"]).expect("KeyboardInterrupt\n>>>").prompt(">>>").clear();

        tmux.line("x = 5").prompt(">>>").press(&["C-z"]).expect("Stopped").prompt("$").clear();
        tmux.line("fg").expect("python3 -q").line("x * 1111").expect("5555").prompt(">>>").clear();

        tmux.resize(101, 31);
        tmux.line("w = lambda: os.get_terminal_size(0).columns");
        tmux.line("_ = [time.sleep(.01) for _ in iter(lambda: w() == 101, True)]");
        tmux.line("os.get_terminal_size(1)").expect("columns=101, lines=31").prompt(">>>");

        tmux.press(&["C-d"]);
    });
}

#[test]
fn node_edits_recalls_stops_and_ends() {
    in_each_way("node_edits_recalls_stops_and_ends", NODE, |_, tmux| {
        tmux.line("node").expect("Welcome to Node.js").prompt(">");
        tmux.line("1 + 41").expect("\n42\n>").prompt(">");
        // node loses keys that arrive together.
        tmux.press(&["12345"]).prompt("> 12345").press(&["Left", "Left"]);
        tmux.press(&["+"]).expect("> 123+45").press(&["Enter"]);
        tmux.expect("> 123+45\n168\n>").prompt(">");
        tmux.press(&["Up"])
            .until("the line before", |screen| screen.matches("123+45").count() == 2);
        tmux.press(&["Enter"]).until("it twice", |screen| screen.matches("\n168\n>").count() == 2);
        tmux.prompt(">").clear();

        tmux.line("console.log('spin' + 'ning'); while (true);").expect("spinning");
        tmux.press(&["C-c"]).expect("interrupted").prompt(">").clear();

        tmux.line("var x = 5").expect("undefined").prompt(">");
        tmux.press(&["C-z"]).expect("Stopped").prompt("$").clear();
        tmux.line("fg").prompt(">").line("x * 1111").expect("5555").prompt(">").clear();

        tmux.line(
            "process.stdout.on('resize', () => console.log('now', process.stdout.columns)); 0",
        );
        tmux.expect("\n0\n>").prompt(">").resize(101, 31).expect("now 101");
        tmux.line("process.stdout.getWindowSize()").expect("[ 101, 31 ]").prompt(">");

        tmux.press(&["C-d"]);
    });
}

#[test]
fn a_password_is_not_shown() {
    in_each_way("a_password_is_not_shown", PYTHON, |_, tmux| {
        let ask = "import getpass; print('letters:', len(getpass.getpass('Password: ')))";
        tmux.line(&format!("python3 -c \"{ask}\"")).prompt("Password:");
        tmux.line("secret").expect("letters: 6").prompt("$");
        assert!(!tmux.screen().contains("secret"), "{}", tmux.screen());
    });
}

#[test]
fn ctrl_c_ends_a_script_with_its_tool() {
    in_each_way("ctrl_c_ends_a_script_with_its_tool", PYTHON, |comparison, tmux| {
        let script = |name: &str, text: &str| fs::write(comparison.dir().join(name), text).unwrap();
        let press = |keys: &str, line: &str| {
            tmux.line(line);
            number(comparison, "pid");
            tmux.press(&[keys]).prompt("$");
            tmux.line("echo code=$?; rm -f pid").expect("\ncode=").prompt("$");
            tmux.screen()
        };
        script("dies.sh", "python3 stay.py pid; echo reached");
        let screen = press("C-c", "bash dies.sh");
        assert!(!screen.contains("reached") && screen.contains("code=130"), "{screen}");
        tmux.clear();

        let catches = STAY.replace("time.sleep(600)", "try: time.sleep(600)");
        script("catches.py", &format!("{catches}\nexcept KeyboardInterrupt: print('caught')"));
        script("lives.sh", "python3 catches.py pid; echo reached $?");
        let screen = press("C-c", "bash lives.sh");
        assert!(screen.contains("caught\nreached 0") && screen.contains("code=0"), "{screen}");
        tmux.clear();

        script("traps.sh", "trap 'echo trapped' INT; python3 stay.py pid; echo reached $?; exit 4");
        let screen = press("C-c", "bash traps.sh");
        assert!(screen.contains("trapped\nreached 130") && screen.contains("code=4"), "{screen}");
        tmux.clear();

        let screen = press("C-\\", "python3 stay.py pid");
        assert!(screen.contains("code=131"), "{screen}");
    });
}

#[test]
fn a_pipeline_is_one_job() {
    in_each_way("a_pipeline_is_one_job", PYTHON, |comparison, tmux| {
        let last = "import sys; print('last', sys.stdin.read())";
        tmux.line(&format!("python3 cat.py | python3 -c \"{last}\"")).expect("\nready");
        tmux.line("typed").press(&["C-d"]).expect("\nlast typed\n").prompt("$").clear();

        // The echo of a line's end may follow the next tool's output.
        let twice = |word: &str| {
            tmux.until(word, |screen| screen.matches(word).count() == 2);
        };
        tmux.line("python3 cat.py | cmake").expect("\nready").line("one");
        twice("one");
        tmux.press(&["C-z"]).expect("Stopped").prompt("$").clear();
        tmux.line("fg").expect("python3 cat.py | cmake").line("two");
        twice("two");
        tmux.press(&["C-d"]).prompt("$").clear();

        tmux.line("python3 stay.py a | python3 stay.py b 2>/dev/null");
        let tools = ["a", "b"].map(|name| process(comparison, name));
        tmux.press(&["C-c"]).prompt("$").line("echo code=${PIPESTATUS[*]}").expect("code=130 130");
        eventually("both have ended", || !tools.iter().any(|&tool| is_alive(tool)));
    });
}

/// A background tool does not read keys meant for the shell: it is stopped on its first read, and
/// reads in the foreground.
#[test]
fn in_the_background_no_process_reads_the_terminal() {
    in_each_way("in_the_background_no_process_reads_the_terminal", PYTHON, |comparison, tmux| {
        let read = "import sys; open('ready', 'w').write('1'); print('got', sys.stdin.readline())";
        tmux.line(&format!("python3 -c \"{read}\" &"));
        number(comparison, "ready");
        let is_stopped = "until jobs -l | grep 'Stopped (tty input)'; do sleep .1; done";
        tmux.line(is_stopped).expect("[1]+").expect("\n$").prompt("$").clear();
        tmux.line("bg").expect("python3 -c").line(is_stopped).expect("(tty input)").prompt("$");
        for turn in 0..3 {
            tmux.line(&format!("echo shell $((1 + {turn}))"))
                .expect(&format!("shell {}", turn + 1));
        }
        tmux.prompt("$").clear().line("fg").expect("python3 -c");
        tmux.line("hello").expect("got hello").prompt("$");
    });
}

#[test]
fn a_terminal_that_closes_hangs_up_its_tool() {
    let Some(comparison) = comparison("a_terminal_that_closes_hangs_up_its_tool", PYTHON) else {
        return;
    };
    let hears = "import signal\n\
        def hear(*_): open('heard', 'w').write('1'); raise SystemExit\n\
        signal.signal(signal.SIGHUP, hear)\n\
        exec(open('stay.py').read())";
    for mode in ExecMode::ALL {
        comparison.clear();
        fs::write(comparison.dir().join("stay.py"), STAY).unwrap();
        fs::write(comparison.dir().join("hears.py"), hears).unwrap();
        for script in ["stay.py", "hears.py"] {
            let tmux = shell(&comparison, mode);
            tmux.line(&format!("python3 {script} {script}.pid"));
            let tool = process(&comparison, &format!("{script}.pid"));
            tmux.close();
            eventually(&format!("{script} has ended ({mode:?})"), || !is_alive(tool));
        }
        assert_eq!(number(&comparison, "heard"), 1, "{mode:?}");
    }
}
