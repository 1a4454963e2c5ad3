//! Everything that a program can detect about itself, from callers of many kinds.

use crate::native::invocation::{Invocation, Output, Stdin};

pub(crate) fn calls() -> Vec<Invocation> {
    let report = |name: &str| Invocation::shell(name, include_str!("../report.sh"));
    vec![
        report("pipes apart"),
        report("one pipe").merged(),
        report("a pipe to read").piped(""),
        report("files").redirected("< in > out 2> err").file("in", ""),
        report("one file for both").redirected("> out 2>&1"),
        report("a file to append to").redirected(">> out"),
        report("a file to read and write").redirected("<> in 1>&0").file("in", ""),
        report("files outside").redirected("< {outside}/in > {outside}/out").file("in", ""),
        report("/dev/null").redirected("> /dev/null 2>&1"),
        report("closed").redirected("<&- >&- 2>&-"),
        report("sockets").stdin(Stdin::Socket(Vec::new())).output(Output::Sockets),
        report("a terminal")
            // The suite's own terminal descriptors are inherited, too.
            .caller("\"$@\" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&-; exit")
            .output(Output::Terminal),
        report("signals ignored").after("trap '' HUP INT QUIT USR1 PIPE CHLD 40"),
        report("from the background").caller("\"$@\" & wait $!"),
        report("limits, mask and niceness")
            .caller("umask 027; ulimit -S -n 200; ulimit -S -s 2048; exec nice -n 4 \"$@\""),
        report("hard limits").after("ulimit -n 300"),
        report("a further descriptor").redirected("3> further"),
        report("a place by a link")
            .caller("mkdir real; ln -s \"$PWD/real\" link; cd link; \"$@\"; mv report .."),
    ]
}
