//! Input of a tool, for every kind of stdin of its caller.

use crate::native::invocation::Step::{Close, Expect, Feed};
use crate::native::invocation::{Invocation, Output, SHELL, Stdin};

/// Reports the result of reading from and writing to stdin, without output.
const TRY_STDIN: &str = "\
    read=$(dd of=/dev/null count=1 status=none 2>&1 | sed 's/.*: //'); echo written > text; \
    write=$(dd if=text status=none 2>&1 1>&0 | sed 's/.*: //'); \
    echo \"read $read\" > report; echo \"write $write\" >> report";

/// Reads the last line first, if it can seek.
const SEARCH: &str = "import os\n\
    try: seek = os.lseek(0, -6, os.SEEK_END)\n\
    except OSError as e: seek = e.strerror\n\
    print('seek', seek, file=open('report', 'w'))\n\
    print(os.read(0, 100)[-6:])";

/// More than a pipe and any window hold; all lines differ.
fn large() -> Vec<u8> {
    (0..200_000).map(|line| format!("line {line}\n")).collect::<String>().into_bytes()
}

pub(crate) fn calls() -> Vec<Invocation> {
    let sum = |name| {
        let sum = "import hashlib, sys; data = sys.stdin.buffer.read(); \
            print(len(data), hashlib.md5(data).hexdigest())";
        Invocation::python(name, sum)
    };
    let dialogue = "while read -r line; do echo \"heard $line\"; done; echo over; exit 3";
    let first_line = "read -r line; echo \"$line\"";
    vec![
        // Null and pipes.
        Invocation::cat("null"),
        Invocation::cat("an empty pipe").piped(""),
        Invocation::cat("a few bytes").piped("a few bytes\nwithout an end of line"),
        Invocation::cat("every byte").piped((0..=255).collect::<Vec<u8>>()),
        sum("some MiB").piped(large()),
        Invocation::cat("some MiB there and back").piped(large()),
        Invocation::shell("a pipe that stays open and is not read", "echo done").stdin(Stdin::Open),
        Invocation::shell("a large pipe that is not read", "exit 4").piped(large()),
        Invocation::shell("a line of a pipe that stays open", first_line)
            .stdin(Stdin::Open)
            .steps([Feed("one line\n")]),
        Invocation::shell("a dialogue", dialogue).stdin(Stdin::Open).steps([
            Feed("one\n"),
            Expect("heard one\n"),
            Feed("two\n"),
            Expect("heard two\n"),
            Feed("three\n"),
            Expect("heard three\n"),
            Close,
        ]),
        Invocation::shell("its end while the tool works on", "cat; echo after the end; exit 5")
            .stdin(Stdin::Open)
            .steps([Feed("fed\n"), Expect("fed\n"), Close]),
        // Shells.
        Invocation::cat("a pipeline").caller("echo from a pipe | \"$@\" | tr a-z A-Z"),
        Invocation::cat("a long pipeline").caller("seq 100000 | \"$@\" | \"$@\" | md5sum"),
        Invocation::cat("a here document").caller("\"$@\" <<END\none\n$((1 + 1))\nEND"),
        Invocation::python("a program in a here document", "-").caller(
            "python3 - 1 2 <<'END'\nimport \
             sys\nprint(sys.argv)\nprint(sys.stdin.read())\nEND",
        ),
        Invocation::cat("a here string of bash")
            .caller("exec bash -c '\"$@\" <<< \"a string\"' bash \"$@\""),
        Invocation::cat("a named pipe")
            .caller("mkfifo fifo; echo named > fifo & \"$@\" < fifo; wait"),
        Invocation::cat("another tool's output")
            .caller("\"$@\" < in | \"$@\"")
            .file("in", "twice\n"),
        // Files.
        Invocation::cat("a file").redirected("< in").file("in", "in the workspace\n"),
        Invocation::cat("an empty file").redirected("< in").file("in", ""),
        sum("a large file").redirected("< in").file("in", large()),
        sum("a large file outside").redirected("< {outside}/in").file("in", large()),
        Invocation::cat("a file outside").redirected("< {outside}/in").file("in", "outside\n"),
        Invocation::cat("a deleted file")
            .after("exec < in; rm in")
            .file("in", "gone but not forgotten\n"),
        Invocation::cat("a file from somewhere in it")
            .caller("{ read -r first; \"$@\"; } < in")
            .file("in", "first\nsecond\nthird\n"),
        Invocation::cat("a file outside from somewhere in it")
            .caller("{ read -r first; \"$@\"; } < {outside}/in")
            .file("in", "first\nsecond\nthird\n"),
        Invocation::python("a file that is searched in", SEARCH)
            .redirected("< in")
            .file("in", "first\nsecond\nthird\n"),
        Invocation::shell("a file to read and write", TRY_STDIN)
            .redirected("<> in")
            .file("in", "a line\n"),
        Invocation::shell("a file that is only open for writing", TRY_STDIN).redirected("0> made"),
        // Devices and directories.
        Invocation::shell("/dev/null", "cat; echo nothing").redirected("< /dev/null"),
        Invocation::shell("/dev/zero", "head -c 100000 | md5sum").redirected("< /dev/zero"),
        Invocation::shell("/dev/zero, not read", "exit 6").redirected("< /dev/zero"),
        Invocation::shell("a directory", TRY_STDIN).redirected("< ."),
        // Sockets.
        Invocation::cat("a unix socket").stdin(Stdin::Socket(b"by socket\n".to_vec())),
        sum("some MiB by a unix socket").stdin(Stdin::Socket(large())),
        Invocation::cat("a connection").stdin(Stdin::Inet(b"by TCP\n".to_vec())),
        Invocation::cat("sockets everywhere").stdin(Stdin::Socket(large())).output(Output::Sockets),
        // Closed.
        Invocation::cat("none at all").redirected("<&-"),
        Invocation::shell("none at all, and the tool opens a file", "exec 3< in; cat <&3")
            .redirected("<&-")
            .file("in", "opened\n"),
        Invocation::shell("none at all, to be read", TRY_STDIN).redirected("<&-"),
        // A writer that learns that its reader is gone.
        Invocation::shell(
            "closed by the tool, which lives on",
            "read -r line; exec <&-; while [ ! -s status ]; do sleep 0.02; done; \
             cat status",
        )
        .caller(
            "{ sh -c 'while :; do echo y; done' 2> /dev/null; echo $? > status; \
             } | \"$@\"",
        ),
        Invocation::shell("not read by a tool that ends", "read -r line; exit 7")
            .caller("{ yes; echo $? > status; } | { \"$@\"; echo $? > code; }"),
    ]
}

