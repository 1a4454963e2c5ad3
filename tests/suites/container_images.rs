//! Sidecars from any image: its own settings do not interfere, and missing requirements are
//! reported.

use std::fs;
use std::os::unix::fs::MetadataExt;

use aifo_tests::{ContainerSetup, Engine, Outcome, Running, Scratch, copy_executable};

/// Prints a tool user and directory.
const WHO: &str = "import os; open('made', 'w'); print(os.getuid(), os.getcwd())";

#[track_caller]
fn check_python(engine: &Engine, image: &str) {
    let session = ContainerSetup::of(engine).kind_from("python", image).start();
    let caller = fs::metadata(session.workspace()).unwrap().uid();
    let printed = format!("{caller} {}\n", session.workspace().display());
    assert_eq!(session.python(WHO, &[]), printed, "{image}");
    let made = fs::metadata(session.workspace().join("made")).unwrap();
    assert_eq!(made.uid(), caller, "{image}");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn vanilla() {
    let Some(engine) = Engine::of_run("vanilla") else { return };
    let image = "aifo-test-debian:latest";
    let runner = ["run", "--rm", image, "sh", "-c", "ls /opt; command -v aifo-runner aifo-shim"];
    assert_eq!(Outcome::of(&mut engine.command(runner)).text(), "");
    check_python(&engine, image);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn without_bash() {
    let Some(engine) = Engine::of_run("without_bash") else { return };
    check_python(&engine, "aifo-test-dash:latest");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn with_a_user_of_its_own() {
    let Some(engine) = Engine::of_run("with_a_user_of_its_own") else { return };
    let of_image = ["run", "--rm", "aifo-test-user:latest", "id", "-u"];
    assert_eq!(engine.text(of_image), "12345\n");
    check_python(&engine, "aifo-test-user:latest");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn without_anything_but_its_tools() {
    let Some(engine) = Engine::of_run("without_anything_but_its_tools") else { return };
    let session = ContainerSetup::of(&engine).kind_from("rust", "aifo-test-noshell:latest").start();
    assert_eq!(session.run("cargo", &["a b", ""]).exited(0).text(), "a b\n\n");
    session.run("cargo", &["exit", "7"]).exited(7);
    let variables = session.run("cargo", &["env"]).exited(0).text();
    for expected in ["PATH=/bin", "HOME=/home/coder", "CARGO_HOME=/home/coder/.cargo", "CC=gcc"] {
        assert!(variables.lines().any(|line| line == expected), "{expected}: {variables}");
    }
    let input = session.workspace().join("input");
    fs::write(&input, "through and through").unwrap();
    let mut cat = session.shim("cargo");
    let cat = Running::start(cat.arg("cat").stdin(fs::File::open(&input).unwrap()));
    assert_eq!(cat.finish().exited(0).text(), "through and through");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn hostile() {
    let Some(engine) = Engine::of_run("hostile") else { return };
    let image = "aifo-test-hostile:latest";
    check_python(&engine, image);

    let session = ContainerSetup::of(&engine).kind_from("python", image).start();
    let template = r#"{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}"#;
    let volumes = engine.inspect(&session.container("python"), template);
    let own = volumes.split(' ').find(|name| !name.is_empty() && !name.starts_with("aifo-"));
    let own = own.expect("the image demands a volume").to_owned();
    session.finish();
    let volumes = engine.text(["volume", "ls", "--quiet"]);
    assert!(!volumes.lines().any(|name| name == own), "{own}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn with_tools_in_its_own_path() {
    let Some(engine) = Engine::of_run("with_tools_in_its_own_path") else { return };
    let session = ContainerSetup::of(&engine).kind_from("rust", "aifo-test-path:latest").start();
    assert_eq!(session.run("cargo", &["build"]).exited(0).text(), "cargo\nbuild\n");
    fs::write(session.workspace().join("Makefile"), "all:\n\t@command -v make\n").unwrap();
    assert_eq!(session.run("make", &[]).exited(0).text(), "/opt/tools/bin/make\n");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn missing() {
    let Some(engine) = Engine::of_run("missing") else { return };
    let missing = "localhost:1/aifo-test-nobody-has-this:latest";
    let containers = ContainerSetup::of(&engine).kind("python").kind_from("rust", missing);
    let outcome = Outcome::of(containers.command("exec").args(["--", "cargo", "build"]));
    let said = &outcome.exited(86).stderr;
    assert!(
        said.contains(&format!("cannot start the rust sidecar from image '{missing}'")),
        "{said}"
    );
    assert!(said.contains("hint: ") && said.contains("--toolchain-image"), "{said}");
    let other = "localhost:1/nobody-has-this:latest";
    let others = ContainerSetup::of(&engine).kind_from("rust", other);
    let outcome = Outcome::of(others.command("exec").args(["--", "cargo", "build"]));
    assert!(
        outcome.exited(86).stderr.contains("; check its name, or load it into "),
        "{outcome:?}"
    );
    let setup = containers.setup();
    assert_eq!(engine.all_of(&setup.runtime()), [""; 0]);
    assert_eq!(fs::read_dir(setup.runtime()).unwrap().count(), 0, "no directory is left");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn with_nothing_inside() {
    let Some(engine) = Engine::of_run("with_nothing_inside") else { return };
    let image = engine.build("FROM scratch\nLABEL dev.aifo.test=nothing\n");
    let session = ContainerSetup::of(&engine).kind_from("rust", image.name()).start();
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("cargo", ["build"]).proto(version));
        assert_eq!((answer.status(), answer.exit_code()), (409, Some("86")), "{}", answer.text());
    }
    let outcome = session.run("cargo", &["build"]);
    assert!(outcome.exited(86).stderr.contains("cargo"), "{outcome:?}");
    session.finish();
}

/// The runner has this machine's architecture; the image has another.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn of_another_architecture() {
    let Some(engine) = Engine::of_run("of_another_architecture") else { return };
    let (name, machine) = if cfg!(target_arch = "x86_64") { ("arm64", 183) } else { ("amd64", 62) };
    let root = Scratch::new();
    let cargo = root.path().join("bin/cargo");
    fs::create_dir(cargo.parent().unwrap()).unwrap();
    copy_executable("/bin/true", &cargo);
    // The machine number in the ELF header.
    let mut program = fs::read(&cargo).unwrap();
    program[18] = machine;
    fs::write(&cargo, program).unwrap();
    let image = engine.load(root.path(), name);
    assert_eq!(engine.inspect(image.name(), "{{.Architecture}}"), name);
    let session = ContainerSetup::of(&engine).kind_from("rust", image.name()).start();
    let outcome = session.run("cargo", &["build"]);
    assert!(outcome.exited(126).only_line().to_lowercase().contains("exec format error"));
    session.run("make", &[]).exited(86);
    session.finish();
}
