//! Landlock confinement of tools: denied and allowed actions.
//!
//! Proves `spec/confinement.md#restrictions`, `spec/confinement.md#not-restricted`.

use std::fs;

use aifo_tests::{
    Answer, Landlock, ORDINARY_PROGRAMS, Outcome, Session, SessionSetup, Signal, Tool, can_run,
};

/// A session in which `make` is a shell with the machine's commands. Without Landlock, reports the
/// test as skipped and returns `None`.
fn session(test: &str) -> Option<Session> {
    let available = Landlock::Writes.available(&format!("confinement::{test}"));
    available.then(|| with_shell(SessionSetup::new()).start())
}

fn with_shell(setup: SessionSetup) -> SessionSetup {
    setup.tool("make", Tool::Link("/bin/sh".into()))
}

/// Runs a script with a tool that is a shell.
fn sh(session: &Session, script: &str) -> Answer {
    let script = format!("PATH=/usr/bin:/bin; {script}");
    session.answer(&session.exec("make", ["-c", &script]))
}

#[track_caller]
fn check_allowed(session: &Session, script: &str) {
    let answer = sh(session, script);
    assert_eq!(answer.exit_code(), Some("0"), "{script}: {}", answer.text());
}

#[track_caller]
fn check_denied(session: &Session, script: &str) {
    let answer = sh(session, script);
    assert_eq!(answer.status(), 200, "{script}: {}", answer.text());
    assert_ne!(answer.exit_code(), Some("0"), "{script}: {}", answer.text());
    assert!(answer.text().contains("ermission denied"), "{script}: {}", answer.text());
}

#[test]
fn writes_stay_in_their_place() {
    let Some(session) = session("writes_stay_in_their_place") else { return };
    let outside = session.scratch().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("old"), "old").unwrap();
    fs::create_dir(outside.join("empty")).unwrap();
    let out = outside.display();
    for denied in [
        format!("echo x > {out}/new"),
        format!("echo x >> {out}/old"),
        format!("truncate -s 0 {out}/old"),
        format!("rm {out}/old"),
        format!("rmdir {out}/empty"),
        format!("mkdir {out}/directory"),
        format!("ln -s x {out}/link"),
        format!("mkfifo {out}/fifo"),
        format!("touch inside && mv inside {out}/moved"),
        format!("mv {out}/old ./stolen"),
        "touch inside2 && ln inside2 ../linked".to_owned(),
        "echo x > ../outside/new".to_owned(),
        format!("ln -s {out} way-out; echo x > way-out/new"),
        "echo x > \"$HOME/new\"".to_owned(),
        "echo x > \"$HOME/.profile\"".to_owned(),
        "cd /tmp && mktemp -p /tmp".to_owned(),
    ] {
        check_denied(&session, &denied);
    }
    assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "old");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    for allowed in [
        "echo x > new && echo y >> new && truncate -s 1 new && rm new",
        "mkdir -p a/b && ln -s b a/link && mkfifo a/fifo && rm -r a",
        "echo x > \"$TMPDIR/new\" && mktemp",
        "f=$(mktemp) && mv \"$f\" from-tmp",
    ] {
        check_allowed(&session, allowed);
    }
}

#[test]
fn devices_that_everybody_writes_to_are_there() {
    let Some(session) = session("devices_that_everybody_writes_to_are_there") else { return };
    for allowed in [
        "echo x > /dev/null",
        "echo x > /dev/zero",
        "! echo x > /dev/full",
        "echo x > /dev/stdout && echo x > /dev/stderr && echo x > /dev/fd/1",
        "f=$(mktemp -p /dev/shm) && rm \"$f\"",
    ] {
        check_allowed(&session, allowed);
    }
}

/// The restrictions of system calls apply to confined tools too.
#[test]
fn no_program_of_the_user_is_made_and_no_limit_of_others_is_set() {
    let test = "no_program_of_the_user_is_made_and_no_limit_of_others_is_set";
    let Some(session) = session(test) else { return };
    let refused = |script: &str| {
        let answer = sh(&session, script);
        let text = answer.text();
        assert_ne!(answer.exit_code(), Some("0"), "{script}: {text}");
        assert!(text.contains("ermitted"), "{script}: {text}");
    };
    refused("cp /bin/true program && chmod u+s program");
    refused("cp /bin/true program && chmod 6755 program");
    refused("sleep 60 & prlimit --pid $! --nofile=10:10; s=$?; kill $!; exit $s");
    check_allowed(&session, "mkdir team && chmod g+s team && cp -a team copy && prlimit --pid $$");
}

