//! Another user of the machine.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{Outcome, Script, Step, can_run, files_below, web_request};

use super::access::{Signed, signed};
use super::{WebTest, turn};

#[test]
fn another_user_of_the_machine_cannot_read_the_files() {
    let signed = signed(&turn([Step::say("a secret answer"), Step::stop("end_turn")]));
    signed.browser.prompt(&signed.session, "hello");
    signed.browser.page_when(&signed.session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    let directory = storage(&signed);
    for path in files_below(&directory) {
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        for secret in [&signed.browser.key, signed.browser.cookie.split_once('=').unwrap().1] {
            assert!(!text.contains(secret), "{} has a secret", path.display());
        }
    }
    for path in [directory.clone(), directory.join("sessions"), directory.join("media")] {
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
    // The port is open to every user of the machine; without the secrets it is of no use.
    let stranger = web_request(
        signed.server.port,
        "GET",
        "/api/sessions",
        &[("Host", &signed.server.host)],
        b"",
    );
    assert_eq!(stranger.status, 401);
}

#[test]
fn a_directory_that_others_can_enter_is_refused() {
    let test = WebTest::with(&Script::conforming());
    let server = test.start();
    let signed = Signed { browser: server.sign_in(), session: String::new(), server, test };
    let directory = storage(&signed);
    drop(signed.server);
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let outcome = Outcome::of(&mut signed.test.command());
    outcome.exited(86);
    assert!(outcome.stderr.contains("not a private directory"), "{outcome:?}");
}

/// The server directory.
fn storage(signed: &Signed) -> PathBuf {
    let all = files_below(&signed.test.setup.scratch().join("home"));
    let access = all.into_iter().find(|path| path.ends_with("access.json"));
    access.expect("the server has files").parent().unwrap().to_owned()
}

/// A command with uid 65534, without groups. `None` if this process is not root; `test` is then
/// reported as skipped.
fn as_another_user(test: &str) -> Option<Command> {
    let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if !can_run(test, &[&["setpriv"][..], &words, &["true"]].concat()) {
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    Some(command)
}

#[test]
fn a_process_of_another_user_gets_neither_files_nor_access() {
    let test = "web::another_user::a_process_of_another_user_gets_neither_files_nor_access";
    let Some(mut reader) = as_another_user(test) else { return };
    let signed = signed(&turn([Step::say("a secret answer"), Step::stop("end_turn")]));
    signed.browser.prompt(&signed.session, "hello");
    signed.browser.page_when(&signed.session, "the turn ends", |page| {
        page.is_idle() && page.region("log").contains("turn-end")
    });
    // Every directory above those of the server may be entered by all.
    let directory = storage(&signed);
    let mut above = directory.parent().unwrap();
    while above.starts_with(signed.test.setup.scratch()) {
        fs::set_permissions(above, PermissionsExt::from_mode(0o755)).unwrap();
        above = above.parent().unwrap();
    }
    let files = files_below(&directory);
    let kinds = ["access.json", "lock", "jsonl", "reports"];
    for kind in kinds {
        assert!(files.iter().any(|path| path.to_string_lossy().ends_with(kind)), "{kind}");
    }
    assert_eq!(fs::read_dir(directory.parent().unwrap()).unwrap().count(), 1);
    let list = Outcome::of(reader.args(["ls", "-A"]).arg(directory.parent().unwrap()));
    assert_eq!(list.exited(0).text().trim(), directory.file_name().unwrap().to_str().unwrap());
    for path in files.iter().chain([&directory]) {
        for tool in ["cat", "ls", "touch"] {
            let mut command = as_another_user(test).unwrap();
            let outcome = Outcome::of(command.arg(tool).arg(path));
            assert_ne!(outcome.code(), Some(0), "{tool} {}", path.display());
            assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
        }
    }
    // The server's memory and environment.
    for file in ["environ", "maps", "fd/0", "cwd/x"] {
        let path = format!("/proc/{}/{file}", signed.server.pid());
        let outcome = Outcome::of(as_another_user(test).unwrap().args(["cat", &path]));
        assert_ne!(outcome.code(), Some(0), "{path}");
        assert!(outcome.stdout.is_empty(), "{path}");
    }
    // The port is open to it, and of no use.
    let python = include_str!("another_user.py");
    let mut client = as_another_user(test).unwrap();
    client.args(["python3", "-c", python, &signed.server.port.to_string(), &signed.server.host]);
    let outcome = Outcome::of(&mut client);
    assert_eq!(outcome.exited(0).text().trim(), "200 401 401 401 403 401");
}
