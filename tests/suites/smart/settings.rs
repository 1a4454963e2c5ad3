//! `shim.env`, for children that an agent starts without an environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aifo_tests::{Outcome, Session, SessionSetup, Tool, binaries, can_run};

use crate::smart::NOT_CONFIGURED;
use crate::smart::place::{Place, session};

/// The variables of a session and its smart shims, as a file.
fn settings(place: &Place, session: &Session) -> String {
    let lines = [
        format!("AIFO_TOOLEEXEC_URL={}", session.url()),
        format!("AIFO_TOOLEEXEC_TOKEN={}", session.token()),
        format!("AIFO_WORKSPACE={}", session.workspace().display()),
        "AIFO_SHIM_SMART=1".to_owned(),
        "AIFO_SHIM_SMART_PYTHON=yes".to_owned(),
        format!("AIFO_SHIM_LOCAL_PYTHON={}", place.path("runtime/python3").display()),
        "PATH=/evil".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// Writes the settings beside the place's links.
fn write_settings(place: &Place, text: &str, mode: u32) -> PathBuf {
    let file = place.path("shims/shim.env");
    let _ = fs::remove_file(&file);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// A shim without an environment, in the session workspace.
fn bare(place: &Place, session: &Session, tool: &str) -> Command {
    let link = place.path("shims").join(tool);
    let _ = symlink(&binaries().shim, &link);
    let mut shim = Command::new(link);
    shim.env_clear().current_dir(session.workspace()).stdin(Stdio::null());
    shim
}

#[test]
fn settings_beside_the_link_stand_in_for_the_environment() {
    let (place, session) = (Place::new(), session());
    write_settings(&place, &settings(&place, &session), 0o400);
    let outcome = Outcome::of(bare(&place, &session, "npm").args(["say", "hi"]));
    assert_eq!(outcome.exited(0).text(), "hi\n");
    let program = place.program("echo local\n");
    let outcome = Outcome::of(bare(&place, &session, "python3").arg(program));
    assert_eq!(outcome.exited(0).text(), "local\n");
    // Called by name, the link is found in PATH.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "npm say hi"]).env_clear().env("PATH", place.path("shims"));
    let outcome = Outcome::of(shell.current_dir(session.workspace()));
    assert_eq!(outcome.exited(0).text(), "hi\n");
}

#[test]
fn the_environment_wins_over_the_file() {
    let (place, session) = (Place::new(), session());
    write_settings(&place, &settings(&place, &session), 0o600);
    let program = place.program("echo local\n");
    let mut command = bare(&place, &session, "python3");
    Outcome::of(command.arg(program).env("AIFO_SHIM_SMART", "0")).exited(99);
    let mut command = bare(&place, &session, "npm");
    command.args(["say", "hi"]).env("AIFO_TOOLEEXEC_URL", "unix:///nonexistent/sock");
    let outcome = Outcome::of(&mut command);
    assert!(outcome.exited(86).stderr.contains("/nonexistent/sock"), "{}", outcome.stderr);
    // The environment overrides the file.
    let other = settings(&place, &session).replace(session.token(), "another");
    write_settings(&place, &other, 0o600);
    let mut command = session.shim("npm");
    assert_eq!(Outcome::of(command.args(["say", "hi"])).exited(0).text(), "hi\n");
}

#[test]
fn a_file_that_others_may_have_written_is_not_trusted() {
    let (place, session) = (Place::new(), session());
    let text = settings(&place, &session);
    let not_configured = || {
        let outcome = Outcome::of(bare(&place, &session, "npm").args(["say", "hi"]));
        assert_eq!(outcome.exited(86).stderr, NOT_CONFIGURED);
    };
    for mode in [0o620, 0o602, 0o666] {
        write_settings(&place, &text, mode);
        not_configured();
    }
    let file = write_settings(&place, &text, 0o600);
    let moved = place.path("agent/shim.env");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    not_configured();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    not_configured();
    fs::remove_dir(&file).unwrap();
    let file = write_settings(&place, &text, 0o644);
    Outcome::of(bare(&place, &session, "npm").args(["say", "hi"])).exited(0);
    let test = "smart::a_file_that_others_may_have_written_is_not_trusted, another's file";
    if can_run(test, &["/bin/sh", "-c", "[ \"$(id -u)\" = 0 ]"]) {
        chown(file, Some(65534), None).unwrap();
        not_configured();
    }
}

#[test]
fn the_machines_own_file_comes_last() {
    let namespace = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c"];
    let mount = "mount -t tmpfs none /run && mkdir /run/aifo";
    let test = "smart::the_machines_own_file_comes_last";
    if !can_run(test, &[&namespace[..], &[mount]].concat()) {
        return;
    }
    let (place, session) = (Place::new(), session());
    let file = place.path("agent/run.env");
    fs::write(&file, settings(&place, &session)).unwrap();
    let script =
        format!("{mount} && cp {} /run/aifo/shim.env && exec \"$0\" say hi", file.display());
    let run = || {
        let shim = bare(&place, &session, "npm");
        let mut command = Command::new(namespace[0]);
        command.args(&namespace[1..]).arg(&script).arg(shim.get_program());
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(session.workspace());
        Outcome::of(&mut command)
    };
    assert_eq!(run().exited(0).text(), "hi\n");
    write_settings(&place, "AIFO_TOOLEEXEC_URL=unix:///x\nAIFO_TOOLEEXEC_TOKEN=t\n", 0o600);
    assert!(
        run().exited(86).stderr.contains("unix:///x"),
        "the one beside the link has precedence"
    );
}

/// The launcher writes the file for children that an agent starts without an environment.
#[test]
fn an_agents_children_need_no_environment() {
    let setup =
        SessionSetup::new().tool("make", Tool::Fake).tool("sh", Tool::Link("/bin/sh".into()));
    let mut run = setup.coder();
    let script = "make=$(command -v make); /usr/bin/env -i \"$make\" say hi; \
                  /bin/ls -l \"${make%/*}/shim.env\"";
    run.args(["run", "--toolchain", "c-cpp", "--", "sh", "-c", script]);
    let text = Outcome::of(&mut run).exited(0).text();
    assert!(text.starts_with("hi\n-r-------- "), "{text}");
}
