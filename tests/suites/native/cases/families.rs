//! Children of tools, and callers of tools.

use crate::native::invocation::{Invocation, SHELL};

/// A background child that writes a file when allowed.
const LEAVES: &str = "{ while [ ! -e go ]; do sleep 0.02; done; echo late > made; } \
    > /dev/null 2>&1 < /dev/null & echo left";

pub(crate) fn calls() -> Vec<Invocation> {
    let await_it = "touch go; while [ ! -s made ]; do sleep 0.02; done";
    let hello = |name: &str| Invocation::shell(name, "echo hello; echo err >&2; exit 3");
    vec![
        Invocation::shell("a child in the background lives on", LEAVES)
            .caller(format!("\"$@\"; {await_it}; cat made")),
        Invocation::shell("one in a session of its own, too", format!("setsid sh -c '{LEAVES}'"))
            .caller(format!("\"$@\"; {await_it}; cat made")),
        Invocation::shell("a child that is waited for", "sleep 0.1 & wait; echo waited"),
        Invocation::shell("many children", "for n in 1 2 3 4 5 6 7 8 9; do echo $n & wait; done"),
        Invocation::shell("children in a pipeline", "seq 1000 | sort -rn | head -n 3 | tac"),
        Invocation::shell("a group of its own", "set -m; sleep 0.05 & wait; echo so"),
        Invocation::python(
            "python's children",
            "import subprocess as s; print(s.run(['sh', '-c', 'cat; exit 4'], \
             input=b'in', capture_output=True))",
        ),
        Invocation::node(
            "node's children",
            "require('child_process').exec('echo child; exit 5', (e, out) \
             => console.log(e.code, out))",
        ),
        // Callers.
        hello("from the background").caller("\"$@\" & wait $!; echo $?"),
        Invocation::new("reading in the background", SHELL, ["-c", "cat; echo end"])
            .caller("\"$@\" & wait $!"),
        hello("by nohup").caller("nohup \"$@\" 2>&1 | cat; ls"),
        hello("by setsid").caller("setsid -w \"$@\"; echo $?"),
        hello("by env").caller("env NODE_ENV=x \"$@\"; echo $?"),
        hello("by xargs").caller("printf '1\\n2\\n' | xargs -n 1 \"$@\"; echo $?"),
        hello("by find").caller("touch a b; find . -name '[ab]' -exec \"$@\" \\; | sort"),
        hello("by timeout").caller("timeout 20 \"$@\"; echo $?"),
        hello("by python").caller(
            "exec /usr/bin/python3 -c 'import subprocess, sys; \
             print(subprocess.run(sys.argv[1:], capture_output=True))' \"$@\"",
        ),
        hello("by node").caller(
            "exec /usr/bin/node -e 'const { spawnSync } = require(\"child_process\"); \
             const r = spawnSync(process.argv[1], process.argv.slice(2)); \
             console.log(r.status, r.signal, String(r.stdout), String(r.stderr))' \"$@\"",
        ),
        hello("by make").caller(
            "printf 'all:\\n\\t@%s -c \"echo by make; exit 2\"\\n' \"$1\" > rules; \
             exec /usr/bin/make -f rules",
        ),
        hello("by another tool")
            .caller("exec make -s -f rules")
            .file("rules", "all:\n\t@hadolint -c 'echo nested'\n\t@echo $(MAKELEVEL)\n"),
    ]
}
