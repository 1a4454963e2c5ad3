//! Programs, directories and records that an agent can write are never trusted, and aifo never
//! falls back to this machine silently.
//!
//! Proves `spec/trust.md#ground-check`, `spec/trust.md#records`, `spec/trust.md#fallbacks`,
//! `spec/trust.md#a-killed-launcher`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    Outcome, Running, SessionSetup, Signal, Tool, binaries, copy_executable, descendants,
    eventually, is_alive, write_script,
};

/// A setup whose tools include a shell.
fn setup() -> SessionSetup {
    let programs = ["sh", "sleep", "touch", "true"];
    programs.into_iter().fold(SessionSetup::new(), |setup, name| {
        setup.tool(name, Tool::Link(format!("/bin/{name}").into()))
    })
}

/// A program that creates a file, and fails like a missing engine.
fn plant(directory: &Path, name: &str, trace: &Path) {
    write_script(directory.join(name), &format!(": > '{}'\nexit 1", trace.display()));
}

#[test]
fn programs_of_the_workspace_are_never_started() {
    let setup = setup();
    let trace = setup.scratch().join("trace");
    let venv = setup.workspace().join(".venv/bin");
    for name in ["docker", "podman", "git", "du"] {
        plant(&venv, name, &trace);
        plant(&setup.workspace(), name, &trace);
        plant(&setup.workspace().join("node_modules/.bin"), name, &trace);
    }
    // An agent's own state, as it could be mounted.
    let state = setup.scratch().join("home/.local/share/aifo/state/codex/key/home/.codex/bin");
    plant(&state, "docker", &trace);
    let linked = setup.scratch().join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(venv.join("docker"), linked.join("docker")).unwrap();

    let tools = setup.tools();
    let paths = [
        venv.as_path(),
        linked.as_path(),
        state.as_path(),
        Path::new("./node_modules/.bin"),
        Path::new("."),
        Path::new(""),
    ];
    let commands: [&[&str]; 7] = [
        &["exec", "--toolchain=rust", "--", "cargo", "exit", "0"],
        &["run", "--toolchain=rust", "--", "true"],
        &["run", "codex"],
        &["agents"],
        &["sessions"],
        &["cleanup", "--dry-run", "0123456789abcdef"],
        &["cache", "list"],
    ];
    for path in paths {
        let path = format!("{}:{}", path.display(), tools.display());
        for command in commands {
            let outcome = Outcome::of(setup.coder().args(command).env("PATH", &path));
            assert!(!trace.exists(), "PATH={path} {command:?}: {outcome:?}");
        }
    }
}

#[test]
fn programs_of_other_workspaces_are_never_started() {
    let setup = setup();
    let other = setup.scratch().join("other");
    let trace = setup.scratch().join("trace");
    plant(&other.join(".venv/bin"), "docker", &trace);
    let exec = |workspace: &Path, more: &[&str]| {
        let path = format!("{}:{}", other.join(".venv/bin").display(), setup.tools().display());
        let mut coder = setup.coder();
        coder.args(["exec", "--toolchain=rust"]).args(more).current_dir(workspace);
        Outcome::of(coder.args(["--", "cargo", "exit", "0"]).env("PATH", path))
    };
    exec(&other, &["--backend=local"]).exited(0);
    exec(&setup.workspace(), &[]).exited(0);
    assert!(!trace.exists(), "a session has been there before");
}

#[test]
fn doctor_names_programs_that_are_passed_over() {
    let setup = setup();
    let venv = setup.workspace().join(".venv/bin");
    plant(&venv, "docker", &setup.scratch().join("trace"));
    let path = format!("{}:{}", venv.display(), setup.tools().display());
    let mut doctor = setup.coder();
    let outcome = Outcome::of(doctor.args(["doctor", "--toolchain=rust"]).env("PATH", path));
    let line = format!(
        "warn  program docker: '{}' is not trusted: an agent can write to its directory\n",
        venv.join("docker").display()
    );
    assert!(outcome.text().contains(&line), "{outcome:?}");
    assert!(!setup.scratch().join("trace").exists(), "{outcome:?}");
}

