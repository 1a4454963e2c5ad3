//! `/notify`: allowlisted commands on the user's machine.
//!
//! Proves `spec/notify.md#request`, `spec/notify.md#rules`, `spec/notify.md#running-it`,
//! `spec/notify.md#the-shim`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aifo_tests::{
    Answer, Landlock, Outcome, Request, Running, Session, SessionSetup, Signal, binaries,
    copy_executable, eventually, is_alive, write_script,
};

const SAFE_DIRS: &str = "AIFO_NOTIFICATIONS_SAFE_DIRS";

/// A setup whose only safe directory holds `say`, a copy of the fake tool: a link would point to an
/// unsafe directory.
fn setup() -> SessionSetup {
    let setup = SessionSetup::new();
    let safe = safe(&setup);
    fs::create_dir(&safe).unwrap();
    copy_executable(&binaries().tool, safe.join("say"));
    setup.env_path(SAFE_DIRS, &safe)
}

fn safe(setup: &SessionSetup) -> PathBuf {
    setup.scratch().join("safe")
}

/// Replaces `say` by a shell script.
fn script(setup: SessionSetup, body: &str) -> SessionSetup {
    let say = safe(&setup).join("say");
    write_script(say, body);
    setup
}

/// Sets the command in the user's configuration.
fn configure(setup: SessionSetup, command: &[&str]) -> SessionSetup {
    let dir = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    let words: Vec<_> = command.iter().map(|word| format!("'{word}'")).collect();
    let text = format!("[notify]\ncommand = [{}]\n", words.join(", "));
    fs::write(dir.join("config.toml"), text).unwrap();
    setup
}

fn request(session: &Session, command: &str, args: &[&str]) -> Request {
    let request = session.post("/notify").field("cmd", command);
    args.iter().fold(request, |request, arg| request.field("arg", arg))
}

fn notify(session: &Session, command: &str, args: &[&str]) -> Answer {
    session.answer(&request(session, command, args))
}

#[track_caller]
fn check_refused(answer: &Answer, status: u16, text: &str) {
    assert_eq!(answer.status(), status, "{}", answer.text());
    assert_eq!(answer.exit_code(), Some("86"));
    assert_eq!(answer.text(), format!("{text}\n"));
}

#[test]
fn it_answers_when_the_command_has_ended() {
    let session = setup().start();
    let answer = notify(&session, "say", &["args", "a b", "", "ü"]);
    assert_eq!(answer.status_line, "HTTP/1.1 200 OK");
    assert_eq!(answer.header("Transfer-Encoding"), None, "one plain answer");
    assert_eq!(answer.exit_code(), Some("0"));
    assert_eq!(answer.text(), "a b\0\0ü\0", "arguments arrive as they are");
    assert_eq!(notify(&session, "say", &["argv0"]).text(), "say\n", "under the name asked for");
    assert_eq!(notify(&session, "say", &["exit", "7"]).exit_code(), Some("7"));
    let mixed = notify(&session, "say", &["both", "2"]).text();
    assert_eq!(mixed, "out 0\nerr 0\nout 1\nerr 1\n");
}

#[test]
fn a_verbose_session_does_not_pad_the_answer() {
    let session = setup().verbose().start();
    assert_eq!(notify(&session, "say", &["say", "hi"]).text(), "hi\n");
}

#[test]
fn only_version_2_is_spoken() {
    let session = setup().start();
    let request = request(&session, "say", &["say", "hi"]);
    let expected = "unsupported notify protocol; expected 2";
    for version in ["1", "", "9", "two"] {
        check_refused(&session.answer(&request.clone().proto(version)), 426, expected);
    }
    check_refused(&session.answer(&request.clone().without("X-Aifo-Proto")), 426, expected);
    let stranger = request.with("Authorization", "Bearer nobody").proto("1");
    check_refused(&session.answer(&stranger), 401, "unauthorized");
}

#[test]
fn without_a_setting_say_is_all_there_is() {
    let session = setup().start();
    let refused = "command 'echo' not allowed for notifications";
    check_refused(&notify(&session, "echo", &["hi"]), 403, refused);
    assert_eq!(notify(&session, "say", &["say", "hi"]).text(), "hi\n");
}

