//! Real toolchains in new projects, confined and without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Landlock, Outcome, Session, SessionSetup, can_run};

/// The directory of this program on this machine; without it the test is reported as skipped.
fn folder_of(test: &str, program: &str) -> Option<PathBuf> {
    let script = format!("command -v {program}");
    if !can_run(&format!("fresh_projects::{test}"), &["/bin/sh", "-c", &script]) {
        return None;
    }
    let found = Outcome::of(Command::new("/bin/sh").args(["-c", &script])).text();
    Some(Path::new(found.trim()).parent()?.to_owned())
}

/// A setup with the machine's PATH, for real tools.
fn real(kinds: &[&str], first: &Path) -> SessionSetup {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", first.display());
    SessionSetup::new().kinds(kinds).env("PATH", &path)
}

#[track_caller]
fn check_runs(session: &Session, tool: &str, args: &[&str], cwd: &str) -> String {
    let call = session.post("/exec").field("tool", tool).field("cwd", session.file(cwd));
    let call = args.iter().fold(call, |call, arg| call.field("arg", arg));
    let answer = session.answer(&call);
    assert_eq!(answer.exit_code(), Some("0"), "{tool} {args:?}: {}", answer.text());
    answer.text()
}

fn write(session: &Session, name: &str, text: &str) {
    let path = PathBuf::from(session.file(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn cargo_builds_tests_and_runs_a_fresh_project() {
    if !Landlock::Writes.available("fresh_projects::cargo_builds_tests_and_runs_a_fresh_project") {
        return;
    }
    // The compiler of this build: rustup's proxies would search for it in the scratch HOME.
    let cargo = PathBuf::from(std::env::var_os("CARGO").expect("cargo runs the tests"));
    let session = real(&["rust"], cargo.parent().expect("an absolute path")).start();
    check_runs(&session, "cargo", &["new", "--vcs", "none", "fresh"], "");
    check_runs(&session, "cargo", &["new", "--vcs", "none", "--lib", "dependency"], "");
    let manifest = fs::read_to_string(session.file("fresh/Cargo.toml")).unwrap();
    write(&session, "fresh/Cargo.toml", &format!("{manifest}dependency.path = '../dependency'\n"));
    let build =
        "fn main() { std::fs::write(std::env::var(\"OUT_DIR\").unwrap() + \"/x\", \"\").unwrap() }";
    write(&session, "fresh/build.rs", build);
    check_runs(&session, "cargo", &["build", "--offline"], "fresh");
    check_runs(&session, "cargo", &["test", "--offline"], "dependency");
    let text = check_runs(&session, "cargo", &["run", "--offline", "--release"], "fresh");
    assert!(text.ends_with("Hello, world!\n"), "{text}");
}

#[test]
fn npm_installs_from_a_lock_file() {
    let test = "npm_installs_from_a_lock_file";
    if !Landlock::Writes.available(&format!("fresh_projects::{test}")) {
        return;
    }
    let Some(dir) = folder_of(test, "npm") else { return };
    let session = real(&["node"], &dir).start();
    write(&session, "dep/package.json", r#"{"name":"dep","version":"1.0.0","bin":"hi.js"}"#);
    write(&session, "dep/hi.js", "#!/usr/bin/env node\nconsole.log('hi from dep')\n");
    let packed = check_runs(&session, "npm", &["pack", "--silent"], "dep");
    assert_eq!(packed.trim(), "dep-1.0.0.tgz");
    let root =
        r#"{"name":"app","version":"1.0.0","dependencies":{"dep":"file:../dep/dep-1.0.0.tgz"}}"#;
    write(&session, "app/package.json", root);
    let quiet = ["--offline", "--no-audit", "--no-fund"];
    check_runs(&session, "npm", &[&["install"], &quiet[..]].concat(), "app");
    fs::remove_dir_all(session.file("app/node_modules")).unwrap();
    check_runs(&session, "npm", &[&["ci"], &quiet[..]].concat(), "app");
    assert_eq!(check_runs(&session, "npx", &["--offline", "dep"], "app"), "hi from dep\n");
}

#[test]
fn pip_installs_for_the_user_and_into_an_environment() {
    let test = "pip_installs_for_the_user_and_into_an_environment";
    if !Landlock::Writes.available(&format!("fresh_projects::{test}")) {
        return;
    }
    // By its canonical path: a wrapper that selects a python would need its settings.
    let found = "python3 -c 'import pip, ensurepip, sys; print(sys.executable)'";
    if !can_run(&format!("fresh_projects::{test}"), &["/bin/sh", "-c", found]) {
        return;
    }
    let python = Outcome::of(Command::new("/bin/sh").args(["-c", found])).text();
    let dir = Path::new(python.trim()).parent().unwrap().to_owned();
    let session = real(&["python"], &dir).start();
    wheel(&session);
    let wheel = session.file("tiny-1.0-py3-none-any.whl");
    let quiet = ["--no-index", "--disable-pip-version-check", "--break-system-packages"];
    let module = ["-m", "pip", "install", "--user"];
    check_runs(&session, "python3", &[&module, &quiet[..], &[&wheel]].concat(), "");
    assert_eq!(check_runs(&session, "python3", &["-c", "import tiny"], ""), "tiny is there\n");
    let projects = fs::read_dir(session.scratch().join("home/.cache/aifo/projects")).unwrap();
    let project = projects.map(|entry| entry.unwrap().path()).next().unwrap();
    assert!(project.join("python-user/lib").is_dir(), "not in the user's own home");

    check_runs(&session, "python3", &["-m", "venv", ".venv"], "");
    check_runs(&session, "pip", &[&["install"], &quiet[..2], &[&wheel]].concat(), "");
    assert_eq!(check_runs(&session, "python", &["-c", "import tiny"], ""), "tiny is there\n");
}

/// Writes a package that needs no build: an archive that python itself can create.
fn wheel(session: &Session) {
    let script = "\
import zipfile
info = 'tiny-1.0.dist-info/'
with zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny.py', 'print(\"tiny is there\")\\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', 'tiny.py,,\\n')
";
    check_runs(session, "python3", &["-c", script], "");
}

#[test]
fn go_builds_a_fresh_project() {
    let test = "go_builds_a_fresh_project";
    if !Landlock::Writes.available(&format!("fresh_projects::{test}")) {
        return;
    }
    let Some(dir) = folder_of(test, "go") else { return };
    let session = real(&["go"], &dir).env("GOTOOLCHAIN", "local").start();
    write(&session, "go.mod", "module example.com/fresh\n");
    write(&session, "main.go", "package main\n\nfunc main() { println(\"hi\") }\n");
    check_runs(&session, "go", &["build", "-o", "fresh"], "");
    assert_eq!(check_runs(&session, "go", &["run", "."], ""), "hi\n");
}

/// Go builds its unpacked modules without a check against `go.sum`.
#[test]
fn a_module_that_a_test_changes_is_not_what_another_project_builds() {
    let test = "a_module_that_a_test_changes_is_not_what_another_project_builds";
    let Some(dir) = folder_of(test, "go") else { return };
    if folder_of(test, "python3").is_none() {
        return;
    }
    let setup = real(&["go"], &dir);
    let at = |name: &str| setup.scratch().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    };
    write("proxy/example.org/dep/@v/v1.0.0.mod", "module example.org/dep\n");
    write("proxy/example.org/dep/@v/v1.0.0.info", "{\"Version\":\"v1.0.0\"}");
    let zip = at("proxy/example.org/dep/@v/v1.0.0.zip");
    Outcome::of(Command::new("python3").args(["-c", MODULE]).arg(zip)).exited(0);
    for project in ["one", "another"] {
        write(
            &format!("{project}/go.mod"),
            "module app\n\ngo 1.19\n\nrequire example.org/dep v1.0.0\n",
        );
        let main =
            "package main\n\nimport \"example.org/dep\"\n\nfunc main() { println(dep.Say()) }\n";
        write(&format!("{project}/main.go"), main);
    }
    write("one/main_test.go", CHANGES);
    let proxy = format!("file://{}", at("proxy").display());
    let go = |project: &str, args: &[&str]| {
        let mut exec = setup.coder();
        exec.args(["exec", "--toolchain=go", "--", "go"]).args(args).current_dir(at(project));
        exec.env("GOPROXY", &proxy).env("GONOSUMDB", "*").env("GOFLAGS", "-mod=mod");
        Outcome::of(exec.env("GOTOOLCHAIN", "local"))
    };
    let ran = |project: &str, expected: &str| {
        let outcome = go(project, &["run", "."]);
        assert!(outcome.exited(0).stderr.ends_with(expected), "{project}: {outcome:?}");
    };
    let share = |scope: &str| {
        write("home/.config/aifo/config.toml", &format!("[containers]\ncaches = '{scope}'\n"));
        ran("one", "honest\n");
        go("one", &["test", "."]).exited(0);
        ran("one", "changed\n");
    };
    share("project");
    ran("another", "honest\n");
    // The user may choose to share; then the change has an effect.
    share("user");
    ran("another", "changed\n");
}

/// A module in the format of a Go module proxy.
const MODULE: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as module:
    module.writestr("example.org/dep@v1.0.0/go.mod", "module example.org/dep\n")
    module.writestr("example.org/dep@v1.0.0/dep.go", 'package dep\n\nfunc Say() string { return "honest" }\n')
"#;

/// A test that changes the unpacked module.
const CHANGES: &str = r#"package main

import (
	"os"
	"testing"

	_ "example.org/dep"
)

func TestX(t *testing.T) {
	at := os.Getenv("GOMODCACHE") + "/example.org/dep@v1.0.0"
	source := "package dep\n\nfunc Say() string { return \"changed\" }\n"
	os.Chmod(at, 0o700)
	os.Chmod(at+"/dep.go", 0o600)
	if err := os.WriteFile(at+"/dep.go", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}
"#;

#[test]
fn make_and_a_compiler_build_c() {
    let test = "make_and_a_compiler_build_c";
    if !Landlock::Writes.available(&format!("fresh_projects::{test}")) {
        return;
    }
    let Some(dir) = folder_of(test, "cc && command -v make") else { return };
    let session = real(&["c-cpp"], &dir).start();
    write(&session, "Makefile", "hi: hi.c\n\tcc -pipe -o $@ $<\n\tcc -c -o hi.o $<\n");
    write(&session, "hi.c", "int main(void) { return 0; }\n");
    check_runs(&session, "make", &[], "");
}
