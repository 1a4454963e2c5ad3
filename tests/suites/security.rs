//! Limits of a tool and of a client with the token.

mod processes;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use aifo_tests::frames::{frame, kind, string};
use aifo_tests::{
    Client, Invocation, Session, SessionSetup, Stdio, Terminal, Tool, argv, descendants,
    environment, eventually, fresh_id, is_alive, tagged_processes,
};
use nix::libc::{O_DIRECTORY, O_PATH};

/// A session in which `make` is a shell and `ninja` the fake tool.
fn session() -> Session {
    SessionSetup::new().kinds(&["c-cpp"]).tool("make", Tool::Link("/bin/sh".into())).start()
}

/// A shell script as a call, with the machine's commands.
fn sh(session: &Session, script: &str) -> Invocation {
    Invocation::new(session, "make", ["-c", &format!("PATH=/usr/bin:/bin; {script}")])
}

/// Runners have no listening socket: each inherits its one connection.
#[test]
fn no_process_listens_in_a_sidecar() {
    let session = session();
    let listening = listening_sockets();
    let count_of = |pid: i32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there");
        let targets = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        let names = targets.filter_map(|target| Some(target.to_str()?.to_owned()));
        let sockets = names.filter(|name| name.starts_with("socket:["));
        sockets.filter(|name| listening.contains(name)).count()
    };
    assert_eq!(count_of(session.pid()), 2, "calls and answers, so the check works");
    for pid in descendants(session.pid()) {
        assert_eq!(count_of(pid), 0, "{:?}", argv(pid));
    }
}

/// Every listening socket of the machine, as `/proc/PID/fd` names it.
fn listening_sockets() -> Vec<String> {
    /// `__SO_ACCEPTCON` in `/proc/net/unix`, `TCP_LISTEN` in `/proc/net/tcp`.
    const TABLES: [(&str, usize, &str, usize); 3] =
        [("unix", 3, "00010000", 6), ("tcp", 3, "0A", 9), ("tcp6", 3, "0A", 9)];
    let mut found = Vec::new();
    for (table, state, listens, inode) in TABLES {
        let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in table.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields.get(state) == Some(&listens) {
                found.extend(fields.get(inode).map(|inode| format!("socket:[{inode}]")));
            }
        }
    }
    found
}

/// A directory would give access to the caller file system, also by `..`.
#[test]
fn a_directory_cannot_be_smuggled_in() {
    let session = session();
    for flags in [O_DIRECTORY, O_DIRECTORY | O_PATH, O_PATH] {
        let directory = File::options().read(true).custom_flags(flags).open("/").unwrap();
        let script = "ls /proc/self/fd/0/ /proc/self/fd/0/.. || readlink /proc/self/fd/0";
        let call = sh(&session, script).stdin(Stdio::pass(directory));
        let finished = Client::run(&session, call);
        let printed = String::from_utf8_lossy(&finished.stderr);
        assert!(printed.contains("Not a directory"), "{printed}");
        assert!(finished.text().starts_with("pipe:["), "{finished:?}");
    }
}

/// A descriptor can be reopened through /proc; so only files that the tool could open are passed.
#[test]
fn a_descriptor_for_reading_is_not_written_to() {
    let session = session();
    let outside = session.scratch().join("outside").into_os_string().into_string().unwrap();
    let rows = [("outside", outside.clone(), "pipe:["), ("inside", session.file("inside"), "/")];
    for (what, path, expected) in rows {
        fs::write(&path, "of the caller\n").unwrap();
        for number in [0, 2] {
            let script = format!(
                "readlink /proc/$$/fd/{number}; for how in '>' '>>' '<>'; do \
                 eval \"echo forged $how /proc/$$/fd/{number}\"; done"
            );
            let given = Stdio::pass(File::open(&path).unwrap());
            let call = match number {
                0 => sh(&session, &script).stdin(given),
                _ => sh(&session, &script).stderr(given),
            };
            let finished = Client::run(&session, call);
            assert!(finished.text().starts_with(expected), "{what} as {number}: {finished:?}");
        }
        let content = fs::read_to_string(&path).unwrap();
        // The workspace file is passed: the tool may write to it by path as well.
        assert_eq!(content.contains("forged"), what == "inside", "{what}: {content}");
    }
}