#[test]
fn an_invalid_name_is_a_bad_request() {
    let session = setup().start();
    let path = safe_say(&session);
    for command in [path.to_str().unwrap(), "../say", "..", ".", "", "a\0b"] {
        check_refused(&notify(&session, command, &[]), 400, "bad request: cmd is not a plain name");
    }
    check_refused(&session.answer(&session.post("/notify")), 400, "bad request: cmd is missing");
    let nul = "bad request: an argument holds a NUL byte";
    check_refused(&notify(&session, "say", &["a\0b"]), 400, nul);
}

fn safe_say(session: &Session) -> PathBuf {
    session.scratch().join("safe/say")
}

#[test]
fn a_list_in_the_environment_replaces_the_default() {
    let setup = setup().env("AIFO_NOTIFICATIONS_ALLOWLIST", "beep,ring");
    fs::rename(safe(&setup).join("say"), safe(&setup).join("ring")).unwrap();
    let session = setup.start();
    assert_eq!(notify(&session, "ring", &["say", "hi"]).text(), "hi\n");
    let nowhere = "command 'beep' is in no safe directory";
    check_refused(&notify(&session, "beep", &[]), 403, nowhere);
    let refused = "command 'say' not allowed for notifications";
    check_refused(&notify(&session, "say", &[]), 403, refused);
}

#[test]
fn an_executable_must_really_lie_in_a_safe_directory() {
    let setup = setup();
    let elsewhere = setup.workspace().join("planted");
    copy_executable(&binaries().tool, &elsewhere);
    let say = safe(&setup).join("say");
    fs::remove_file(&say).unwrap();
    symlink(&elsewhere, &say).unwrap();
    let session = setup.start();
    let elsewhere = elsewhere.display();
    let refused = format!("notifications executable '{elsewhere}' is not in a safe directory");
    check_refused(&notify(&session, "say", &["say", "hi"]), 403, &refused);
}

#[test]
fn a_configured_command_takes_the_callers_arguments_where_it_says_so() {
    let setup = setup();
    let say = safe(&setup).join("say").into_os_string().into_string().unwrap();
    let session = configure(setup, &[&say, "args", "-v", "{args}"]).start();
    assert_eq!(notify(&session, "say", &["a b", "{args}"]).text(), "-v\0a b\0{args}\0");
    assert_eq!(notify(&session, "say", &[]).text(), "-v\0");
    let only = "only executable basename 'say' is accepted (got 'echo')";
    check_refused(&notify(&session, "echo", &[]), 403, only);
}

#[test]
fn a_configured_command_without_a_place_for_arguments_takes_its_own_only() {
    let setup = setup();
    let say = safe(&setup).join("say").into_os_string().into_string().unwrap();
    let session = configure(setup, &[&say, "say", "done"]).start();
    assert_eq!(notify(&session, "say", &["say", "done"]).text(), "done\n");
    let mismatch = "arguments mismatch: configured 'say done', got 'say x'";
    check_refused(&notify(&session, "say", &["say", "x"]), 403, mismatch);
}

#[test]
fn a_configured_command_is_judged_as_any_other() {
    let setup = setup();
    let planted = setup.workspace().join("say");
    copy_executable(&binaries().tool, &planted);
    let planted = planted.into_os_string().into_string().unwrap();
    let session = configure(setup, &[&planted, "{args}"]).start();
    let refused = format!("notifications executable '{planted}' is not in a safe directory");
    check_refused(&notify(&session, "say", &["say", "hi"]), 403, &refused);

    let setup = self::setup();
    let gone = setup.scratch().join("safe/gone/say");
    let session = configure(setup, &[gone.to_str().unwrap(), "{args}"]).start();
    let refused = format!("notifications executable '{}' does not exist", gone.display());
    check_refused(&notify(&session, "say", &["hi"]), 403, &refused);
}

