//! Output of a tool, for every kind of stdout and stderr of its caller.

use crate::native::invocation::{Invocation, Output, SHELL};

/// Lines on both outputs in turns.
fn turns(name: &str) -> Invocation {
    Invocation::fake(name, ["both", "300"])
}

fn words(name: &str) -> Invocation {
    Invocation::shell(name, "echo out; echo err >&2; echo again; exit 3")
}

/// Overwrites the middle, if it can seek.
const SEARCH: &str = "import os\n\
    os.write(1, b'12345678')\n\
    try:\n \
        seek = os.lseek(1, 2, os.SEEK_SET)\n \
        os.write(1, b'34')\n\
    except OSError as e: seek = e.strerror\n\
    print('seek', seek, file=open('report', 'w'))";

pub(crate) fn calls() -> Vec<Invocation> {
    let paused = "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c; sleep 0.1; echo d >&2";
    let both_large = "import os\nfor n in range(100):\n os.write(1, \
             b'o' * 20000)\n os.write(2, b'e' * 20000)";
    // The tool cannot notice write errors: the caller file is at the other end.
    let careless = "import os\ntry: os.write(1, b'x' * 10)\nexcept OSError: pass\nos._exit(4)";
    vec![
        // Pipes.
        Invocation::shell("none", ":"),
        words("pipes apart"),
        words("one pipe").merged(),
        turns("in turns to one pipe").merged(),
        turns("in turns to pipes apart"),
        Invocation::shell("with pauses to one pipe", paused).merged(),
        Invocation::shell("without an end of line", "printf 'no end'; printf 'none' >&2"),
        Invocation::shell("NULs and every other byte", "cat every")
            .file("every", (0..=255).collect::<Vec<u8>>()),
        Invocation::fake("8 MiB", ["emit", "8388608", "1"]),
        Invocation::fake("8 MiB to one pipe", ["emit", "8388608", "2"]).merged(),
        Invocation::shell("1 MiB on stderr", "head -c 1048576 /dev/zero >&2"),
        Invocation::python("large on both", both_large),
        Invocation::python("large on both to one pipe", both_large).merged(),
        Invocation::fake("8 MiB to a slow reader", ["emit", "8388608", "3"])
            .caller("\"$@\" | { sleep 0.3; md5sum; }"),
        // Files.
        words("a file").redirected("> out"),
        words("a file each").redirected("> out 2> err"),
        words("one file").redirected("> out 2>&1"),
        turns("in turns to one file").redirected("> out 2>&1"),
        turns("in turns to one file outside").redirected("> {outside}/out 2>&1"),
        Invocation::shell("one file, opened twice", "echo same; echo out; echo same >&2")
            .redirected("> out 2> out"),
        words("one file, appended to twice").redirected(">> out 2>> out").file("out", "before\n"),
        words("a file to append to").redirected(">> out").file("out", "before\n"),
        words("a file outside").redirected("> {outside}/out"),
        words("a file outside to append to")
            .redirected(">> {outside}/out 2>&1")
            .file("out", "before\n"),
        words("a file outside each").redirected("> {outside}/out 2> {outside}/err"),
        words("a file that others write too")
            .caller("{ echo first; \"$@\"; echo last; } > out 2>&1"),
        words("a file outside that others write too")
            .caller("{ echo first; \"$@\"; echo last; } > {outside}/out 2>&1"),
        Invocation::fake("8 MiB to a file", ["emit", "8388608", "4"]).redirected("> out"),
        Invocation::fake("8 MiB to a file outside", ["emit", "8388608", "5"])
            .redirected("> {outside}/out"),
        words("a deleted file")
            .caller("exec 3<> out; rm out; \"$@\" >&3 3>&-; cat /proc/self/fd/3"),
        Invocation::python("a file that is searched in", SEARCH).redirected("> out"),
        Invocation::shell("a file between others", "echo middle")
            .redirected(">> out 2>&1")
            .file("out", "head\n"),
        // Devices, sockets, nothing.
        words("/dev/null").redirected("> /dev/null"),
        words("/dev/null for both").redirected("> /dev/null 2>&1"),
        Invocation::python("/dev/full, of a tool that does not mind", careless)
            .redirected("> /dev/full 2> /dev/null"),
        words("sockets").output(Output::Sockets),
        Invocation::fake("8 MiB by a socket", ["emit", "8388608", "6"]).output(Output::Sockets),
        words("one socket for both").output(Output::Sockets).redirected("2>&1"),
        turns("in turns to one socket").output(Output::Sockets).redirected("2>&1"),
        words("no stdout at all").redirected(">&-"),
        words("no stderr at all").redirected("2>&-"),
        words("neither").redirected(">&- 2>&-"),
        words("nothing at all").redirected("<&- >&- 2>&-"),
        words("exchanged").redirected("3>&1 1>&2 2>&3 3>&-"),
        // Shells.
        words("what a shell takes").caller("out=$(\"$@\" 2> err); echo \"$? $out\""),
        words("what a shell takes of both").caller("out=$(\"$@\" 2>&1); echo \"$? $out\""),
        words("a named pipe")
            .caller("mkfifo fifo; cat fifo & \"$@\" > fifo; code=$?; wait; exit $code"),
        words("tee").caller("\"$@\" 2>&1 | tee out"),
        words("bash's pipe of both")
            .caller("exec bash -c 'set -o pipefail; \"$@\" |& cat' bash \"$@\""),
        words("one after the other").caller("\"$@\"; \"$@\" || \"$@\"; echo $?"),
        words("at the same time").caller("\"$@\" > 1 2>&1 & \"$@\" > 2 2>&1 & wait; cat 1 2"),
        words("stderr into a pipe, stdout away").caller("\"$@\" 2>&1 > /dev/null | cat"),
    ]
}