/// Shared file offsets: the next reader gets the bytes that the first did not read.
pub(crate) fn rests() -> Vec<Invocation> {
    let lines = "one\ntwo\nthree\nfour\n";
    let shared = |name: &str, tool: &str, file: &str| {
        Invocation::shell(name, tool)
            .caller(format!("{{ \"$@\"; echo then; cat; }} < {file}"))
            .file("in", lines)
    };
    let bytes = "dd bs=1 count=5 status=none; echo; exit 3";
    let (line, all, nothing) = ("read -r line; echo \"tool: $line\"", "cat", ":");
    vec![
        shared("a line of a file", line, "in"),
        shared("some bytes of a file", bytes, "in"),
        shared("all of a file", all, "in"),
        shared("nothing of a file", nothing, "in"),
        shared("a line of a file outside", line, "{outside}/in"),
        shared("some bytes of a file outside", bytes, "{outside}/in"),
        shared("all of a file outside", all, "{outside}/in"),
        shared("nothing of a file outside", nothing, "{outside}/in"),
        Invocation::shell("a line of a deleted file", line)
            .caller("exec < in; rm in; \"$@\"; echo then; cat")
            .file("in", lines),
        Invocation::shell("a line of a large file outside", line)
            .caller("{ \"$@\"; md5sum; } < {outside}/in")
            .file("in", large()),
        Invocation::shell("a line each of a file outside", line)
            .caller("{ \"$@\"; \"$@\"; \"$@\"; cat; } < {outside}/in")
            .file("in", lines),
        Invocation::shell("a loop's own lines", nothing)
            .caller("while read -r line; do \"$@\"; echo \"$line\"; done < {outside}/in")
            .file("in", lines),
        Invocation::new("of a tool that was killed", SHELL, ["-c", "read -r line; kill -9 $$"])
            .caller("{ \"$@\"; cat; } < {outside}/in")
            .file("in", lines),
        Invocation::shell("nothing of a file that was just made", nothing)
            .caller("printf 'one\\ntwo\\n' > in; { \"$@\"; cat; } < in"),
    ]
}
