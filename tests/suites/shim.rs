//! The shim process: messages, descriptors, threads, names.
//!
//! Proves `spec/shim.md#names`.

use std::fs::File;
use std::process::Command;

use aifo_tests::{
    Listen, Outcome, Running, Scratch, Session, SessionSetup, Signal, argv, binaries, children,
    fresh_id, status_field,
};

const NOT_CONFIGURED: &str =
    "aifo-shim: proxy not configured. Please launch agent with --toolchain.\n";

/// A shim with the name `make` without a session.
fn unconfigured(scratch: &Scratch) -> Command {
    let link = scratch.path().join("make");
    std::os::unix::fs::symlink(&binaries().shim, &link).expect("the scratch directory is writable");
    let mut command = Command::new(link);
    command.env_clear().current_dir(scratch.path());
    command
}

#[test]
fn without_a_session_it_says_so_and_exits_86() {
    let session = Session::start();
    for missing in ["AIFO_TOOLEEXEC_URL", "AIFO_TOOLEEXEC_TOKEN"] {
        let outcome = Outcome::of(session.shim("make").arg("say").env_remove(missing));
        assert_eq!(outcome.exited(86).stderr, NOT_CONFIGURED);
        assert_eq!(outcome.text(), "");
    }
    let scratch = Scratch::new();
    let outcome = Outcome::of(&mut unconfigured(&scratch));
    assert_eq!(outcome.exited(86).stderr, NOT_CONFIGURED);
}

#[test]
fn without_a_listener_nothing_runs() {
    let scratch = Scratch::new();
    // A recently free port; no other suite binds to a fixed one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let urls = [
        format!("unix://{}/no.sock", scratch.path().display()),
        format!("http://127.0.0.1:{port}/exec"),
        "https://127.0.0.1:1/exec".to_owned(),
        "nonsense".to_owned(),
    ];
    let mut command = unconfigured(&scratch);
    command.env("AIFO_TOOLEEXEC_TOKEN", "t");
    for url in urls {
        let outcome = Outcome::of(command.env("AIFO_TOOLEEXEC_URL", &url));
        assert_eq!(outcome.exited(86).text(), "", "{url}");
        assert!(outcome.only_line().starts_with("aifo-shim: "), "{}", outcome.stderr);
    }
}

#[test]
fn it_speaks_tcp_as_well() {
    let session = SessionSetup::new().listen(Listen::Tcp).start();
    let outcome = Outcome::of(session.shim("make").args(["both", "3"]));
    assert_eq!(outcome.exited(0).text(), "out 0\nout 1\nout 2\n");
    assert_eq!(outcome.stderr, "err 0\nerr 1\nerr 2\n");
    let mut by_version_2 = session.shim("make");
    let outcome = Outcome::of(by_version_2.args(["both", "3"]).env("AIFO_SHIM_PROTO", "2"));
    assert_eq!(outcome.exited(0).text(), "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn on_the_happy_path_it_is_one_thread_without_children() {
    let session = Session::start();
    for version in ["2", "3"] {
        let mut command = session.shim("make");
        let shim = Running::start(command.arg("wait").env("AIFO_SHIM_PROTO", version));
        shim.expect("ready\n");
        assert_eq!(status_field(shim.pid(), "Threads"), "1", "version {version}");
        assert!(children(shim.pid()).is_empty(), "version {version}");
        assert_eq!(argv(shim.pid()).len(), 2, "it is still the process that was started");
    }
}

#[test]
fn closed_standard_fds_do_no_harm() {
    let session = Session::start();
    for (redirection, expected) in
        [("<&-", "hi\n"), (">&-", ""), ("2>&-", "hi\n"), ("<&- >&- 2>&-", "")]
    {
        let shim = session.shim("make");
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("exec \"$0\" say hi {redirection}")).arg(shim.get_program());
        shell.env_clear().current_dir(session.workspace());
        let env = shim.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let outcome = Outcome::of(shell.envs(env));
        assert_eq!(outcome.exited(0).text(), expected, "{redirection}");
        assert_eq!(outcome.stderr, "", "{redirection}");
    }
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let session = Session::start();
    let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let mut shim = session.shim("make");
    let mut child = shim.args(["say", "hi"]).stdout(full).spawn().expect("the shim starts");
    let mut status = None;
    aifo_tests::eventually("the shim has ended", || {
        status = child.try_wait().expect("try_wait works on a child");
        status.is_some()
    });
    assert!(!status.expect("the loop ends with a status").success());
}

