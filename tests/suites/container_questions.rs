//! Calls that wait for approval and run in containers, whose paths are others than the launcher's.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    ContainerSetup, Engine, Outcome, Running, Session, SessionSetup, UserContainer, WITH_GIT,
    binaries, eventually,
};

const RULES: &str = "[[rule]]\nrun = \"python3\"\nthen = \"ask\"\n\n[ask]\ntimeout_secs = 100\n";

fn configure(setup: &SessionSetup, rules: &str) {
    let directory = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), rules).unwrap();
}

fn approve(scratch: &Path, args: &[&str]) -> Outcome {
    let mut approve = Command::new(&binaries().coder);
    approve.env_clear().env("HOME", scratch.join("home")).env("TMPDIR", scratch.join("run"));
    approve.env("XDG_RUNTIME_DIR", scratch.join("run")).arg("approve").args(args);
    Outcome::of(&mut approve)
}

/// Calls python3 in `directory`, and allows it after `meanwhile`. Returns the directory that the user is shown, and the
/// response.
#[track_caller]
fn call(session: &Session, directory: &str, meanwhile: impl FnOnce()) -> (String, u16, String) {
    let request = session.post("/exec").field("tool", "python3").field("cwd", directory);
    let script = "import os; print(os.getcwd()); open('mark', 'a').close()";
    let waiting = session.send(&request.field("arg", "-c").field("arg", script));
    let mut listed = String::new();
    eventually("it waits", || {
        listed = approve(session.scratch(), &[]).text();
        listed.starts_with('q')
    });
    meanwhile();
    approve(session.scratch(), &["--answer", listed.split(' ').next().unwrap(), "once"]).exited(0);
    let answer = waiting.answer();
    let shown = listed.lines().find_map(|line| line.trim_start().strip_prefix("in "));
    (shown.unwrap_or(&listed).to_owned(), answer.status(), answer.text())
}

/// Checks calls in `asked`, whose path for the launcher is `host`, by the names of it for the agent.
#[track_caller]
fn check(session: &Session, host: &Path, names: &[(&str, &str)]) {
    for (name, shown) in names {
        fs::create_dir_all(host.join("asked")).unwrap();
        fs::create_dir_all(host.join("other")).unwrap();
        let (directory, status, text) = call(session, name, || {});
        assert_eq!((&*directory, status), (*shown, 200), "{name}: {text}");
        assert!(host.join("asked/mark").exists(), "{name}");
        let (_, status, text) = call(session, name, || {
            fs::rename(host.join("asked"), host.join("moved")).unwrap();
            symlink("other", host.join("asked")).unwrap();
        });
        assert_eq!(status, 400, "{name}: {text}");
        assert!(text.contains("was replaced while the call waited"), "{name}: {text}");
        assert!(!host.join("other/mark").exists(), "{name}");
        fs::remove_file(host.join("asked")).unwrap();
        fs::remove_dir_all(host.join("moved")).unwrap();
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_call_runs_in_the_directory_that_was_shown() {
    let Some(engine) = Engine::of_run("a_call_runs_in_the_directory_that_was_shown") else {
        return;
    };
    for transport in ["socket", "stdio"] {
        let setup =
            ContainerSetup::of(&engine).kind("python").flag("--runner-transport", transport);
        configure(setup.setup(), RULES);
        let session = setup.start();
        let outer = session.workspace().join("outer");
        fs::create_dir(&outer).unwrap();
        // Both lead nowhere for the launcher.
        symlink("/workspace/outer/asked", outer.join("link")).unwrap();
        symlink("/tmp/asked", session.workspace().join("to-tmp")).unwrap();
        let host = outer.join("asked").display().to_string();
        check(
            &session,
            &outer,
            &[
                (&host, &host),
                ("/workspace/outer/asked", "/workspace/outer/asked"),
                ("/workspace/outer/link", "/workspace/outer/asked"),
            ],
        );
        check(
            &session,
            &session.tmp(),
            &[("/tmp/asked", "/tmp/asked"), ("/workspace/to-tmp", "/tmp/asked")],
        );
        session.finish();
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_call_in_an_attached_container_runs_in_the_directory_that_was_shown() {
    let test = "a_call_in_an_attached_container_runs_in_the_directory_that_was_shown";
    let Some(engine) = Engine::of_run(test) else { return };
    let setup = SessionSetup::new();
    configure(&setup, RULES);
    let mount = format!("type=bind,source={},destination=/app", setup.workspace().display());
    let options = ["--mount", &mount, "--tmpfs", "/app/volume"];
    let container = UserContainer::start(&engine, &options);
    let attach = format!("{}=python", container.name());
    let serve = engine.coder(&setup, &["serve", "--toolchain", "python", "--attach", &attach]);
    let session = setup.start_as(serve);
    let outer = session.workspace().join("outer");
    let host = outer.join("asked").display().to_string();
    check(
        &session,
        &outer,
        &[(&host, &host), ("/workspace/outer/asked", "/workspace/outer/asked")],
    ); // The container has another directory there, which the user does not see.
    let volume = session.workspace().join("volume");
    let (_, status, text) = call(&session, &volume.display().to_string(), || {});
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("'/app/volume' was replaced"), "{text}");
    assert_eq!(container.shell("ls /app/volume"), "");
}

/// git in the agent container: in the workspace, in the shared `/tmp`, and in a directory that only the container has.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_call_in_place_runs_in_the_directory_that_was_shown() {
    let Some(engine) = Engine::with_git("a_call_in_place_runs_in_the_directory_that_was_shown")
    else {
        return;
    };
    let containers = ContainerSetup::of(&engine).kind_from("c-cpp", WITH_GIT);
    let rules = "[[rule]]\nrun = \"git init\"\nthen = \"ask\"\n\n[ask]\ntimeout_secs = 100\n";
    configure(containers.setup(), rules);
    let workspace = containers.setup().workspace();
    fs::create_dir_all(workspace.join("sub")).unwrap();
    let script = "mkdir /tmp/b ~/own; for d in sub /tmp/b ~/own sub; do cd /workspace; cd $d; git init -q; \
                  echo $? $PWD; done";
    let mut run = containers.command("run");
    run.args(["--image", WITH_GIT, "--", "bash", "-c", script]);
    let running = Running::start(&mut run);
    let scratch = containers.setup().scratch();
    for (number, shown) in
        ["/workspace/sub", "/tmp/b", "/home/coder/own", "/workspace/sub"].into_iter().enumerate()
    {
        let id = format!("q{}", number + 1);
        let mut listed = String::new();
        eventually("it waits", || {
            listed = approve(scratch, &[]).text();
            listed.starts_with(&id)
        });
        assert!(listed.contains(&format!("in {shown}\n")), "{listed}");
        if number == 3 {
            fs::rename(workspace.join("sub"), workspace.join("moved")).unwrap();
            fs::create_dir(workspace.join("sub")).unwrap();
        }
        approve(scratch, &["--answer", &id, "once"]).exited(0);
    }
    let outcome = running.finish();
    let expected = "0 /workspace/sub\n0 /tmp/b\n0 /home/coder/own\n86 /workspace/sub\n";
    assert_eq!(outcome.text(), expected, "{}", outcome.stderr);
}
