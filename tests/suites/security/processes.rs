//! An unprivileged tool of the same user, against the session processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use aifo_tests::{Landlock, Outcome, Running, Session, SessionSetup, Tool, binaries, can_run};

/// Runs a program as a user other than root.
const AS_USER: [&str; 5] =
    ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
const USER: u32 = 65534;

/// Tries every access to a process and prints those that succeed.
const PROBE: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ATTACH, DETACH, PIDFD_OPEN, PIDFD_GETFD, READV = 16, 17, 434, 438, 310

def opens(path, flags):
    os.close(os.open(path, flags))

def lists(path):
    entries = os.listdir(path)
    os.readlink(path + "/" + entries[0])

def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result

def attach(pid):
    must(libc.ptrace(ATTACH, pid, None, None))
    os.waitpid(pid, 0)
    libc.ptrace(DETACH, pid, None, None)

def take_fd(pid):
    pidfd = must(libc.syscall(PIDFD_OPEN, pid, 0))
    for number in range(64):
        if libc.syscall(PIDFD_GETFD, pidfd, number, 0) >= 0:
            return
    raise OSError

def reopen_fd(pid):
    for number in range(64):
        try:
            return opens(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            pass
    raise OSError

def ways(pid):
    proc = f"/proc/{pid}"
    return {
        "list its fds": lambda: lists(proc + "/fd"),
        "open its fds": lambda: reopen_fd(pid),
        "read its memory": lambda: opens(proc + "/mem", os.O_RDONLY),
        "write its memory": lambda: opens(proc + "/mem", os.O_RDWR),
        "read its environment": lambda: open(proc + "/environ").read(),
        "see its memory's map": lambda: open(proc + "/maps").read(1),
        "enter its root": lambda: os.listdir(proc + "/root/"),
        "take its fds": lambda: take_fd(pid),
        "trace it": lambda: attach(pid),
    }

def probe(pid):
    for name, way in ways(pid).items():
        try:
            way()
            yield name
        except OSError:
            pass

child = os.fork()
if child == 0:
    while True:
        os.read(sys.stdin.fileno(), 1) or os.execv("/bin/sleep", ["sleep", "1000"])
for name, pid in [("child", child)] + [word.split("=") for word in sys.argv[1:]]:
    print(name + ":", ", ".join(probe(int(pid))))
os.kill(child, 9)
"#;

/// Changes the owner of everything below a directory.
fn give_away(dir: &Path) {
    chown(dir, Some(USER), Some(USER)).expect("the suite runs as root");
    for entry in fs::read_dir(dir).expect("the scratch directory is writable").flatten() {
        let about = entry.file_type().expect("it is there");
        match about.is_dir() {
            true => give_away(&entry.path()),
            false => _ = std::os::unix::fs::lchown(entry.path(), Some(USER), Some(USER)),
        }
    }
}

/// A session of an unprivileged user in which `python3` probes. Where that is impossible, reports
/// the test as skipped and returns `None`.
fn session(test: &str) -> Option<Session> {
    let test = format!("security::processes::{test}");
    let programs = [&binaries().coder, &binaries().shim].map(|path| path.to_str().expect("text"));
    let runs = |program| can_run(&test, &[&AS_USER[..], &[program, "--version"]].concat());
    if !Landlock::Writes.available(&test) || !programs.into_iter().all(runs) {
        return None;
    }
    let setup = SessionSetup::new().kinds(&["python"]);
    let setup = setup.tool("python3", Tool::Link("/usr/bin/python3".into()));
    fs::write(setup.workspace().join("probe.py"), PROBE).unwrap();
    let scratch = setup.scratch().to_owned();
    give_away(&scratch);
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
    Some(setup.through(&AS_USER).start())
}

/// Probes the tool's own child, then the other processes, by name.
#[track_caller]
fn probe(session: &Session, pids: &[(&str, i32)]) -> Outcome {
    // The proxy only accepts its own user.
    let shim = session.shim("python3");
    let mut command = std::process::Command::new(AS_USER[0]);
    command.args(&AS_USER[1..]).arg(shim.get_program()).args(["-IS", "probe.py"]);
    command.args(pids.iter().map(|(name, pid)| format!("{name}={pid}")));
    command.env_clear().envs(shim.get_envs().filter_map(|(name, v)| Some((name, v?))));
    command.current_dir(session.workspace()).stdin(std::process::Stdio::null());
    Running::start(&mut command).finish()
}

/// The user is the same, so only the kernel's checks separate them.
#[test]
fn a_tool_gets_at_no_process_of_the_session() {
    let Some(session) = session("a_tool_gets_at_no_process_of_the_session") else { return };
    let sidecar = session.sidecars()[0];
    let pids = [("runner", sidecar.runner), ("guard", sidecar.guard), ("proxy", session.pid())];
    let outcome = probe(&session, &pids);
    let text = outcome.exited(0).text();
    let lines: Vec<_> = text.lines().collect();
    let child = lines.first().expect("the probe prints a line");
    for way in ["list its fds", "read its environment", "take its fds", "trace it"] {
        assert!(child.contains(way), "the probe works where it may: {child}");
    }
    assert_eq!(lines[1..], ["runner: ", "guard: ", "proxy: "], "{text}");
}