#[test]
fn workspaces_that_an_agent_must_not_have() {
    let setup = setup();
    let scratch = setup.scratch();
    let home = scratch.join("home");
    let config = home.join(".config/aifo");
    let below_session = setup.runtime().join("aifo-0123456789abcdef/back");
    for directory in [&config, &below_session] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).unwrap();
    }
    let link = scratch.join("link");
    symlink(&home, &link).unwrap();
    let rows = [
        (home.clone(), "is your home directory"),
        (link, "is your home directory"),
        (scratch.to_owned(), "contains your home directory"),
        (home.join(".config"), "contains aifo's configuration directory"),
        (config.clone(), "is aifo's configuration directory"),
        (config.join("sub"), "lies in aifo's configuration directory"),
        (home.join(".local/state"), "contains aifo's state directory"),
        (home.join(".cache/aifo/x"), "lies in aifo's cache directory"),
        (setup.runtime(), "is the directory of aifo's sessions"),
        (below_session, "lies in the directory of a session"),
    ];
    for (workspace, expected) in rows {
        fs::create_dir_all(&workspace).unwrap();
        for command in [&["exec", "--toolchain=rust"][..], &["run", "--toolchain=rust"]] {
            let mut coder = setup.coder();
            coder
                .args(command)
                .arg("--workspace")
                .arg(&workspace)
                .args(["--", "cargo", "exit", "0"]);
            let outcome = Outcome::of(&mut coder);
            outcome.exited(86);
            assert!(outcome.stderr.contains(expected), "{}: {outcome:?}", workspace.display());
            assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
        }
    }
}

/// No engine is called: its own error would not name the remedy.
#[test]
fn a_workspace_whose_path_is_not_text_is_refused() {
    let setup = setup();
    let workspace = setup.workspace().join(OsStr::from_bytes(b"w\xffx"));
    fs::create_dir(&workspace).unwrap();
    for command in [
        &["exec", "--toolchain=rust"][..],
        &["run", "--toolchain=rust"],
        &["run", "--toolchain=rust", "--backend=docker"],
        &["acp", "--agent-command=x"],
    ] {
        let mut coder = setup.coder();
        coder.args(command).current_dir(&workspace).arg("--workspace").arg(&workspace);
        if command[0] != "acp" {
            coder.args(["--", "cargo", "exit", "0"]);
        }
        let outcome = Outcome::of(&mut coder);
        let expected = "w\\xFFx' cannot be the workspace: its path is not UTF-8\n\
                        hint: rename the directory\n";
        assert!(outcome.exited(86).stderr.ends_with(expected), "{command:?}: {outcome:?}");
    }
}

#[test]
fn a_workspace_around_our_own_programs_is_refused() {
    let setup = setup();
    let programs = setup.workspace().join("bin");
    fs::create_dir(&programs).unwrap();
    for (from, name) in [(&binaries().coder, "aifo-coder"), (&binaries().shim, "aifo-shim")] {
        copy_executable(from, programs.join(name));
    }
    let exec = ["exec", "--toolchain=rust", "--", "cargo", "exit", "0"];
    // Only the shim, and both.
    let shim = programs.join("aifo-shim");
    let outcome = Outcome::of(setup.coder().args(exec).env("AIFO_SHIM_BIN", &shim));
    let expected = format!("contains aifo's own program '{}'", shim.display());
    assert!(outcome.exited(86).stderr.contains(&expected), "{outcome:?}");

    let mut coder = Command::new(programs.join("aifo-coder"));
    coder.env_clear().env("HOME", setup.scratch().join("home")).env("PATH", setup.tools());
    coder.current_dir(setup.workspace()).args(exec);
    let outcome = Outcome::of(&mut coder);
    assert!(outcome.exited(86).stderr.contains("contains aifo's own program"), "{outcome:?}");
}

#[test]
fn a_forged_record_removes_nothing() {
    let setup = setup();
    let precious = setup.scratch().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "kept").unwrap();
    let id = "5d0c3b7f9a21e846";
    let session = setup.runtime().join(format!("aifo-{id}"));
    fs::DirBuilder::new().mode(0o700).create(&session).unwrap();
    let record = serde_json::json!({
        "id": id, "pid": 1, "workspace": setup.workspace(), "url": "unix:///s", "kinds": [],
        "backend": "local", "started_unix_ms": 0, "log": "/x", "tmp": precious,
    });
    fs::write(session.join("session.json"), record.to_string()).unwrap();
    Outcome::of(setup.coder().args(["cleanup", id])).exited(0);
    assert!(!session.exists(), "its own directory goes");
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "kept");
}