/// `say -f FILE` would read a user's file aloud, `say -o FILE` would write one.
#[test]
fn a_callers_options_are_refused_unless_the_user_allows_them() {
    let session = setup().start();
    for (args, option) in [(&["-f", "/etc/passwd"][..], "-f"), (&["hi", "--", "-o"], "--")] {
        let refused = format!("option '{option}' not allowed for notifications");
        check_refused(&notify(&session, "say", args), 403, &refused);
    }
    let outcome = Outcome::of(session.shim("say").args(["-f", "/etc/passwd"]));
    let line = "aifo-shim: option '-f' not allowed for notifications";
    assert_eq!(outcome.exited(86).only_line(), line);

    let setup = setup();
    let say = safe(&setup).join("say").into_os_string().into_string().unwrap();
    let session = configure(setup, &[&say, "args", "{args}"]).start();
    let refused = "option '-o' not allowed for notifications";
    check_refused(&notify(&session, "say", &["-o", "x"]), 403, refused);

    let setup = self::setup();
    let dir = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), "[notify]\noptions = true\n").unwrap();
    let session = setup.start();
    assert_eq!(notify(&session, "say", &["args", "-o", "--", "x"]).text(), "-o\0--\0x\0");
}

#[test]
fn it_has_a_time_limit_of_its_own() {
    let body = "echo begun; /bin/sleep 1000 & echo $! > \"$1\"; wait";
    let setup = script(setup(), body).env("AIFO_NOTIFICATIONS_TIMEOUT_SECS", "1");
    let session = setup.start();
    let file = session.file("grandchild");
    let answer = notify(&session, "say", &[&file]);
    assert_eq!(answer.status_line, "HTTP/1.1 504 Gateway Timeout");
    assert_eq!(answer.exit_code(), Some("124"));
    assert_eq!(answer.text(), "begun\ntimeout\n");
    let grandchild: i32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    eventually("its whole family is gone", || !is_alive(grandchild));
}

#[test]
fn without_one_it_has_the_sessions() {
    let session = setup().max_secs(1).start();
    let answer = notify(&session, "say", &["wait"]);
    assert_eq!((answer.status(), answer.exit_code()), (504, Some("124")));
    assert_eq!(answer.text(), "ready\ntimeout\n");
}

#[test]
fn a_child_in_the_background_does_not_hold_the_answer() {
    let session = script(setup(), "/bin/sleep 1000 & echo said").start();
    assert_eq!(notify(&session, "say", &[]).text(), "said\n");
}

