//! Signals to a running call.

use crate::native::invocation::Step::{Expect, Signal, Stopped};
use crate::native::invocation::{Invocation, Stdin};

/// The signals that end a waiting shell, with their names.
const SENT: &[(i32, &str)] = &[
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (6, "ABRT"),
    (10, "USR1"),
    (12, "USR2"),
    (14, "ALRM"),
    (15, "TERM"),
    (24, "XCPU"),
    (34, "the first of real time"),
    (40, "one of real time"),
    (64, "the last of real time"),
];

/// Prints `ready` and waits, without children that could get the signal.
const WAIT: &str = "echo ready; while :; do :; done";

pub(crate) fn calls() -> Vec<Invocation> {
    let ready = || Expect("ready\n");
    let mut calls = Vec::new();
    for &(number, name) in SENT {
        calls.push(
            Invocation::shell(format!("{name} ends it"), WAIT)
                .after("ulimit -c 0")
                .steps([ready(), Signal(number)]),
        );
        let trap = format!("trap 'echo caught; exit 33' {number}; {WAIT}");
        calls.push(
            Invocation::shell(format!("{name} is caught"), trap).steps([ready(), Signal(number)]),
        );
    }
    let several = format!(
        "trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo three' HUP; \
             trap 'exit 4' TERM; {WAIT}"
    );
    let patient = format!("trap '' INT TERM; trap 'echo woken; exit 5' USR1; {WAIT}");
    let python = "import signal, sys, time\n\
        signal.signal(signal.SIGTERM, lambda n, f: sys.exit(f'got {n}'))\n\
        print('ready', flush=True)\nwhile True: time.sleep(0.02)";
    let interrupted = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.02)";
    let node = "process.on('SIGINT', () => { console.log('node heard'); process.exit(6) }); \
        console.log('ready'); setInterval(() => {}, 1000)";
    let window = format!("trap 'echo resized; exit 8' WINCH; {WAIT}");
    let resumed = format!("trap 'echo resumed; exit 9' CONT; {WAIT}");
    let carries_on = format!("trap 'echo carried on; exit 10' USR1; {WAIT}");
    // The child reports the signals that it got before the tool continued.
    let child = "trap 'touch over; wait; exit 12' USR1; \
        sh -c 'trap \"echo child hit > report; exit\" USR1; echo ready; \
        while [ ! -e over ]; do :; done; [ -e report ] || echo child spared > report' & \
        while :; do wait; done";
    calls.extend([
        Invocation::shell("what the tool has started", child).steps([ready(), Signal(10)]),
        Invocation::shell("KILL ends it", WAIT).steps([ready(), Signal(9)]),
        Invocation::shell("several are caught one after the other", several).steps([
            ready(),
            Signal(10),
            Expect("one\n"),
            Signal(12),
            Expect("two\n"),
            Signal(1),
            Expect("three\n"),
            Signal(15),
        ]),
        Invocation::shell("the tool itself ignores some", patient).steps([
            ready(),
            Signal(2),
            Signal(15),
            Signal(2),
            Signal(10),
        ]),
        Invocation::shell("the caller ignores INT", carries_on.clone())
            .after("trap '' INT")
            .steps([ready(), Signal(2), Signal(10)]),
        Invocation::shell("the caller ignores TERM and one of real time", carries_on.clone())
            .after("trap '' TERM 40")
            .steps([ready(), Signal(15), Signal(40), Signal(10)]),
        Invocation::shell("WINCH is caught", window).steps([ready(), Signal(28)]),
        Invocation::shell("WINCH does nothing by default", carries_on.clone()).steps([
            ready(),
            Signal(28),
            Signal(10),
        ]),
        Invocation::shell("CONT is caught", resumed).steps([ready(), Signal(18)]),
        Invocation::shell("TSTP stops it and CONT lets it go on", carries_on.clone()).steps([
            ready(),
            Signal(20),
            Stopped,
            Signal(18),
            Signal(10),
        ]),
        Invocation::python("python ends as it likes", python).steps([ready(), Signal(15)]),
        Invocation::python("an interrupted python", interrupted)
            .after("exec 2> /dev/null")
            .steps([ready(), Signal(2)]),
        Invocation::node("node hears INT", node).steps([ready(), Signal(2)]),
        Invocation::shell("while it reads", format!("trap 'exit 11' TERM; {WAIT}"))
            .stdin(Stdin::Open)
            .steps([ready(), Signal(15)]),
        Invocation::shell("timeout ends it", "while :; do :; done").caller("timeout 0.3 \"$@\""),
        Invocation::shell("timeout kills it", "while :; do :; done")
            .caller("timeout -s KILL 0.3 \"$@\""),
    ]);
    calls
}
