//! Sockets of this machine's programs in the workspace (`spec/containers.md#sockets`).

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

use aifo_tests::{ContainerSetup, Engine, Outcome, Running, eventually};

use crate::container_agents::{contained, user_file};

/// Connects to each socket and prints how that ended.
const PROBE: &str = r"
import errno, os, socket, sys
for path in sys.argv[2:]:
    with socket.socket(socket.AF_UNIX) as it:
        code = it.connect_ex(path)
        print(sys.argv[1], path, errno.errorcode.get(code, 'connected'), flush=True)
";

/// As the agent, then as a tool.
const BOTH: &str = "/usr/bin/python3 probe.py agent \"$@\"; python3 probe.py tool \"$@\"";

fn setup(engine: &Engine) -> ContainerSetup {
    let containers = ContainerSetup::of(engine).kind("python");
    let workspace = containers.setup().workspace();
    fs::create_dir(workspace.join("run")).unwrap();
    fs::write(workspace.join("probe.py"), PROBE).unwrap();
    containers
}

/// A repository with a socket of this machine. Replacing git's configuration starts a sidecar again.
fn with_database(test: &str) -> Option<(ContainerSetup, UnixListener)> {
    let containers = setup(&Engine::of_run(test)?);
    let workspace = containers.setup().workspace();
    Outcome::of(Command::new("git").args(["init", "-q"]).arg(&workspace)).exited(0);
    let database = UnixListener::bind(workspace.join("run/database")).unwrap();
    Some((containers, database))
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_container_connects_to_a_program_of_this_machine() {
    let Some(engine) = Engine::of_run("no_container_connects_to_a_program_of_this_machine") else {
        return;
    };
    for net in ["names", "none", "open"] {
        let containers = setup(&engine);
        let workspace = containers.setup().workspace();
        let _database = UnixListener::bind(workspace.join("run/database")).unwrap();
        let _admitted = UnixListener::bind(workspace.join("run/admitted")).unwrap();
        // One that is left by a program that has ended stays usable.
        drop(UnixListener::bind(workspace.join("run/left")).unwrap());
        let network = format!("[containers]\nnet = '{net}'\n[net]\nsockets = ['run/admitted']\n");
        user_file(&containers, &network);
        let database = workspace.join("run/database").display().to_string();
        let paths = [&database, "/workspace/run/database", "run/admitted", "run/left"];
        let script = format!("{BOTH}; rm run/left && rm -f run/database; ls run");
        let mut run = contained(&containers, &["sh", "-c", &script, "-"]);
        let outcome = Outcome::of(run.args(paths));
        let line = |side: &str, path: &str, how: &str| format!("{side} {path} {how}\n");
        let of = |side: &str| {
            let refused = [&paths[..2], &paths[3..]].concat();
            let [first, second, left] = refused[..] else { panic!("{refused:?}") };
            let refused = |path| line(side, path, "ECONNREFUSED");
            let admitted = line(side, "run/admitted", "connected");
            [refused(first), refused(second), admitted, refused(left)].concat()
        };
        let expected = [of("agent"), of("tool"), "admitted\ndatabase\n".to_owned()].concat();
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), expected, "{net}: {outcome:?}");
        assert!(workspace.join("run/database").exists());
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_replaced_socket_is_covered_again_for_tools_and_named() {
    let Some(engine) = Engine::of_run("a_replaced_socket_is_covered_again_for_tools_and_named")
    else {
        return;
    };
    let containers = setup(&engine);
    let workspace = containers.setup().workspace();
    let database = workspace.join("run/database");
    let first = UnixListener::bind(&database).unwrap();
    let script = format!(
        "{BOTH}; echo > ready; while [ ! -e replaced ]; do sleep 0.02; done; {BOTH}; \
         while [ ! -e named ]; do sleep 0.02; done"
    );
    let mut run = contained(&containers, &["sh", "-c", &script, "-", "run/database"]);
    let running = Running::start(&mut run);
    eventually("the first calls have ended", || workspace.join("ready").exists());
    drop(first);
    fs::remove_file(&database).unwrap();
    let _second = UnixListener::bind(&database).unwrap();
    fs::write(workspace.join("replaced"), "").unwrap();
    let warning = "a program of this machine has replaced its socket 'run/database'";
    let log = || {
        let logs = containers.setup().scratch().join("home/.local/state/aifo/log");
        let files = aifo_tests::files_below(&logs).into_iter();
        files.filter_map(|file| fs::read_to_string(file).ok()).collect::<String>()
    };
    eventually("the log names the socket", || log().contains(warning));
    fs::write(workspace.join("named"), "").unwrap();
    let outcome = running.finish();
    let expected = "agent run/database ECONNREFUSED\ntool run/database ECONNREFUSED\n\
                    agent run/database connected\ntool run/database ECONNREFUSED\n";
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), expected, "{outcome:?}");
}

/// A sidecar that starts later has a cover where the socket is then.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_socket_that_the_agent_moves_is_covered_where_it_is() {
    let test = "a_socket_that_the_agent_moves_is_covered_where_it_is";
    let Some((containers, _database)) = with_database(test) else { return };
    // The second call starts the sidecar again, as its mount is gone.
    let script = "python3 probe.py tool run/database; mv run moved; cp .git/config new; \
                  mv new .git/config; python3 probe.py tool moved/database";
    let outcome = Outcome::of(&mut contained(&containers, &["sh", "-c", script]));
    let expected = "tool run/database ECONNREFUSED\ntool moved/database ECONNREFUSED\n";
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), expected, "{outcome:?}");
}

/// An agent that exchanges the directory of the socket and another one all the time, while sidecars start.
const EXCHANGE: &str = r#"
import os, shutil, signal, subprocess
NAMES = ("run", "x", "decoy")

def exchange():
    while True:
        for a, b in ("run", "x"), ("decoy", "run"), ("x", "decoy"):
            try:
                os.rename(a, b)
            except OSError:
                pass  # The engine has made a mount point there.

for _ in range(8):
    os.mkdir("decoy")
    open("decoy/database", "w").close()
    if (flipper := os.fork()) == 0:
        exchange()
    subprocess.run(["python3", "probe.py", "tool"], stderr=subprocess.DEVNULL)
    os.kill(flipper, signal.SIGKILL)
    os.waitpid(flipper, 0)
    paths = [name + "/database" for name in NAMES]
    subprocess.run(["python3", "probe.py", "tool", *paths], stderr=subprocess.DEVNULL)
    for name in filter(os.path.exists, NAMES):
        if os.path.exists(name + "/database") and not os.path.isfile(name + "/database"):
            os.rename(name, "own")
        else:
            shutil.rmtree(name)
    os.rename("own", "run")
    os.system("cp .git/config new; mv new .git/config")
"#;

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_socket_whose_directory_moves_during_the_start_is_covered() {
    let test = "a_socket_whose_directory_moves_during_the_start_is_covered";
    let Some((containers, _database)) = with_database(test) else { return };
    fs::write(containers.setup().workspace().join("exchange.py"), EXCHANGE).unwrap();
    let outcome = Outcome::of(&mut contained(&containers, &["/usr/bin/python3", "exchange.py"]));
    let text = outcome.exited(0).text();
    assert!(text.contains("ECONNREFUSED") && !text.contains("connected"), "{text}");
}