#[test]
fn it_uses_the_exec_id_it_is_given() {
    let session = Session::start();
    let killed = |version: &str| {
        let id = fresh_id();
        let mut command = session.shim("make");
        command.arg("wait").env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", version);
        let shim = Running::start(&mut command);
        shim.expect("ready\n");
        assert_eq!(session.signal(&id, "KILL").status(), 204);
        shim.finish()
    };
    killed("2").exited(137);
    killed("3").died_of(Signal::SIGKILL);
}

/// A caller may see the end before the proxy has released the exec id.
#[test]
fn an_id_and_a_place_are_free_for_the_next_call() {
    let session = SessionSetup::new().env("AIFO_TOOLEEXEC_MAX_CONNECTIONS", "1").start();
    let id = fresh_id();
    for _ in 0..100 {
        let mut command = session.shim("make");
        command.args(["exit", "0"]).env("AIFO_EXEC_ID", &id);
        Outcome::of(&mut command).exited(0);
    }
}

#[test]
fn under_its_own_name_it_prints_its_version() {
    let outcome = Outcome::of(Command::new(&binaries().shim).arg("--version").env_clear());
    let text = outcome.exited(0).text();
    assert!(text.starts_with("aifo-shim "), "{text}");
    for protocol in ["1", "2", "3"] {
        let named = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == protocol || word.strip_prefix('v') == Some(protocol));
        assert!(named, "protocol {protocol} is not named: {text}");
    }
}

#[test]
fn under_a_tools_name_every_argument_is_the_tools() {
    let session = Session::start();
    let here = session.workspace();
    for flag in ["--version", "--help", "-v"] {
        let outcome = Outcome::of(session.shim("make").arg(flag));
        assert_eq!(outcome.exited(0).text(), format!("{flag} in {}\n", here.display()));
    }
}

#[test]
fn the_token_may_lie_in_a_file() {
    let session = Session::start();
    let file = session.scratch().join("token");
    std::fs::write(&file, format!("{}\n", session.token())).unwrap();
    let mut command = session.shim("make");
    command.args(["say", "hi"]).env_remove("AIFO_TOOLEEXEC_TOKEN");
    let outcome = Outcome::of(command.env("AIFO_TOOLEEXEC_TOKEN_FILE", &file));
    assert_eq!(outcome.exited(0).text(), "hi\n");
    let outcome = Outcome::of(command.env("AIFO_TOOLEEXEC_TOKEN_FILE", "/no/such/file"));
    assert!(outcome.exited(86).only_line().contains("/no/such/file"), "{}", outcome.stderr);
}

#[test]
fn a_version_may_be_asked_from_anywhere() {
    let session = Session::start();
    let outcome = Outcome::of(session.shim("make").arg("--version").current_dir("/usr"));
    let root = session.root();
    assert_eq!(outcome.exited(0).text(), format!("--version in {}\n", root.display()));
}

#[test]
fn in_a_directory_that_is_gone_nothing_runs() {
    let session = Session::start();
    std::fs::create_dir(session.file("gone")).unwrap();
    let shim = session.shim("make");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "/bin/rmdir ../gone; exec \"$0\" say hi"]).arg(shim.get_program());
    shell.env_clear().current_dir(session.file("gone"));
    shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let outcome = Outcome::of(&mut shell);
    assert_eq!(outcome.exited(86).text(), "");
    assert!(outcome.only_line().contains("current directory"), "{}", outcome.stderr);
}

#[test]
fn invalid_settings_are_reported_and_nothing_runs() {
    let session = Session::start();
    let rows = [
        ("AIFO_TOOLEEXEC_URL", "ftp://x", "AIFO_TOOLEEXEC_URL: "),
        ("AIFO_TOOLEEXEC_TOKEN", "two words", "AIFO_TOOLEEXEC_TOKEN does not hold a token"),
        ("AIFO_EXEC_ID", "a/b", "AIFO_EXEC_ID: "),
    ];
    for (name, value, printed) in rows {
        let outcome = Outcome::of(session.shim("make").arg("say").env(name, value));
        assert_eq!(outcome.exited(86).text(), "", "{name}");
        let line = outcome.only_line();
        assert!(line.starts_with("aifo-shim: ") && line.contains(printed), "{line}");
    }
}

#[test]
fn under_its_own_names_it_runs_nothing_else() {
    let scratch = Scratch::new();
    let runner = scratch.path().join("aifo-runner");
    std::os::unix::fs::symlink(&binaries().shim, &runner).unwrap();
    for (program, args) in
        [(&binaries().shim, &["make", "say"][..]), (&runner, &[]), (&runner, &["make"])]
    {
        let outcome = Outcome::of(Command::new(program).args(args).env_clear());
        assert_eq!(outcome.exited(2).text(), "");
        assert!(outcome.only_line().starts_with("aifo-shim: "), "{}", outcome.stderr);
    }
}