/// The sorted names of a command's variables.
fn variables(session: &Session) -> Vec<String> {
    let text = notify(session, "say", &["env"]).text();
    let names = text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn its_environment_is_the_launchers_or_trimmed() {
    let setup = || setup().env("DISPLAY", ":7").env("LC_ALL", "C").env("SECRET", "x");
    let all = variables(&setup().start());
    for name in ["DISPLAY", "HOME", "LANG", "LC_ALL", "PATH", "SECRET"] {
        assert!(all.iter().any(|known| known == name), "{name} is not in {all:?}");
    }
    let trimmed = setup().env("AIFO_NOTIFICATIONS_TRIM_ENV", "1");
    let expected = ["AIFO_EXEC", "HOME", "LANG", "LC_ALL", "PATH", "PWD"];
    assert_eq!(variables(&trimmed.start()), expected);
    let allowed = setup()
        .env("AIFO_NOTIFICATIONS_TRIM_ENV", "yes")
        .env("AIFO_NOTIFICATIONS_ENV_ALLOW", "DISPLAY, NOT_THERE");
    let expected = ["AIFO_EXEC", "DISPLAY", "HOME", "LANG", "LC_ALL", "PATH", "PWD"];
    assert_eq!(variables(&allowed.start()), expected);
}

/// Programs load code from their directory and find others in PATH.
#[test]
fn a_notification_runs_away_from_the_workspace() {
    let setup = script(setup(), "pwd; echo \"$PATH\"");
    let within = setup.workspace().join(".venv/bin");
    fs::create_dir_all(&within).unwrap();
    let tools = setup.tools().display().to_string();
    let path = format!("{}:{tools}:/usr/bin", within.display());
    let session = setup.env("PATH", &path).start();
    let expected = format!("/\n{tools}:/usr/bin\n");
    assert_eq!(notify(&session, "say", &[]).text(), expected);
}

#[test]
fn a_notification_never_sees_the_token() {
    let session = setup().start();
    assert!(!notify(&session, "say", &["env"]).text().contains(session.token()));
}

#[test]
fn the_shim_waits_and_ends_as_the_command() {
    let session = setup().start();
    let outcome = Outcome::of(session.shim("say").args(["both", "1"]));
    assert_eq!(outcome.exited(0).text(), "out 0\nerr 0\n");
    Outcome::of(session.shim("say").args(["exit", "7"])).exited(7);
    Outcome::of(session.shim("say").args(["die", "15"])).exited(143);
}

#[test]
fn the_shim_prints_why_a_notification_was_refused() {
    let session = SessionSetup::new().env_path(SAFE_DIRS, Path::new("/nonexistent")).start();
    let outcome = Outcome::of(session.shim("say").arg("hi"));
    assert_eq!(outcome.exited(86).text(), "");
    assert_eq!(outcome.only_line(), "aifo-shim: command 'say' is in no safe directory");
}

#[test]
fn the_shim_notifies_without_being_smart() {
    let session = setup().start();
    let mut command = session.shim("say");
    let outcome = Outcome::of(command.args(["say", "hi"]).env("AIFO_TOOLCHAIN_VERBOSE", "1"));
    assert_eq!(outcome.exited(0).text(), "hi\n");
    let line = outcome.stderr.lines().next();
    assert_eq!(line, Some("aifo-shim: smart: tool=say mode=notify reason=notify-tool"));
}

/// The agent's shims include the user's own names.
#[test]
fn a_name_of_the_users_own_has_a_shim_that_notifies() {
    let setup = setup().env("AIFO_NOTIFICATIONS_ALLOWLIST", "ring");
    fs::rename(safe(&setup).join("say"), safe(&setup).join("ring")).unwrap();
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "c-cpp", "--", "/bin/sh", "-c", "ring say hi"]);
    assert_eq!(Outcome::of(&mut run).exited(0).text(), "hi\n");
}

#[test]
fn a_shim_with_async_notifications_does_not_wait() {
    // Longer than the signal escalation after a client's disconnect.
    let session = script(setup(), "/bin/sleep 4; echo $$ > \"$1\"").start();
    let file = session.file("said");
    let mut command = session.shim("say");
    let outcome = Outcome::of(command.arg(&file).env("AIFO_SHIM_NOTIFY_ASYNC", "1"));
    outcome.exited(0);
    assert!(!Path::new(&file).exists());
    eventually("the command goes on to its end", || Path::new(&file).exists());
}

#[test]
fn a_killed_shim_ends_the_command() {
    let session = setup().start();
    let file = session.file("pid");
    let shim = Running::start(session.shim("say").args(["quiet", &file]));
    eventually("the command runs", || Path::new(&file).exists());
    let pid: i32 = fs::read_to_string(file).unwrap().parse().unwrap();
    shim.signal(Signal::SIGKILL);
    shim.finish();
    eventually("the command has ended", || !is_alive(pid));
}

/// It must reach the user's desktop; a tool must not.
#[test]
fn it_is_not_confined_while_a_tool_is() {
    let setup = script(setup(), "echo x > \"$1\"").script("make", "echo x > \"$1\"");
    let session = setup.start();
    let outside = session.scratch().join("outside").into_os_string().into_string().unwrap();
    if Landlock::Writes.available("notify::it_is_not_confined_while_a_tool_is, the tool's half") {
        let answer = session.answer(&session.exec("make", [&outside]));
        assert_ne!(answer.exit_code(), Some("0"), "{}", answer.text());
        assert!(!Path::new(&outside).exists());
    }
    assert_eq!(notify(&session, "say", &[&outside]).exit_code(), Some("0"));
    assert!(Path::new(&outside).exists());
}

#[test]
fn a_workspace_can_switch_notifications_off() {
    let setup = setup();
    fs::write(setup.workspace().join(".aifo.toml"), "[notify]\nenabled = false\n").unwrap();
    let session = setup.start();
    let refused = "command 'say' not allowed for notifications";
    check_refused(&notify(&session, "say", &["say", "hi"]), 403, refused);
}