/// Landlock restricts no mode, owner or attribute. The namespace does.
#[test]
fn modes_elsewhere_are_not_restricted_but_set_id_and_limits_are() {
    let test = "modes_elsewhere_are_not_restricted_but_set_id_and_limits_are";
    let Some(session) = session(test) else { return };
    let file = session.scratch().join("file");
    fs::write(&file, "").unwrap();
    let name = file.display();
    check_allowed(&session, &format!("chmod 600 {name} && chown $(id -u):$(id -g) {name}"));
    check_allowed(&session, &format!("touch -d 2000-01-01 {name}"));
    let launcher = session.pid();
    for refused in [
        format!("chmod 4755 {name}"),
        format!("chmod u+s {name}"),
        format!("prlimit --pid {launcher} --nofile=10:10"),
        format!("prlimit --pid {launcher} --core=0"),
    ] {
        let answer = sh(&session, &refused);
        assert_ne!(answer.exit_code(), Some("0"), "{refused}: {}", answer.text());
        assert!(answer.text().contains("ermitted"), "{refused}: {}", answer.text());
    }
    // Reading limits is allowed.
    check_allowed(&session, &format!("prlimit --pid {launcher} --nofile"));
}

/// Compilers do it, and the first version of Landlock forbids it.
#[test]
fn files_may_be_renamed_into_another_directory() {
    let Some(session) = session("files_may_be_renamed_into_another_directory") else { return };
    check_allowed(&session, "mkdir -p a b && echo x > a/f && mv a/f b/g && mv b a/b && cat a/b/g");
    check_allowed(&session, "mkdir -p l && echo x > l/f && ln l/f hard && cat hard");
}

/// Confinement covers writes only: tools can read the user's files, and a warning at the start says
/// so.
#[test]
fn reading_is_not_restricted() {
    let Some(session) = session("reading_is_not_restricted") else { return };
    let ssh = session.scratch().join("home/.ssh");
    fs::create_dir(&ssh).unwrap();
    fs::write(ssh.join("id_test"), "the key\n").unwrap();
    assert_eq!(sh(&session, "cat \"$HOME/.ssh/id_test\"").text(), "the key\n");
    check_denied(&session, "echo x >> \"$HOME/.ssh/id_test\"");
    check_denied(&session, "echo x > \"$HOME/.ssh/authorized_keys\"");
}

#[test]
fn children_are_held_to_it_as_well() {
    let Some(session) = session("children_are_held_to_it_as_well") else { return };
    check_denied(&session, "sh -c 'sh -c \"echo x > ../deep\"'");
    check_denied(&session, "setsid --wait sh -c 'echo x > ../deep'");
    assert!(!session.scratch().join("deep").exists());
}

#[test]
fn it_gives_up_gaining_privileges() {
    let Some(session) = session("it_gives_up_gaining_privileges") else { return };
    assert_eq!(sh(&session, "grep NoNewPrivs /proc/self/status").text(), "NoNewPrivs:\t1\n");
    // Programs that change the user get no additional rights.
    if can_run("confinement::it_gives_up_gaining_privileges, sudo", &["sudo", "-n", "true"]) {
        let answer = sh(&session, "sudo -n sh -c 'echo x > ../by-root'");
        assert_ne!(answer.exit_code(), Some("0"), "{}", answer.text());
    }
    // Root in a user namespace has no additional rights either.
    sh(&session, "unshare --user --map-root-user sh -c 'echo x > ../by-root'");
    assert!(!session.scratch().join("by-root").exists());
}

