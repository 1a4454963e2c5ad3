//! Inherited process attributes beside descriptors: umask, limits, nice value.

use crate::native::invocation::Invocation;

pub(crate) fn calls() -> Vec<Invocation> {
    let make = "umask; touch made; mkdir made.d; ln -s made made.link";
    let mask = |mask: &str| {
        Invocation::shell(format!("umask {mask}"), make).after(&format!("umask {mask}"))
    };
    // By its letter in `ulimit`.
    let limit = |name: &str, letter: &str, value: &str| {
        let call = Invocation::shell(format!("soft limit {name}"), format!("ulimit -S -{letter}"));
        call.after(&format!("ulimit -S -{letter} {value}"))
    };
    let nice = |number: &str| {
        Invocation::shell(format!("nice {number}"), "nice")
            .caller(format!("nice -n {number} \"$@\""))
    };
    let files = "import os\ntry:\n while True: os.open('/dev/null', 0)\n\
        except OSError as e: print(e.errno, e.strerror)";
    let mut calls = vec![
        mask("000"),
        mask("022"),
        mask("027"),
        mask("077"),
        mask("777"),
        limit("cpu time", "t", "1000"),
        limit("file size", "f", "123456"),
        limit("data", "d", "1234567"),
        limit("stack", "s", "1024"),
        limit("core", "c", "0"),
        limit("locked memory", "l", "32"),
        limit("processes", "p", "5000"),
        limit("open files", "n", "100"),
        limit("address space", "v", "9876543"),
        limit("locks", "w", "500"),
        nice("1"),
        nice("7"),
        nice("19"),
    ];
    calls.extend([
        Invocation::python("it runs out of open files", files).after("ulimit -S -n 50"),
        Invocation::shell("it grows a file too large", "head -c 100000 /dev/zero > made; echo $?")
            .after("ulimit -S -f 8"),
        Invocation::python(
            "it runs out of memory",
            "try: x = bytearray(1 << 30)\nexcept MemoryError: print('none left')",
        )
        .after("ulimit -S -v 300000"),
        Invocation::shell(
            "a limit is raised to the hard one",
            "ulimit -S -n $(ulimit -H -n) && echo so",
        )
        .after("ulimit -S -n 100"),
        Invocation::shell("all of them at once", "umask; ulimit -S -n; ulimit -S -s; nice")
            .caller("umask 070; ulimit -S -n 77; ulimit -S -s 4096; exec nice -n 3 \"$@\""),
    ]);
    calls
}
