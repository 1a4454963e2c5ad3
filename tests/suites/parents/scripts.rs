//! Shell scripts of agents. `ninja` is the fake tool, `cmake` is `cat`, `clang` is `yes`.

/// For every shell.
pub(crate) const SCRIPTS: &[&str] = &[
    // Output: to files, pipes, /dev/null, several at once.
    r#"python3 -c 'import sys; print("out"); print("err", file=sys.stderr)' 2>/dev/null; echo $?"#,
    r#"python3 -c 'import sys; print("out"); print("err", file=sys.stderr)' >/dev/null; echo $?"#,
    r#"x=$(python3 -c 'print("captured"); raise SystemExit(3)'); echo "$x $?""#,
    r#"x=$(ninja both 3 2>&1); echo "$x""#,
    r#"x=$(ninja both 3 2>&1 >/dev/null); echo "$x""#,
    "ninja both 500 2>&1 | cksum",
    "ninja both 50 > out 2> err; cat out err",
    "ninja both 50 > one 2>&1; cat one",
    "ninja both 50 > $OUTSIDE/one 2>&1; cat $OUTSIDE/one",
    "ninja both 5 >> one 2>> one; ninja say end >> one; cat one",
    "echo kept > one; ninja say more >> one; ninja say over > two; ninja say anew > two",
    "echo kept > $OUTSIDE/a; ninja say more >> $OUTSIDE/a; cat $OUTSIDE/a",
    "{ echo a; ninja say b; echo c; ninja say d; } > inside; cat inside",
    "{ echo a; ninja say b; echo c; ninja say d; } > $OUTSIDE/f; cat $OUTSIDE/f",
    "ninja say seen > /dev/null; ninja say told >&2",
    "ninja both 2 >&-; echo $?",
    // Input: heredocs, pipes, files inside and outside the workspace, and tools without input.
    "python3 - <<'EOF'\nimport sys\nprint('from a heredoc', repr(sys.stdin.read()))\nEOF",
    "python3 - one two <<'EOF'\nimport sys\nprint(sys.argv)\nsys.exit(7)\nEOF\necho $?",
    "node - <<'EOF'\nconsole.log('from a heredoc', process.argv.length)\nEOF",
    "python3 -c 'import sys; print(sys.stdin.read().upper())' <<EOF\n$((1 + 2)) words\nEOF",
    "cmake <<EOF | cksum\n$(seq 1 30000)\nEOF",
    "cc -x c - -o hello <<'EOF'\n#include <stdio.h>\nint main(void) { puts(\"hi\"); }\nEOF\n./hello",
    r#"printf 'a\nb\n' | node -e 'process.stdin.on("data", d => console.log(String(d)))'"#,
    r#"printf 'a\nb' | python3 -c 'import sys; print(sys.stdin.readlines())'"#,
    "seq 1 5000 > data; cat data | cmake | cksum; cmake < data | cksum",
    "seq 1 5000 > $OUTSIDE/data; cmake < $OUTSIDE/data | cksum",
    "seq 1 200000 | cmake | cmake | cksum",
    "head -c 3000000 /dev/zero | cmake | cksum",
    "cmake < /dev/null; ninja stdin < /dev/null",
    "echo text > f; ninja stdin < f; ninja stdin <&-; echo $?",
    r#"printf '1\n2\n3\n' > lines; while read line; do ninja say "$line"; done < lines"#,
    r#"printf '1\n2\n3\n' > lines; while read line; do python3 -c "print($line)"; done < lines"#,
    r#"seq 3 > $OUTSIDE/lines; while read line; do ninja say "$line"; done < $OUTSIDE/lines"#,
    r#"seq 9 > f; { read a; python3 -c 'import os; print(os.read(0, 4))'; cat; } < f"#,
    r#"seq 9 > $OUTSIDE/f; { python3 -c 'import os; print(os.read(0, 4))'; cat; } < $OUTSIDE/f"#,
    "printf 'ninja say a\\npython3 -c \"print(1)\"\\necho end\\n' > script; sh < script",
    "printf 'echo first\\ncmake\\nthis is data\\n' > script; sh < script",
    "mkfifo open; exec 4<>open; python3 -c 'print(\"ended\")' < open",
    // Pipelines.
    r#"python3 -c 'print("a")' | node -e 'process.stdin.pipe(process.stdout)' | cmake"#,
    "clang | head -1",
    "{ clang; echo $? >&2; } | head -1",
    "python3 -c 'while True: print(\"y\" * 1000)' 2>/dev/null | head -1 | cksum",
    r#"node -e 'process.stdout.on("error", e => { console.error(e.code); process.exit(5) })
        setInterval(() => console.log("line"), 1)' | head -1"#,
    r#"ninja both 3 2>&1 | while read line; do echo "got $line"; done"#,
    "printf '%s\\n' c a b | xargs -n1 -P2 ninja say | sort",
    "touch a.x b.x; find . -name '*.x' -print0 | sort -z | xargs -0 ninja say",
    "touch a.x; find . -name '*.x' -exec ninja say {} +",
    // Endings.
    "ninja exit 0 && ninja exit 3 || echo $?",
    "if ninja exit 1; then echo yes; else echo no; fi; ! ninja exit 1; echo $?",
    "set -e; ninja say before; ninja exit 3; echo never",
    "ninja exit 255",
    "exec ninja exit 4",
    "exec python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGUSR1)'",
    "ninja die 15; echo $?",
    "ninja die 9; echo $?; ninja die 1; echo $?; ninja die 14; echo $?",
    "{ ulimit -c 0; ninja die 6; echo $?; ninja die 11; echo $?; } 2>/dev/null",
    "python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'; echo $?",
    "python3 -c 'raise RuntimeError(1)'; echo $?",
    "node -e 'process.exitCode = 9'; echo $?",
    "node -e 'throw 1' 2>/dev/null; echo $?",
    "no-such-tool; echo $?",
    "make nothing; echo $?",
    // Background, traps, and `wait`.
    "ninja say one & wait; echo $?",
    "ninja exit 5 & wait $!; echo $?",
    "ninja exit 5 & ninja exit 6 & wait; echo $?",
    "exec 2>/dev/null; mkfifo ready; python3 -c 'import time; open(\"ready\", \"w\").write(\"x\"); time.sleep(60)' &
        read x < ready; kill $!; wait $!; echo $?",
    "exec 2>/dev/null; mkfifo ready; python3 -c 'import time; open(\"ready\", \"w\").write(\"x\"); time.sleep(60)' &
        read x < ready; kill -INT $!; kill -HUP $!; wait $!; echo $?",
    "exec 2>/dev/null; mkfifo ready; python3 -c 'import time; open(\"ready\", \"w\").write(\"x\"); time.sleep(60)' &
        read x < ready; kill -KILL $!; wait $!; echo $?",
    "mkfifo go; trap 'echo trapped; exit 9' TERM; { read x < go; kill -TERM $$; touch sent; } &
        python3 -c 'import os, time
open(\"go\", \"w\").write(\"x\")
while not os.path.exists(\"sent\"): time.sleep(.01)
print(\"the tool ends first\")'; echo never",
    "trap 'echo bye' EXIT; ninja exit 3",
    "trap '' USR1; python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGUSR1); print(1)'",
    "timeout 0.3 python3 -c 'import time; time.sleep(60)'; echo $?",
    "timeout -s KILL 0.3 python3 -c 'import time; time.sleep(60)'; echo $?",
    "timeout 60 ninja exit 7; echo $?",
    "nohup python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGHUP); print(1)' > out &
        wait $!; echo $?; cat out",
    "setsid python3 -c 'print(\"of its own session\")'; setsid -w ninja exit 4; echo $?",
    "nice -n 5 python3 -c 'import os; print(os.nice(0))'; python3 -c 'import os; print(os.nice(0))'",
    // Other inherited attributes.
    "umask 027; python3 -c 'open(\"made\", \"w\")'; ninja both 1 > out; umask",
    "ulimit -S -n 123; python3 -c 'import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE)[0])'",
    "CI=1 python3 -c 'import os; print(os.environ.get(\"CI\"))'",
    "NODE_ENV=production node -p process.env.NODE_ENV; LC_ALL=C.UTF-8 node -p process.env.LC_ALL",
    "printf 'all:\\n\\t@echo $$CI $$CFLAGS $(CFLAGS) $(X)\\n' > Makefile; CI=1 CFLAGS=-O1 make X=x",
    "export CI=true; python3 -c 'import os; print(os.environ[\"CI\"])'; (ninja cwd)",
    r#"env -i PATH="$PATH" python3 -c 'print("hardly any environment")'"#,
    "mkdir sub; ln -s sub link; (cd sub && ninja cwd); cd link && python3 -c 'import os
print(os.getcwd(), os.environ[\"PWD\"])'; cd ..; ninja cwd",
    r#"ninja say "two  words" '' '*' "$(printf 'a\nb')" \\"#,
];

/// For bash only.
pub(crate) const OF_BASH: &[&str] = &[
    "ninja both 3 &> all; cat all; ninja both 3 |& cksum",
    "cmake <<< 'a string'; python3 <<< 'print(1)'",
    "cmake < <(echo substituted); cmake < <(ninja say of a tool)",
    "ninja both 2 2> >(sed s/^/err:/) > >(sed s/^/out:/) | sort",
    "mapfile -t lines < <(ninja both 3 2>&1); echo ${#lines[@]} ${lines[2]}",
    "clang | head -1; echo ${PIPESTATUS[@]}",
    "cat /dev/zero | python3 -c 'import os; os.read(0, 1)'; echo ${PIPESTATUS[@]}",
    "ninja exit 3 | ninja exit 4 | ninja exit 0; echo ${PIPESTATUS[@]}",
    "set -o pipefail; ninja exit 3 | cmake; echo $?",
    "coproc cmake; echo hello >&${COPROC[1]}; read x <&${COPROC[0]}; echo got $x; kill $COPROC_PID",
    "ninja exit 6 & wait -n; echo $?",
    "exec {own}> side; ninja say hi >&$own; echo there >&$own; exec {own}>&-; cat side",
];

/// Only with passed descriptors. A relayed one is read ahead, except for files, and the next reader
/// lacks the bytes that were read ahead.
pub(crate) const OF_ONE_PIPE: &[&str] = &[
    "seq 3 | while read line; do ninja say $line; done",
    "seq 3 | { read line; ninja say $line; python3 -c 'print(1)'; cat; }",
    "seq 9 | { python3 -c 'import os; print(os.read(0, 4))'; cat; }",
    "printf 'ninja say a\\npython3 -c \"print(1)\"\\necho end\\n' | sh",
    "printf 'ninja say a\\ncmake\\nthis is data\\n' | bash",
];
