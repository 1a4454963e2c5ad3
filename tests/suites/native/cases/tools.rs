//! Compilers, interpreters and build tools in common use.

use crate::native::invocation::Invocation;

const HELLO: &str = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 3; }\n";
const WRONG: &str = "int main(void) { return undeclared; }\n";
const RULES: &str = "\
all: program
program: main.o other.o
\tgcc -o $@ $^
main.o: main.c
other.o: other.c
%.o: %.c
\tgcc -c -o $@ $<
clean:
\trm -f program *.o
";

pub(crate) fn calls() -> Vec<Invocation> {
    let project = |name: &str, args: &[&str]| {
        Invocation::new(name, "make", args.iter().copied())
            .file("Makefile", RULES)
            .file("main.c", "int other(void);\nint main(void) { return other(); }\n")
            .file("other.c", "int other(void) { return 0; }\n")
    };
    let rules = |name: &str, rules: &str| {
        Invocation::new(name, "make", ["-f", "rules"]).file("rules", rules)
    };
    let gcc = |name: &str, args: &[&str]| Invocation::new(name, "gcc", args.iter().copied());
    let program = |name: &str, tool: &'static str, program: &str| {
        Invocation::new(name, tool, ["program", "an argument"]).file("program", program)
    };
    let files = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('content')\n\
        os.symlink('b/c', 'a/link')\nos.link('a/b/c', 'a/hard')\nos.mkfifo('a/fifo', 0o640)\n\
        os.chmod('a/hard', 0o2751)\nos.rename('a/b', 'a/d')\nprint(sorted(os.listdir('a')))";
    vec![
        // C.
        gcc("gcc compiles", &["-o", "hello", "hello.c"]).file("hello.c", HELLO),
        gcc("gcc's program runs", &["-o", "hello", "hello.c"])
            .caller("\"$@\" && ./hello; echo $?; rm hello")
            .file("hello.c", HELLO),
        gcc("gcc to an object", &["-c", "-g0", "-O2", "hello.c"]).file("hello.c", HELLO),
        gcc("gcc complains", &["-c", "wrong.c"]).file("wrong.c", WRONG),
        gcc("gcc complains in colour", &["-fdiagnostics-color=always", "-c", "wrong.c"])
            .file("wrong.c", WRONG),
        gcc("gcc preprocesses stdin", &["-E", "-P", "-xc", "-"]).piped("#define X 7\nX\n"),
        gcc("gcc compiles stdin", &["-S", "-o", "-", "-xc", "-"])
            .piped("int f(void) { return 1; }\n"),
        gcc("gcc without a file", &[]),
        gcc("gcc's dependencies", &["-MM", "hello.c"])
            .file("hello.c", "#include \"own.h\"\n")
            .file("own.h", ""),
        gcc("gcc's version", &["--version"]),
        Invocation::new("cc", "cc", ["-c", "hello.c"]).file("hello.c", HELLO),
        Invocation::new("g++", "g++", ["-c", "hello.cc"])
            .file("hello.cc", "#include <vector>\nstd::vector<int> v{1};\n"),
        // make.
        project("make builds", &[]),
        project("make builds at once", &["-j2"]).caller("\"$@\" | sort"),
        project("make again", &["-s"]).caller("\"$@\" && \"$@\"; \"$@\" -q; echo $?"),
        project("make cleans", &["clean"]),
        project("make tells", &["-n"]),
        project("make without a rule", &["no-such-goal"]),
        rules("make passes an error on", "all:\n\texit 7\n"),
        rules("make goes on", "all: a b\na b:\n\t@echo $@; false\n")
            .caller("exec make -k -f rules"),
        rules("make does not find a program", "all:\n\tno-such-program\n"),
        rules("make's recipe is killed", "all:\n\t@kill -9 $$$$\n"),
        rules(
            "make below make",
            "all:\n\t@$(MAKE) -f rules below\nbelow:\n\t@echo level $(MAKELEVEL)\n",
        ),
        Invocation::new("make reads stdin", "make", ["-f", "-"])
            .piped("all:\n\t@echo from stdin\n"),
        // python.
        program("python's program", "python3", "import sys\nprint(sys.argv)\nsys.exit(5)\n"),
        program("python's traceback", "python3", "def f(): raise ValueError('no')\nf()\n"),
        program("python's syntax", "python3", "print('unfinished\n"),
        program("python's input", "python3", "print(input('? ') * 2)\n").piped("ab\n"),
        Invocation::python("python makes files", files),
        Invocation::new("python's module", "python3", ["-m", "json.tool"]).piped("{\"a\": [1, 2]}"),
        Invocation::python("python in UTF-8", "print('größe 🦀')").env("LC_ALL", "C.UTF-8"),
        // node.
        program("node's program", "node", "console.log(process.argv.length); process.exit(5)"),
        program("node's trace", "node", "throw new Error('no')"),
        Invocation::new("node reads a program", "node", ["-"]).piped("console.log(6 * 7)"),
        Invocation::node(
            "node reads",
            "process.stdin.on('data', d => process.stdout.write(d)).on('end', () \
             => console.log('end'))",
        )
        .piped("some\ninput\n"),
        Invocation::node(
            "node writes much",
            "process.stdout.write('x'.repeat(1 << 20)); process.exitCode = 6",
        ),
        Invocation::node(
            "node makes files",
            "fs.mkdirSync('d'); fs.writeFileSync('d/f', 'text', { mode: 0o600 }); \
             fs.symlinkSync('f', 'd/l')",
        ),
        // rust.
        Invocation::new("cargo's version", "cargo", ["--version"]),
        Invocation::new("cargo has no such command", "cargo", ["no-such-command"]),
        Invocation::new("cargo outside a package", "cargo", ["build", "--offline"]),
        Invocation::new(
            "cargo begins a package",
            "cargo",
            ["new", "--vcs", "none", "--name", "ours", "made"],
        ),
        Invocation::new(
            "rustc compiles",
            "rustc",
            ["--crate-type", "lib", "--emit", "metadata", "ours.rs"],
        )
        .file("ours.rs", "pub fn f() {}\n"),
        Invocation::new("rustc complains", "rustc", ["wrong.rs"])
            .file("wrong.rs", "fn main() { f() }\n"),
        Invocation::new(
            "rustc reads stdin",
            "rustc",
            ["--crate-type", "lib", "--emit", "metadata", "--crate-name", "ours", "-"],
        )
        .piped("pub fn f() {}\n"),
    ]
}
