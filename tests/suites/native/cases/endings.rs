//! Endings of tools: exit codes, signals, and failed starts.

use crate::native::invocation::{Invocation, NO_INTERPRETER, NOT_EXECUTABLE};

/// Codes with a meaning, and the limits.
const CODES: &[u8] =
    &[0, 1, 2, 3, 42, 64, 86, 99, 101, 124, 125, 126, 127, 128, 129, 130, 137, 143, 200, 254, 255];

pub(crate) fn exit_codes() -> Vec<Invocation> {
    let exit = |code: &u8| Invocation::shell(format!("{code}"), format!("exit {code}"));
    let mut calls: Vec<_> = CODES.iter().map(exit).collect();
    calls.extend([
        Invocation::shell("with words on both outputs", "echo out; echo err >&2; exit 7"),
        Invocation::shell("of what it has called", "sh -c 'exit 5'; exit $?"),
        Invocation::shell("of a child that was killed", "sh -c 'kill -9 $$' 2> /dev/null; exit $?"),
        Invocation::python("python with a message", "import sys; sys.exit('a message')"),
        Invocation::python("python beyond a byte", "import os; os._exit(256 + 9)"),
        Invocation::node("node", "process.exitCode = 9; console.error('err')"),
    ]);
    calls
}

/// Each signal that ends a process by default, except the C library's two.
const DEADLY: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 35, 50,
    64,
];

pub(crate) fn deaths() -> Vec<Invocation> {
    let die = |number: &u8| {
        let call = Invocation::shell(
            format!("by signal {number}"),
            format!("echo last; kill -{number} $$"),
        );
        call.after("ulimit -c 0")
    };
    let mut calls: Vec<_> = DEADLY.iter().map(die).collect();
    let aborts = "import os; os.write(1, b'last'); os.write(2, b'words'); os.abort()";
    calls.extend([
        Invocation::python("by abort, with words on both outputs", aborts).after("ulimit -c 0"),
        Invocation::node(
            "node, by itself",
            "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 1e6)",
        ),
        Invocation::shell("as its caller sees it", "kill -TERM $$")
            .caller("\"$@\"; echo the call ended with $?"),
        Invocation::shell("dumping a core", "kill -SEGV $$").after("ulimit -c unlimited"),
    ]);
    calls
}

pub(crate) fn not_started() -> Vec<Invocation> {
    let none = [""; 0];
    vec![
        Invocation::new("no interpreter", NO_INTERPRETER, none).never_starts(),
        Invocation::new("not executable", NOT_EXECUTABLE, none).never_starts(),
        Invocation::new("no interpreter, in a list", NO_INTERPRETER, none)
            .caller("\"$@\" || echo $?; \"$@\" && echo never")
            .never_starts(),
        Invocation::shell("what a tool does not find", "no-such-program; echo $?"),
        Invocation::shell("what a tool may not execute", "touch plain; ./plain; echo $?"),
        Invocation::python(
            "what python does not find",
            "import subprocess\ntry: subprocess.run(['no-such-program'])\nexcept \
             OSError as e: print(e)",
        ),
    ]
}