/// Readers that close early.
pub(crate) fn early_ends() -> Vec<Invocation> {
    // The pipeline's status is its last command's; a file has the tool's.
    let head = |call: Invocation| call.caller("{ \"$@\"; echo $? > status; } | head -n 1");
    let for_ever = "while :; do echo y; done";
    vec![
        head(Invocation::shell("of a shell", for_ever)),
        head(Invocation::fake("of what does not hear of it", ["emit", "8388608", "1"])).caller(
            // Ignores SIGPIPE and reports the write error.
            "{ \"$@\" 2> /dev/null; echo $? > status; } | head -c 100 | md5sum",
        ),
        head(Invocation::new("of cat", SHELL, ["-c", "exec cat /dev/zero"]))
            .caller("{ \"$@\"; echo $? > status; } | head -c 1000 | md5sum"),
        head(Invocation::python("of python", "while True: print('y')"))
            .caller("{ \"$@\" 2> /dev/null; echo $? > status; } | head -n 1"),
        head(Invocation::node(
            "of node",
            "process.stdout.on('error', () => process.exit(9)); \
            setInterval(() => console.log('y'), 1)",
        )),
        Invocation::shell("of stderr", "while :; do echo y >&2; done")
            .caller("{ { \"$@\" 2>&1 > /dev/null; echo $? > status; } | head -n 1; }"),
        Invocation::shell("of both in one", "while :; do echo y; echo z >&2; done")
            .caller("{ \"$@\" 2>&1; echo $? > status; } | head -n 1"),
        Invocation::shell(
            "where SIGPIPE is ignored",
            "while echo y 2> /dev/null; do :; done; exit 12",
        )
        .caller("trap '' PIPE; { \"$@\"; echo $? > status; } | head -n 1"),
        Invocation::shell("of a reader that never reads", for_ever)
            .caller("{ \"$@\"; echo $? > status; } | exec true"),
        Invocation::shell(
            "in the middle of a pipeline",
            "while read -r line; do echo \"$line\"; done",
        )
        .caller("yes | { \"$@\"; echo $? > status; } | head -n 1"),
    ]
}
