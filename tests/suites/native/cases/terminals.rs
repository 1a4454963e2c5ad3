//! Calls on a terminal, and the terminal output.
//!
//! Keys are typed only after the tool has started: otherwise the order of the echo is undetermined.

use crate::native::invocation::Step::{Close, Expect, Feed, Raw, Signal};
use crate::native::invocation::{Invocation, Output};

pub(crate) fn calls() -> Vec<Invocation> {
    let wait = "echo ready; while :; do :; done";
    let which = "for n in 0 1 2; do [ -t $n ] && echo $n; done";
    let calls = vec![
        Invocation::shell(
            "output",
            "echo out; echo err >&2; printf 'a\\tb \\033[1mbold\\033[m\\n'; exit 3",
        ),
        Invocation::shell("all three are terminals", which),
        Invocation::shell("its modes and size", "stty -a")
            .caller("stty rows 33 columns 99 -ixon; exec \"$@\""),
        Invocation::shell("a line", "echo ready; read -r line; echo \"heard $line\"").steps([
            Expect("ready"),
            Feed("typed\n"),
            Expect("heard typed"),
        ]),
        Invocation::shell("an edited line", "echo ready; read -r line; echo \"heard $line\"")
            .steps([Expect("ready"), Feed("tyypo\x7f\x7f\x7fpe\n"), Expect("heard type")]),
        Invocation::shell("its end", "echo ready; cat; echo over").steps([
            Expect("ready"),
            Close,
            Expect("over"),
        ]),
        Invocation::shell(
            "without echo",
            "stty -echo; echo ready; read -r line; stty echo; echo \"heard $line\"",
        )
        .steps([Expect("ready"), Feed("secret\n"), Expect("heard secret")]),
        Invocation::python(
            "keys one by one",
            "import tty, sys, os; tty.setraw(0); os.write(1, b'ready'); \
             print([os.read(0, 1) for _ in range(3)])",
        )
        .caller("modes=$(stty -g); \"$@\"; stty $modes")
        .steps([Expect("ready"), Feed("a\x03\x04")]),
        Invocation::shell("Ctrl-C", wait).steps([Expect("ready"), Feed("\x03")]),
        Invocation::shell("Ctrl-\\", wait)
            .after("ulimit -c 0")
            .steps([Expect("ready"), Feed("\x1c")]),
        Invocation::shell("Ctrl-C is caught", format!("trap 'echo caught; exit 4' INT; {wait}"))
            .steps([Expect("ready"), Feed("\x03"), Expect("caught")]),
        Invocation::shell("TERM", wait).steps([Expect("ready"), Signal(15)]),
        Invocation::shell("only stdout is one", format!("echo out; echo err >&2; {which}; cat"))
            .caller("echo piped | \"$@\" 2> err"),
        Invocation::shell("only stdin is one", format!("{which}; read -r line; echo \"$line\""))
            .caller("\"$@\" 2> err | cat")
            .steps([Expect("0"), Raw, Feed("typed\n")]),
        Invocation::shell("only stderr is one", format!("echo out; echo err >&2; {which}; cat"))
            .caller("\"$@\" < /dev/null > out; cat out"),
        Invocation::shell("two of a pipeline", "cat; echo end >&2")
            .caller("echo a | \"$@\" 2> one | \"$@\" 2> two"),
    ];
    calls.into_iter().map(|call| call.output(Output::Terminal)).collect()
}
