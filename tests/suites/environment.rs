//! A tool's initial state: descriptors, signals, limits, groups, names.
//!
//! Proves `spec/toolexec.md#sidecar-environment`.

use std::io::Write;
use std::process::Stdio;

use aifo_tests::{Backend, Outcome, Session, SessionSetup, Tool, fresh_id, open_files};

fn output(session: &Session, tool: &str, args: &[&str]) -> String {
    let answer = session.answer(&session.exec(tool, args));
    assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
    answer.text()
}

#[test]
fn stdin_is_empty() {
    let session = Session::start();
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("make", ["stdin"]).proto(version));
        assert_eq!(answer.text(), "0\n");
    }
    let mut command = session.shim("make");
    command.env("AIFO_SHIM_PROTO", "2");
    command.arg("stdin").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shim = command.spawn().expect("the shim starts");
    // The shim may have ended already.
    let _ = shim.stdin.take().expect("stdin is a pipe").write_all(b"for nobody");
    let output = shim.wait_with_output().expect("the shim ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
}

#[test]
fn only_the_standard_fds_are_open() {
    let session = Session::start();
    let fds = output(&session, "make", &["fds"]);
    let mut fds: Vec<&str> = fds.lines().collect();
    fds.sort_unstable();
    let [input, out, err] = &fds[..] else { panic!("{fds:?}") };
    assert_eq!(*input, "0 /dev/null");
    let (out, err) = (out.strip_prefix("1 "), err.strip_prefix("2 "));
    assert!(out.is_some_and(|pipe| pipe.starts_with("pipe:")), "{fds:?}");
    assert_eq!(out, err, "one pipe, so that the written order holds");
}

#[test]
fn no_signal_is_blocked_or_ignored() {
    let session = SessionSetup::new().tool("cc", Tool::Link("/bin/cat".into())).start();
    let status = output(&session, "cc", &["/proc/self/status"]);
    for mask in ["SigBlk", "SigIgn", "SigPnd", "SigCgt"] {
        let line = status.lines().find(|line| line.starts_with(mask)).expect("the line exists");
        let bits = line.split_whitespace().nth(1).map(|bits| u64::from_str_radix(bits, 16));
        // Signals 32 and 33 belong to the C library and cannot be changed.
        let ours = bits.map(|bits| bits.map(|bits: u64| bits & !(0b11 << 31)));
        assert_eq!(ours, Some(Ok(0)), "{line}");
    }
}

#[test]
fn it_leads_a_process_group_of_its_own() {
    let session = Session::start();
    let runners: Vec<String> = session.sidecars().iter().map(|s| s.runner.to_string()).collect();
    let ids = output(&session, "make", &["ids"]);
    let [pid, group, _] = ids.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{ids}") };
    assert_eq!(pid, group);
    assert!(!runners.iter().any(|runner| runner == group));
}

#[test]
fn limits_and_umask_are_the_callers() {
    let setup = SessionSetup::new().script("cc", "ulimit -S -n; ulimit -H -n; umask");
    let session = setup.start();
    let native = Outcome::of(
        std::process::Command::new("/bin/sh").args(["-c", "ulimit -S -n; ulimit -H -n; umask"]),
    );
    let seen = output(&session, "cc", &[]);
    if Backend::chosen().is_engine() {
        // A container's limits are lower.
        let umask = |text: &str| text.lines().last().map(str::to_owned);
        assert_eq!(umask(&seen), umask(&native.text()));
    } else {
        assert_eq!(seen, native.text());
    }
}

#[test]
fn its_name_is_the_one_typed() {
    let setup = SessionSetup::new().kinds(&["python"]).tool("python3", Tool::Fake);
    let session = setup.start();
    for tool in ["make", "python3", "python"] {
        assert_eq!(output(&session, tool, &["argv0"]), format!("{tool}\n"));
    }
}

#[test]
fn a_tool_sees_its_exec_tag_and_no_other_reserved_variable() {
    let setup =
        SessionSetup::new().env("AIFO_TOOLEEXEC_MAX_SECS", "3600").env("FROM_THE_HOST", "yes");
    let session = setup.start();
    let id = fresh_id();
    let answer = session.answer(&session.exec("make", ["env"]).id(&id));
    let env = answer.text();
    let ours: Vec<&str> = env.lines().filter(|line| line.starts_with("AIFO_")).collect();
    assert_eq!(ours, [format!("AIFO_EXEC={id}")]);
    assert!(!env.contains(session.token()), "no tool sees the token");
    let tools = format!("PATH={}", session.scratch().join("tools").display());
    assert!(env.lines().any(|known| known == tools), "{tools} is not in {env}");
    let from_the_host = env.lines().any(|line| line == "FROM_THE_HOST=yes");
    assert_eq!(from_the_host, *Backend::chosen() == Backend::Local, "{env}");
}

#[test]
fn it_runs_where_the_shim_was_called() {
    let session = Session::start();
    let dir = session.workspace().join("a/b");
    std::fs::create_dir_all(&dir).unwrap();
    let outcome = Outcome::of(session.shim("make").arg("cwd").current_dir(&dir));
    assert_eq!(outcome.exited(0).text(), format!("{}\n", dir.display()));
}

/// Proxy and runner raise their soft limit; tools with `select` would fail with it.
#[test]
fn its_open_files_are_limited_as_the_launchers_were() {
    let wrapper = ["/bin/sh", "-c", "ulimit -S -n 333; exec \"$@\"", "sh"];
    let session = SessionSetup::new().through(&wrapper).start();
    let (soft, hard) = open_files(session.pid());
    assert_eq!(soft, hard, "the proxy has raised its own");
    let sidecar = session.sidecars()[0];
    assert_eq!(open_files(sidecar.runner), (hard, hard), "and the runner");
    assert_eq!(output(&session, "make", &["limits"]), format!("333 {hard}\n"));
}

#[test]
fn a_rust_tool_finds_its_c_compiler() {
    let variables = |session: &Session, tool: &str| {
        let env = output(session, tool, &["env"]);
        ["CC=", "CXX="].map(|name| {
            env.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
        })
    };
    let session = Session::start();
    assert_eq!(variables(&session, "cargo"), ["CC=gcc", "CXX=g++"]);
    assert_eq!(variables(&session, "make"), ["", ""], "other sidecars have their own");
    let session = SessionSetup::new().env("CC", "clang").start();
    assert_eq!(variables(&session, "cargo"), ["CC=clang", "CXX=g++"]);
}

#[test]
fn its_id_is_128_random_bits_unless_the_client_chose_one() {
    let session = Session::start();
    let exec_tag = || {
        let env = output(&session, "make", &["env"]);
        let tag = env.lines().find_map(|line| line.strip_prefix("AIFO_EXEC="));
        tag.expect("a tool carries its exec tag").to_owned()
    };
    let (one, other) = (exec_tag(), exec_tag());
    for id in [&one, &other] {
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    assert_ne!(one, other);
}