#[test]
fn a_mount_changes_nothing() {
    let Some(session) = session("a_mount_changes_nothing") else { return };
    let outside = session.scratch().join("outside");
    fs::create_dir(&outside).unwrap();
    let out = outside.display();
    // Landlock forbids mounts to any confined process.
    sh(&session, &format!("mkdir m; unshare --mount sh -c 'mount --bind {out} m && echo x > m/x'"));
    sh(&session, &format!("mkdir m; mount --bind {out} m && echo x > m/x"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn signals_reach_neither_proxy_nor_guard() {
    let test = "confinement::signals_reach_neither_proxy_nor_guard";
    if !Landlock::Signals.available(test) {
        return;
    }
    let mut session = with_shell(SessionSetup::new()).start();
    let sidecars = session.sidecars();
    let targets = std::iter::once(session.pid()).chain(sidecars.iter().map(|s| s.guard));
    for pid in targets {
        let answer = sh(&session, &format!("kill -KILL {pid}"));
        assert_ne!(answer.exit_code(), Some("0"), "{pid}");
        assert!(answer.text().contains("not permitted"), "{}", answer.text());
    }
    check_allowed(&session, "sleep 1000 & kill -KILL $!");
    assert_eq!(session.sidecars(), sidecars);
    assert!(session.end(Signal::SIGTERM).success());
}

/// Runs a script as the agent of a session whose `make` is a shell.
fn agent(setup: &SessionSetup, script: &str) -> Outcome {
    let mut run = setup.coder();
    run.args(["run", "--toolchain", "c-cpp", "--", "/bin/sh", "-c", script]);
    Outcome::of(&mut run)
}

#[test]
fn signals_do_not_reach_the_agent() {
    if !Landlock::Signals.available("confinement::signals_do_not_reach_the_agent") {
        return;
    }
    let setup = with_shell(SessionSetup::new());
    let outcome = agent(&setup, "make -c \"kill -TERM $$ $PPID\" || echo the agent lives");
    assert!(outcome.exited(0).text().ends_with("the agent lives\n"), "{outcome:?}");
}

/// The agent runs as the user; only its tools are confined.
#[test]
fn the_agent_itself_is_not_confined() {
    let setup = with_shell(SessionSetup::new());
    agent(&setup, "echo x > ../by-the-agent").exited(0);
    assert!(setup.scratch().join("by-the-agent").exists());
}

/// The additional writable directories of each kind, and their neighbours.
#[test]
fn caches_are_writable_by_kind() {
    if !Landlock::Writes.available("confinement::caches_are_writable_by_kind") {
        return;
    }
    for (kind, tool, variables) in [
        (
            "node",
            "npm",
            &["NPM_CONFIG_CACHE", "YARN_CACHE_FOLDER", "PNPM_STORE_PATH", "DENO_DIR"][..],
        ),
        ("python", "pip", &["PIP_CACHE_DIR", "UV_CACHE_DIR", "PYTHONUSERBASE"]),
        ("go", "go", &["GOPATH", "GOMODCACHE", "GOCACHE"]),
        ("c-cpp", "make", &["CCACHE_DIR"]),
    ] {
        let setup = SessionSetup::new().kinds(&[kind]).tool(tool, Tool::Link("/bin/sh".into()));
        let session = setup.start();
        let run = |script: &str| session.answer(&session.exec(tool, ["-c", script]));
        for variable in variables {
            let script = format!(
                "PATH=/usr/bin:/bin; mkdir -p \"${variable}\" && echo x > \"${variable}/new\""
            );
            let answer = run(&script);
            assert_eq!(answer.exit_code(), Some("0"), "{kind} {variable}: {}", answer.text());
        }
        let own = session.scratch().join("home/.cache/aifo");
        assert!(own.is_dir(), "caches of their own, not the user's");
        for denied in ["echo x > \"$HOME/.cache/new\"", "echo x > \"$HOME/.cache/aifo/new\""] {
            assert_ne!(run(denied).exit_code(), Some("0"), "{kind}: {denied}");
        }
    }
}

#[test]
fn the_users_settings_are_used_instead() {
    if !Landlock::Writes.available("confinement::the_users_settings_are_used_instead") {
        return;
    }
    let setup = SessionSetup::new().kinds(&["python"]).tool("pip", Tool::Link("/bin/sh".into()));
    let theirs = setup.scratch().join("theirs");
    fs::create_dir(&theirs).unwrap();
    let session = setup.env_path("PIP_CACHE_DIR", &theirs).start();
    let script = "echo x > \"$PIP_CACHE_DIR/new\"";
    let answer = session.answer(&session.exec("pip", ["-c", script]));
    assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
    assert!(theirs.join("new").exists());
}

/// A program that writes `config.toml` or `bin` there would control the next build.
#[test]
fn cargos_home_is_writable_where_it_has_to_be_and_nowhere_else() {
    let test = "confinement::cargos_home_is_writable_where_it_has_to_be_and_nowhere_else";
    if !Landlock::Writes.available(test) {
        return;
    }
    let denied = [
        "echo x > config.toml",
        "echo x > credentials.toml",
        "echo x > bin/cargo-x",
        "echo x > env",
        "mkdir bin",
        "rm .package-cache",
        "mv registry elsewhere",
        "echo x > \"$HOME/.cargo/config.toml\"",
    ];
    for (scope, is_users) in [("project", false), ("user", true)] {
        let setup = SessionSetup::new().tool("cargo", Tool::Link("/bin/sh".into()));
        let users = setup.scratch().join("home/.cargo");
        fs::create_dir_all(users.join("bin")).unwrap();
        fs::write(users.join("credentials.toml"), "the user's").unwrap();
        caches(&setup, scope);
        let session = setup.start();
        let run = |script: &str| {
            let script = format!(
                "PATH=/usr/bin:/bin; cd \"${{CARGO_HOME:-{}}}\" && {script}",
                users.display()
            );
            session.answer(&session.exec("cargo", ["-c", &script]))
        };
        for allowed in ["mkdir registry/index", "mkdir git/db", "echo x >> .package-cache"] {
            let answer = run(allowed);
            assert_eq!(answer.exit_code(), Some("0"), "{scope} {allowed}: {}", answer.text());
        }
        assert_eq!(users.join("registry/index").exists(), is_users, "{scope}");
        for denied in denied {
            assert_ne!(run(denied).exit_code(), Some("0"), "{scope}: {denied}");
        }
        assert_eq!(run("cat credentials.toml").text(), "the user's", "{scope}");
        assert_eq!(fs::read_to_string(users.join("credentials.toml")).unwrap(), "the user's");
        // The user's own cargo would compile from there, outside any sandbox.
        let answer = run("mkdir -p \"$HOME/.cargo/registry/src\"");
        assert_eq!(answer.exit_code() == Some("0"), is_users, "{scope}: {}", answer.text());
    }
}

/// Sets the scope of caches in the user's configuration.
fn caches(setup: &SessionSetup, scope: &str) {
    let directory = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), format!("[containers]\ncaches = '{scope}'\n"))
        .unwrap();
}

/// A Landlock rule for a path applies to its target. So a link that a tool leaves in its cache must
/// not become the next session's rule.
#[test]
fn a_link_in_a_cache_lets_the_next_session_out_to_nowhere() {
    let test = "confinement::a_link_in_a_cache_lets_the_next_session_out_to_nowhere";
    if !Landlock::Writes.available(test) {
        return;
    }
    for scope in ["project", "user"] {
        let setup = SessionSetup::new().kinds(&["go"]).tool("go", Tool::Link("/bin/sh".into()));
        caches(&setup, scope);
        let private = setup.scratch().join("home/private");
        fs::create_dir(&private).unwrap();
        let run = |script: &str| {
            let script = format!("PATH=/usr/bin:/bin; {script}");
            let mut exec = setup.coder();
            Outcome::of(exec.args(["exec", "--toolchain=go", "--", "go", "-c", &script]))
        };
        let plant = format!("mkdir -p $GOPATH/pkg && ln -s '{}' $GOMODCACHE", private.display());
        run(&plant).exited(0);
        let outcome = run("echo x > $GOMODCACHE/x");
        assert!(outcome.stderr.contains("Permission denied"), "{scope}: {outcome:?}");
        assert_eq!(fs::read_dir(&private).unwrap().count(), 0, "{scope}");
    }
}

#[test]
fn the_runner_is_confined_before_its_first_tool() {
    let Some(session) = session("the_runner_is_confined_before_its_first_tool") else { return };
    for sidecar in session.sidecars() {
        let of = |pid| aifo_tests::status_field(pid, "NoNewPrivs");
        assert_eq!(of(sidecar.runner), "1");
        assert_eq!(of(sidecar.guard), "0", "the guard has to end what the runner leaves");
    }
}

/// gdb, strace and 32-bit programs among them, where this machine has them.
#[test]
fn ordinary_programs_work() {
    let Some(session) = session("ordinary_programs_work") else { return };
    fs::write(session.workspace().join("programs.py"), ORDINARY_PROGRAMS).unwrap();
    let answer = sh(&session, "python3 programs.py");
    assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
    let seen = answer.text();
    assert!(seen.starts_with("cp works\ntar works\n"), "{seen}");
    assert!(!seen.contains("failed"), "{seen}");
    eprintln!("{seen}");
}
