//! Ways of a process to the key. The ways by what an agent sends are in the tests of `aifo-provider`
//! (`attacks`), and what the containers are made of in [`super::census`].
//!
//! | way | where it is tried |
//! | --- | --- |
//! | own environment; environments and command lines of all processes; names of processes | agent |
//! | descriptors, root and directory of each process | agent |
//! | mounts, files of `/run`, `/tmp`, `/etc`, HOME and the state; the user's file with the key | agent |
//! | a tool environment, and a variable of that name for a tool | sidecar |
//! | `inspect`, `sessions`, `log`, `config show` | this machine |
//! | `/proc/PID` of the launcher: environment, memory, descriptors, root; ptrace; a core dump | the same user |

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    ContainerSetup, Engine, Outcome, Running, Scratch, Signal, can_run, eventually,
    write_executable,
};

use super::model_server::{KEY, ModelServer};
use super::{census, run};

/// Writes a file for each way into the workspace.
const AGENT: &str = r#"
mkdir ways
all() { for process in /proc/[0-9]*; do "$@" "$process" 2>/dev/null; done; }
environ() { tr '\0' '\n' < "$1/environ"; }
cmdline() { tr '\0' '\n' < "$1/cmdline"; }
descriptors() { ls -l "$1/fd"; cat "$1"/fdinfo/*; }
directories() { ls -la "$1/root/" "$1/cwd/"; cat "$1"/root/run/*; }
env > ways/environment
all environ > ways/environments
all cmdline > ways/command-lines
all descriptors > ways/descriptors
all directories > ways/directories
cat /proc/self/mountinfo > ways/mounts
find /run /tmp /etc "$HOME" -xdev -type f -size -1000k -exec cat {} + > ways/files 2>/dev/null
cat "$(cat secret-path)" > ways/secret 2>&1
make > ways/tool
OPENAI_API_KEY= AIFO_TOOLEXEC_ENV=OPENAI_API_KEY make > ways/variable 2>&1
ask "$OPENAI_API_KEY" $base/chat/completions > ways/model
touch ready; until [ -e end ]; do sleep 0.1; done
"#;

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_process_of_the_session_has_no_way_to_the_key() {
    let test = "a_process_of_the_session_has_no_way_to_the_key";
    let Some(engine) = Engine::of_run(test) else { return };
    let Some(server) = ModelServer::start(test) else { return };
    let containers = ContainerSetup::of(&engine).kind("c-cpp");
    let scratch = containers.setup().scratch().to_owned();
    let workspace = containers.setup().workspace();
    let config = scratch.join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    let secret = scratch.join("home/secret");
    write_executable(&secret, KEY, 0o600);
    let text = format!("[keys.openai]\nurl = {:?}\nfile = {secret:?}\n", server.url());
    fs::write(config.join("config.toml"), text).unwrap();
    fs::write(workspace.join("secret-path"), secret.to_str().unwrap()).unwrap();
    fs::write(workspace.join("Makefile"), "all:\n\t@env; id\n").unwrap();
    let mut command = run(&containers, &server, &[], AGENT);
    command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
    let session = Running::start(&mut command);
    eventually("the agent has tried its ways", || workspace.join("ready").exists());
    let ways = fs::read_dir(workspace.join("ways")).unwrap();
    let ways: Vec<_> = ways.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(ways.len(), 11, "{ways:?}");
    for way in &ways {
        let found = fs::read(way).unwrap();
        assert!(!found.is_empty(), "{} has found nothing at all", way.display());
        let text = String::from_utf8_lossy(&found);
        assert!(!text.contains(KEY), "{} has found the key", way.display());
    }
    let model = fs::read_to_string(workspace.join("ways/model")).unwrap();
    assert!(model.contains("\"right_key\": true"), "{model}");
    let setup = containers.setup();
    eventually("the session's request is counted", || {
        let listed = Outcome::of(&mut engine.coder(setup, &["sessions", "--json"])).text();
        listed.contains("\"requests\": 1,") && listed.contains("\"output_tokens\": 4")
    });
    let listed = Outcome::of(&mut engine.coder(setup, &["ps", "-v"])).text();
    assert!(listed.contains("  1 request to models, "), "{listed}");
    for words in [&["sessions", "--json"][..], &["log"], &["config", "show"], &["net"]] {
        let outcome = Outcome::of(&mut engine.coder(setup, words));
        let shown = outcome.text() + &outcome.stderr;
        assert!(!shown.is_empty() && !shown.contains(KEY), "{words:?}: {shown}");
    }
    fs::remove_file(&secret).unwrap();
    assert_eq!(census::places(&engine, &containers, KEY.as_bytes()), [""; 0]);
    fs::write(workspace.join("end"), "").unwrap();
    session.finish();
}

/// One that every user can execute.
const PYTHON: &str = "/usr/bin/python3";

/// Reads the process in each way, and prints the ways that succeed.
const PROBE: &str = r#"
import ctypes, os, sys
pid = int(sys.argv[1])
def attempt(name, way):
    try:
        way()
        print(name)
    except OSError: pass
attempt('environ', lambda: open(f'/proc/{pid}/environ', 'rb').read(1))
attempt('mem', lambda: open(f'/proc/{pid}/mem', 'rb'))
attempt('maps', lambda: open(f'/proc/{pid}/maps', 'rb').read(1))
attempt('fd', lambda: os.listdir(f'/proc/{pid}/fd'))
attempt('root', lambda: os.listdir(f'/proc/{pid}/root/'))
attempt('cwd', lambda: os.readlink(f'/proc/{pid}/cwd'))
libc = ctypes.CDLL(None, use_errno=True)
def trace():
    if libc.ptrace(16, pid, None, None) != 0: raise OSError(ctypes.get_errno(), 'ptrace')
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, None, None)
attempt('ptrace', trace)
"#;

/// A user without other processes, so the probe is one of the same user, without capabilities.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_process_of_the_same_user_has_no_way_into_the_launcher() {
    let test = "a_process_of_the_same_user_has_no_way_into_the_launcher";
    let Some(engine) = Engine::of_run(test) else { return };
    // Podman needs subordinate ids for the user.
    if engine.is_podman() || !can_run(test, &["setpriv", "--reuid", "12345", PYTHON, "-V"]) {
        return;
    }
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata("/var/run/docker.sock").unwrap());
    let group = group.to_string();
    let user = ["setpriv", "--reuid", "12345", "--regid", "12345", "--groups", &group];
    let give = |path: &Path| chown(path, Some(12345), Some(12345)).unwrap();
    let workspace = Scratch::new();
    give(workspace.path());
    let containers = ContainerSetup::of(&engine).kind("c-cpp").through(&user);
    let containers = containers.workspace(workspace.path());
    let scratch = containers.setup().scratch();
    for directory in ["home", "run"] {
        give(&scratch.join(directory));
    }
    let agent = workspace.path().join("qwen");
    let body = "#!/bin/sh\ntouch ready; until [ -e end ]; do sleep 0.1; done\n";
    write_executable(&agent, body, 0o755);
    let mut command = containers.command_in("run", workspace.path());
    command.args(["--image", aifo_tests::EVERY_TOOL, "--"]).arg(&agent);
    let session = Running::start(command.env("OPENAI_API_KEY", KEY));
    eventually("the agent runs", || workspace.path().join("ready").exists());
    let probe = |pid: String| {
        let mut probe = Command::new(user[0]);
        probe.args(&user[1..]).args([PYTHON, "-c", PROBE, &pid]);
        Outcome::of(&mut probe).exited(0).text()
    };
    let mut other = Command::new(user[0]).args(&user[1..]).args(["sleep", "60"]).spawn().unwrap();
    let comm = format!("/proc/{}/comm", other.id());
    eventually("sleep runs", || fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
    let all = probe(other.id().to_string());
    assert_eq!(all, "environ\nmem\nmaps\nfd\nroot\ncwd\nptrace\n", "the probe works");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(probe(session.pid().to_string()), "", "ways into the launcher");
    session.signal(Signal::SIGABRT);
    let outcome = session.finish();
    assert!(!outcome.status.core_dumped(), "{outcome:?}");
}