#[test]
fn the_token_of_another_session_is_none() {
    let (ours, theirs) = (session(), session());
    let call = || Invocation::new(&ours, "ninja", ["count", &ours.file("ran")]);
    for request in [
        call().request(&ours).with("Authorization", format!("Bearer {}", theirs.token())),
        ours.exec("ninja", ["count", &ours.file("ran")])
            .with("Authorization", format!("Bearer {}", theirs.token())),
    ] {
        let mut client = Client::connect(&ours);
        client.send(request.encode());
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (401, "unauthorized\n"));
    }
    assert!(!fs::exists(ours.file("ran")).unwrap());
    assert_eq!(Client::run(&ours, call()).ending(), Ok(0), "the own one runs");
}

/// Neither in its environment nor on a command line, for any kind of call.
#[test]
fn no_tool_sees_the_token() {
    let session = session();
    let token = session.token();
    for on_terminal in [false, true] {
        let id = fresh_id();
        let call = Invocation::new(&session, "ninja", ["wait"]).id(&id);
        let call = call.variable(format!("AIFO_TOOLEEXEC_TOKEN={token}"));
        let call = call.variable(format!("CI={token}"));
        let call = if on_terminal { call.on_terminal() } else { call };
        let (mut client, started) = Client::start(&session, call);
        client.expect("ready");
        let below = descendants(session.pid());
        assert!(below.contains(&started.pid));
        for pid in [session.pid()].into_iter().chain(below) {
            let words = argv(pid).join(" ");
            assert!(!words.contains(token), "{words}");
            if pid != session.pid() {
                let with_token = environment(pid).into_iter().filter(|line| line.contains(token));
                // A permitted variable of the caller is in the tool environment, and in no other
                // process.
                let expected: &[String] = match pid == started.pid {
                    true => &[format!("CI={token}")],
                    false => &[],
                };
                assert_eq!(with_token.collect::<Vec<_>>(), expected, "process {pid}");
            }
        }
        client.send(frame(kind::SIGNAL, [15]));
        assert_eq!(client.finish().ending(), Err(15));
    }
}

#[test]
fn variables_that_change_the_tool_stay_with_the_caller() {
    let session = session();
    let own = Client::run(&session, Invocation::new(&session, "ninja", ["env"])).text();
    let stays = [
        "LD_PRELOAD=/evil.so",
        "LD_LIBRARY_PATH=/evil",
        "LD_AUDIT=/evil.so",
        "PATH=/evil",
        "HOME=/evil",
        "AIFO_TOOLEEXEC_URL=evil",
        "AIFO_TOOLEEXEC_TOKEN=evil",
        "AIFO_EXEC=evil",
        "AIFO_SHIM_RELAY=evil",
        "BASH_ENV=/evil",
        "ENV=/evil",
        "IFS=evil",
        "SSH_AUTH_SOCK=/evil",
        "GITHUB_TOKEN=evil",
        "CARGO_REGISTRY_TOKEN=evil",
        "NPM_CONFIG__AUTH=evil",
        "AWS_SECRET_ACCESS_KEY=evil",
        "MY_PASSWORD=evil",
        "UNHEARD_OF=evil",
        "NODE_OPTIONS=--require=/evil.js",
        "HTTPS_PROXY=http://evil:evil@proxy",
        "PYTHONSTARTUP=/evil.py",
        "RUSTC_WRAPPER=/evil",
        "GIT_SSH_COMMAND=evil",
        "TMPDIR=/evil",
    ];
    let call = Invocation::new(&session, "ninja", ["env"]).variable("LANG=passes");
    let call = stays.into_iter().fold(call, Invocation::variable);
    let environment = Client::run(&session, call).text();
    assert!(environment.contains("LANG=passes\n"), "{environment}");
    assert!(!environment.contains("evil"), "{environment}");
    let lines = |text: &str, name: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect()
    };
    for name in ["PATH=", "HOME=", "TMPDIR="] {
        assert_eq!(lines(&environment, name), lines(&own, name), "as without the caller's");
    }
}

