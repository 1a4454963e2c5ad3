//! Host commands from real containers that share only a directory with the host.

use std::fs;
use std::path::Path;

use aifo_tests::{Engine, Mailbox, Outcome, Running, argv, eventually, host, is_alive};

/// The host's `make`: prints to both streams its arguments and directory, and exits with its own
/// code.
const MAKE: &str = r#"
echo "make in $PWD: $*"
echo "warning: $1" >&2
cat
exit 3"#;

/// A container with one directory of the host, as the current user.
fn container(engine: &Engine, from: &Path, to: &str) -> std::process::Command {
    let caller = fs::metadata(from).expect("the directory is writable");
    let user = {
        use std::os::unix::fs::MetadataExt;
        format!("{}:{}", caller.uid(), caller.gid())
    };
    let mount = format!("{}:{to}", from.display());
    engine.command([
        "run",
        "--rm",
        "--interactive",
        "--network",
        "none",
        "--user",
        &user,
        "--volume",
        &mount,
    ])
}

fn mailbox() -> Mailbox {
    Mailbox::of(host().script("make", MAKE), &["make"])
}

#[track_caller]
fn check(engine: &Engine, mailbox: &Mailbox, image: &str) {
    let input = mailbox.setup().scratch().join("input");
    fs::write(&input, b"bytes\0\xff\n").unwrap();
    let mut run = container(engine, mailbox.directory(), "/mailbox");
    run.args([image, "/mailbox/make", "build", "TARGET=hello world", ""]);
    let outcome = Running::start(run.stdin(fs::File::open(&input).unwrap())).finish();
    let workspace = mailbox.setup().workspace();
    let mut expected =
        format!("make in {}: build TARGET=hello world \n", workspace.display()).into_bytes();
    expected.extend_from_slice(b"bytes\0\xff\n");
    assert_eq!(outcome.code(), Some(3), "{image}: {outcome:?}");
    assert_eq!(outcome.stdout, expected, "{image}");
    assert_eq!(outcome.stderr, "warning: build\n", "{image}");
    mailbox.assert_clean();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn real_container() {
    let Some(engine) = Engine::of_run("real_container") else { return };
    let mailbox = mailbox();
    for image in ["aifo-test-debian:latest", "aifo-test-dash:latest"] {
        check(&engine, &mailbox, image);
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_directory_has_another_name_inside() {
    let Some(engine) = Engine::of_run("a_directory_has_another_name_inside") else { return };
    let mailbox = mailbox();
    let workspace = mailbox.setup().workspace();
    fs::create_dir(workspace.join("sub")).unwrap();
    let mut run = container(&engine, &workspace, "/project");
    run.args(["--workdir", "/project/sub", "aifo-test-debian:latest"]);
    let outcome = Outcome::of(run.args(["../.swe-swe/proxy/make", "x"]));
    let expected = format!("make in {}/sub: x\n", workspace.display());
    assert_eq!(outcome.exited(3).text(), expected);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn killing_a_container_ends_its_command() {
    let Some(engine) = Engine::of_run("killing_a_container_ends_its_command") else {
        return;
    };
    let mailbox = Mailbox::start(&["fake"]);
    let name = format!("aifo-test-mailbox-{}", std::process::id());
    let mut run = container(&engine, mailbox.directory(), "/mailbox");
    run.args(["--name", &name, "aifo-test-debian:latest", "/mailbox/fake", "wait"]);
    let client = Running::start(&mut run);
    client.expect("ready\n");
    let tools = aifo_tests::descendants(mailbox.running().pid());
    let tool = tools.into_iter().find(|pid| argv(*pid).get(1).is_some_and(|it| it == "wait"));
    let tool = tool.expect("the command runs");
    engine.text(["kill", &name]);
    drop(client);
    eventually("the command has ended", || !is_alive(tool));
    mailbox.assert_clean();
}
