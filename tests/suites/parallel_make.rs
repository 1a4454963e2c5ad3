//! A native `make -j` with a shim as the compiler: hundreds of concurrent calls produce the same
//! files as the compiler itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use aifo_tests::{
    Comparison, ExecMode, Outcome, ResourceUsage, Running, Signal, descendants, eventually,
    is_alive, program,
};

const FILES: usize = 500;

const MAKEFILE: &str = "
OBJECTS := $(patsubst src/%.c,$(OUT)/%.o,$(wildcard src/*.c))
all: $(OUT)/sum
$(OUT)/sum: $(OBJECTS)
\t@cc -o $@ $^
$(OUT)/%.o: src/%.c src/common.h
\t@cc -O1 -Wall -c -o $@ $<
";

/// Writes this many sources, each with the header; `main` calls all others.
fn write_sources(comparison: &Comparison, files: usize) {
    let dir = comparison.dir();
    fs::create_dir(dir.join("src")).unwrap();
    fs::write(dir.join("Makefile"), MAKEFILE).unwrap();
    fs::write(dir.join("src/common.h"), "#define PLUS(a, b) ((a) + (b))\n").unwrap();
    let (mut declarations, mut sum) = (String::new(), "0".to_owned());
    for number in 1..files {
        let source = format!(
            "#include \"common.h\"\nint f{number}(int x) {{ return PLUS(x, {number}); }}\n"
        );
        fs::write(dir.join(format!("src/f{number}.c")), source).unwrap();
        let _ = writeln!(declarations, "int f{number}(int);");
        let _ = write!(sum, " + f{number}(1)");
    }
    let main = format!(
        "#include <stdio.h>\n{declarations}int main(void) {{ printf(\"%d\\n\", {sum}); return 0; }}\n"
    );
    fs::write(dir.join("src/main.c"), main).unwrap();
}

/// The machine's make; it finds its tools in PATH.
fn make(comparison: &Comparison, mode: ExecMode, out: &str, args: &[&str]) -> Command {
    let make = program("make").expect("the stage has it");
    fs::create_dir_all(comparison.dir().join(out)).unwrap();
    let out = format!("OUT={out}");
    comparison.command(mode, &[&[make.to_str().unwrap(), "-j16", &out], args].concat())
}

fn objects(comparison: &Comparison, out: &str) -> BTreeMap<String, Vec<u8>> {
    let made = fs::read_dir(comparison.dir().join(out)).unwrap().map(|entry| entry.unwrap());
    made.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

#[track_caller]
fn comparison(test: &str) -> Option<Comparison> {
    Comparison::start(&format!("parallel_make::{test}"), &["make", "cc"])
}

#[track_caller]
fn check_nothing_gained(comparison: &Comparison, before: &ResourceUsage) {
    eventually("no fd and no process is gained", || {
        let now = ResourceUsage::of(comparison.session());
        now.processes <= before.processes
            && now.fds.iter().zip(&before.fds).all(|(now, before)| now <= before)
    });
}

#[test]
fn five_hundred_calls_make_what_the_compiler_makes() {
    let Some(comparison) = comparison("five_hundred_calls_make_what_the_compiler_makes") else {
        return;
    };
    write_sources(&comparison, FILES);
    let native = Outcome::of(&mut make(&comparison, ExecMode::Native, "native", &[]));
    assert_eq!((native.exited(0).text().as_str(), native.stderr.as_str()), ("", ""));

    // The first call may open descriptors permanently; later ones may not.
    Outcome::of(&mut make(&comparison, ExecMode::Passed, "first", &["first/f1.o", "first/f2.o"]))
        .exited(0);
    let before = ResourceUsage::of(comparison.session());
    let shims = Outcome::of(&mut make(&comparison, ExecMode::Passed, "shims", &[]));
    assert_eq!((shims.exited(0).text().as_str(), shims.stderr.as_str()), ("", ""));
    check_nothing_gained(&comparison, &before);

    let (native, shims) = (objects(&comparison, "native"), objects(&comparison, "shims"));
    assert_eq!(native.len(), FILES + 1, "every object, and what they are linked to");
    assert_eq!(native.keys().collect::<Vec<_>>(), shims.keys().collect::<Vec<_>>());
    let differ: Vec<&String> = native.keys().filter(|name| native[*name] != shims[*name]).collect();
    assert!(differ.is_empty(), "{differ:?}");
    let sum = Outcome::of(&mut Command::new(comparison.dir().join("shims/sum"))).exited(0).text();
    let expected: usize = (1..FILES).map(|number| number + 1).sum();
    assert_eq!(sum.trim(), expected.to_string());
}

/// Diagnostics and endings reach make.
#[test]
fn compile_errors_are_reported() {
    let Some(comparison) = comparison("compile_errors_are_reported") else { return };
    write_sources(&comparison, 20);
    for number in [3, 7, 11] {
        let source = format!("int f{number}(void) {{ return undeclared_{number}; }}\n");
        fs::write(comparison.dir().join(format!("src/f{number}.c")), source).unwrap();
    }
    let printed = ExecMode::ALL.map(|mode| {
        let outcome = Outcome::of(&mut make(&comparison, mode, "out", &["-k"]));
        fs::remove_dir_all(comparison.dir().join("out")).unwrap();
        // Parallel output has no fixed order.
        let mut lines: Vec<String> = outcome.stderr.lines().map(str::to_owned).collect();
        lines.sort();
        (outcome.code(), lines)
    });
    let [(code, lines), ..] = &printed;
    assert_eq!(*code, Some(2));
    for number in [3, 7, 11] {
        let undeclared = format!("undeclared_{number}");
        assert!(lines.iter().any(|line| line.contains(&undeclared)), "{lines:?}");
    }
    assert_eq!(printed[0], printed[1]);
    assert_eq!(printed[0], printed[2]);
}

/// A nested make finds the outer jobserver by its descriptor numbers.
#[test]
fn a_make_below_a_make_misses_nothing() {
    let Some(comparison) = comparison("a_make_below_a_make_misses_nothing") else { return };
    let make = program("make").expect("the stage has it");
    let script = format!(
        "printf 'all:\\n\\t@+make -f below\\n' > Makefile
        printf 'all: a b\\na b:\\n\\t@ninja say $@ $(MAKELEVEL)\\n' > below
        {} -j4 | sort",
        make.display()
    );
    let left = comparison.compare(&ExecMode::ALL, &["bash", "-c", &script]);
    let left = left.unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!((left.ending, left.stderr.as_str()), (Ok(0), ""));
    assert!(left.stdout.starts_with("a 1\nb 1\n"), "{left:?}");
}

/// make ends its children and removes half-made targets.
#[test]
fn an_interrupted_make_leaves_nothing_running() {
    let Some(comparison) = comparison("an_interrupted_make_leaves_nothing_running") else { return };
    let rules =
        "all: $(addprefix $(OUT)/,1 2 3 4 5 6 7 8)\n$(OUT)/%:\n\t@ninja quiet $(CURDIR)/$@\n";
    // It waits for the first checkpoint, whose process then stays.
    comparison.session().answer(&comparison.session().exec("make", ["--version"]));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for mode in ExecMode::ALL {
            comparison.clear();
            fs::write(comparison.dir().join("Makefile"), rules).unwrap();
            let before = ResourceUsage::of(comparison.session());
            let make = Running::start(&mut make(&comparison, mode, "out", &[]));
            let out = comparison.dir().join("out");
            // Each file appears atomically, so an early read finds no partial content.
            let mut tools: Vec<i32> = Vec::new();
            eventually("all eight run", || {
                let printed =
                    (1..=8).map(|number| fs::read_to_string(out.join(number.to_string())));
                tools = printed.flatten().map(|pid| pid.parse().expect("it is a pid")).collect();
                tools.len() == 8
            });
            if mode != ExecMode::Native {
                tools.iter_mut().for_each(|tool| *tool = comparison.session().process(*tool));
            }
            let shims = descendants(make.pid());
            make.signal(signal);
            if signal == Signal::SIGINT {
                // As a terminal does: INT goes to the whole group, and make forwards no signal.
                shims.iter().for_each(|&pid| aifo_tests::send_signal(pid, signal));
            }
            let outcome = make.finish();
            assert!(outcome.code() == Some(2) || outcome.signal() == Some(signal as i32));
            eventually("no tool is left", || !tools.iter().any(|&tool| is_alive(tool)));
            assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "no target is left: {mode:?}");
            check_nothing_gained(&comparison, &before);
        }
    }
}