/// Only the proxy starts, ends or names execs.
#[test]
fn a_client_commands_no_more_than_its_own_tool() {
    let session = session();
    let id = fresh_id();
    let victim = Invocation::new(&session, "ninja", ["wait"]).id(&id);
    let (mut victim, running) = Client::start(&session, victim);
    victim.expect("ready\n");
    let forged = session.file("forged");
    let invocation = Invocation::new(&session, "ninja", ["count", &forged]);
    let invocation = invocation.stdout(Stdio::Null).stderr(Stdio::Null).encode();
    let start = [&[0, 0, 0, 9, 0][..], &string("forged"), &[0, 0, 0], &invocation].concat();
    let setup = [string("/"), string("/"), string("c-cpp")].concat();
    let mut frames = vec![frame(kind::START, start), frame(kind::SETUP, setup)];
    for serial in 0..8u32 {
        let serial = serial.to_be_bytes();
        frames.push(frame(kind::KILL, [&serial[..], &[9], id.as_bytes()].concat()));
        frames.push(frame(kind::CANCEL, [&serial[..], &[3, 0]].concat()));
    }
    for bytes in frames {
        let id = fresh_id();
        let call = sh(&session, "exec sleep 1000").id(&id);
        let (mut client, _) = Client::start(&session, call);
        client.send(bytes);
        assert_eq!(client.finish().exit, None);
        eventually("its own tool has ended", || tagged_processes(&id).is_empty());
        assert!(is_alive(running.pid), "and no other tool is signalled");
    }
    assert!(!fs::exists(forged).unwrap());
    assert_eq!(fs::read_dir(session.workspace()).unwrap().count(), 0);
    victim.send(frame(kind::SIGNAL, [15]));
    assert_eq!(victim.finish().ending(), Err(15));
}

/// TIOCSTI: input that a program injects into its own terminal.
#[test]
fn a_tool_types_into_no_terminal_but_its_own() {
    let setup = SessionSetup::new().kinds(&["python"]);
    let session = setup.tool("python3", Tool::Link("/usr/bin/python3".into())).start();
    let script = "import fcntl, sys, termios\n\
        for fd in 0, 1, 2, '/dev/tty':\n\
        \x20 try:\n\
        \x20   fd = open(fd) if isinstance(fd, str) else fd\n\
        \x20   for byte in b'typed\\n': fcntl.ioctl(fd, termios.TIOCSTI, bytes([byte]))\n\
        \x20   print('done')\n\
        \x20 except OSError as error: print('not done')\n";
    let file = session.file("type.py");
    fs::write(&file, script).unwrap();
    // An injected line is available at once, and `read` reads one line only.
    let shell = |tool: &str| {
        let script = format!("'{tool}' -IS '{file}'; read -t 0 && echo typed=yes || echo typed=no");
        let mut shell = Command::new("/bin/bash");
        shell.args(["--norc", "--noprofile", "-c", &script]).env_clear().env("TERM", "dumb");
        let shim = session.shim("python3");
        shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.current_dir(session.workspace());
        shell
    };
    let on_terminal = |tool: &str| {
        let terminal = Terminal::sized(80, 24);
        let process = terminal.start(&shell(tool));
        terminal.expect("typed=");
        assert_eq!(process.finish(), Ok(0));
        terminal.shown()
    };
    let shim = session.scratch().join("shims/python3");
    let shown = on_terminal(shim.to_str().unwrap());
    assert!(shown.contains("typed=no"), "{shown}");
    let native = on_terminal("/usr/bin/python3");
    if !native.contains("typed=yes") {
        // A closed stderr does not matter.
        let skipped = "skipped: security::a_tool_types_into_no_terminal_but_its_own, natively";
        let _ = writeln!(io::stderr(), "{skipped} (this kernel forbids it)");
    }
}