#[test]
fn a_command_ends_with_its_killed_launcher() {
    let setup = setup();
    let marker = setup.scratch().join("started");
    let script = format!(
        "setsid sleep 1000 & (trap '' TERM HUP INT; sleep 1000) & : > '{}'; sleep 1000; :",
        marker.display()
    );
    let setup = setup.tool("setsid", Tool::Link("/usr/bin/setsid".into()));
    let mut run = setup.coder();
    let args = ["run", "--toolchain=rust", "--backend=local", "--", "sh", "-c", &script];
    let running = Running::start(run.args(args));
    eventually("the command runs", || marker.exists());
    let mut processes = Vec::new();
    eventually("all of it runs", || {
        processes = descendants(running.pid());
        let names = processes.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")));
        names.filter(|name| name.as_deref().is_ok_and(|name| name == "sleep\n")).count() == 3
    });
    running.signal(Signal::SIGKILL);
    let _ = running.finish();
    eventually("nothing of it is left", || processes.iter().all(|pid| !is_alive(*pid)));
}

/// The lines about where tools run.
fn instead(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stderr.lines().map(str::to_owned);
    lines.filter(|line| line.contains("tools run as processes of this machine")).collect()
}

#[test]
fn tools_on_this_machine_are_announced_unless_that_was_asked_for() {
    let setup = setup();
    for reason in ["neither docker nor podman is in PATH", "docker does not answer"] {
        if reason.starts_with("docker") {
            plant(&setup.tools(), "docker", Path::new("/dev/null"));
        }
        for command in ["exec", "run"] {
            let call = |options: &[&str]| {
                let mut coder = setup.coder();
                coder.env_remove("AIFO_BACKEND");
                coder.arg(command).args(options).args([
                    "--toolchain=rust",
                    "--",
                    "cargo",
                    "exit",
                    "7",
                ]);
                let outcome = Outcome::of(&mut coder);
                outcome.exited(7);
                instead(&outcome)
            };
            let lines = call(&[]);
            assert_eq!(lines.len(), 1, "{command}: {lines:?}");
            assert!(lines[0].contains(reason), "{command}: {lines:?}");
            assert_eq!(call(&["--backend=local"]), [""; 0], "{command}");
            assert_eq!(call(&["--quiet"]), [""; 0], "{command}");
        }
    }
}

#[test]
fn a_mailbox_serves_no_program_that_shadows_a_host_command() {
    let setup = setup();
    let trace = setup.scratch().join("trace");
    let venv = setup.workspace().join(".venv/bin");
    plant(&venv, "cargo", &trace);
    plant(&venv, "only-here", &trace);
    let path = format!("{}:{}:/usr/bin:/bin", venv.display(), setup.tools().display());
    let mut proxy = setup.coder();
    proxy.args(["proxy", "cargo", "only-here"]).env("PATH", &path);
    let daemon = Running::start(&mut proxy);
    daemon.expect("[proxy] Container script: .swe-swe/proxy/only-here\n");
    daemon.complains("command 'only-here' is '");
    let call = |name: &str| {
        let mut client = Command::new(setup.workspace().join(".swe-swe/proxy").join(name));
        client.args(["exit", "7"]).current_dir(setup.workspace());
        Outcome::of(client.env_clear().env("PATH", "/usr/bin:/bin"))
    };
    call("cargo").exited(7);
    assert!(!trace.exists());
    call("only-here").exited(1);
    assert!(trace.exists(), "the user named it");
    daemon.signal(Signal::SIGTERM);
    daemon.finish().exited(0);
}

#[test]
fn git_of_an_agent_uses_no_fsmonitor_and_no_bare_repository() {
    let names = ["env", "grep", "sort"];
    let setup = names.into_iter().fold(setup(), |setup, name| {
        setup.tool(name, Tool::Link(format!("/usr/bin/{name}").into()))
    });
    let mut run = setup.coder();
    run.args(["run", "--quiet", "--backend=local", "--toolchain=rust", "--", "sh", "-c"]);
    run.env("PATH", setup.tools())
        .arg("env | grep ^GIT_CONFIG | sort")
        .current_dir(setup.workspace());
    let users = [("COUNT", "1"), ("KEY_0", "user.name"), ("VALUE_0", "me")];
    run.envs(users.map(|(name, value)| (format!("GIT_CONFIG_{name}"), value)));
    let expected = "GIT_CONFIG_COUNT=3\nGIT_CONFIG_KEY_0=user.name\nGIT_CONFIG_KEY_1=core.fsmonitor\n\
                    GIT_CONFIG_KEY_2=safe.bareRepository\nGIT_CONFIG_VALUE_0=me\n\
                    GIT_CONFIG_VALUE_1=false\nGIT_CONFIG_VALUE_2=explicit\n";
    assert_eq!(Outcome::of(&mut run).exited(0).text(), expected);
}
