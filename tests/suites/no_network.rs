//! Calls that a rule runs without network (`spec/confinement.md#no-network`).

use std::fs;
use std::process::Command;

use aifo_tests::{Answer, Backend, Outcome, Session, SessionSetup, Tool, WAYS_OUT, binaries};

const RULE: &str = "[[rule]]\nrun = 'make'\nnet = 'none'\n";

/// The ways that remain: they do not lead to the network.
const OPEN: [&str; 4] = ["unix", "pair", "interfaces", "traceme"];

/// A setup in which `make` and `cmake` are shells, with these rules.
fn setup(rules: &str) -> SessionSetup {
    let shell = || Tool::Link("/bin/sh".into());
    let setup = SessionSetup::new().tool("make", shell()).tool("cmake", shell());
    fs::write(setup.workspace().join(".aifo.toml"), rules).unwrap();
    fs::write(setup.workspace().join("ways.py"), WAYS_OUT).unwrap();
    setup
}

fn run(session: &Session, tool: &str, script: &str) -> Answer {
    let script = format!("PATH=/usr/local/bin:/usr/bin:/bin; {script}");
    session.answer(&session.exec(tool, ["-c", &script]))
}

/// Checks the output of the program.
#[track_caller]
fn assert_held(output: &str) {
    let rows: Vec<(&str, &str)> = output.lines().filter_map(|line| line.split_once(": ")).collect();
    assert!(rows.len() > 30, "{output}");
    for (way, result) in &rows {
        assert_eq!(OPEN.contains(way), *result == "ok", "{way}: {output}");
    }
    let result = |way: &str| rows.iter().find(|row| row.0 == way).map(|row| row.1);
    for way in ["tcp", "udp 6", "vsock", "loopback", "gateway", "daemon", "32-bit socket"] {
        assert_eq!(result(way), Some("ENETUNREACH"), "{way}: {output}");
    }
    for (way, errno) in [("io_uring", "ENOSYS"), ("x32", "ENOSYS"), ("attach", "EPERM")] {
        assert_eq!(result(way), Some(errno), "{way}: {output}");
    }
}

#[test]
fn no_way_leads_out() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skipped: the program is for x86-64");
        return;
    }
    let session = setup(RULE).start();
    let held = run(&session, "make", "exec timeout 50 python3 ways.py 2>&1");
    assert_eq!(held.exit_code(), Some("0"), "{}", held.text());
    assert_held(&held.text());
    // The same ways are open to another tool of the same sidecar, during and after that call.
    let open = run(&session, "cmake", "exec timeout 50 python3 ways.py 2>&1");
    for line in ["tcp: ok", "udp: ok", "loopback: ok", "daemon: ok", "passed descriptor: ok"] {
        assert!(open.text().lines().any(|found| found == line), "{line}: {}", open.text());
    }
}

/// The script tries the network and fails by it.
const TRIES: &str = "bash -c ': < /dev/tcp/127.0.0.1/9' 2>&1 | grep -om1 'Network is unreachable' | head -n1; exit 3";

#[test]
fn every_version_and_wrapper_has_no_network() {
    let session = setup(RULE).start();
    let script = format!("PATH=/usr/bin:/bin; {TRIES}");
    for version in ["1", "2"] {
        let call = session.exec("make", ["-c", &script]).header("X-Aifo-Proto", version);
        let answer = session.answer(&call);
        assert!(answer.text().contains("Network is unreachable\n"), "{version}: {}", answer.text());
    }
    let shim = |tool: &str, words: &[&str]| Outcome::of(session.shim(tool).args(words));
    let outcome = shim("make", &["-c", &script]);
    assert_eq!(outcome.exited(3).text(), "Network is unreachable\n");
    let rule = format!("{}:1", session.workspace().join(".aifo.toml").display());
    let line = format!("make ran without network, by rule '{rule}'\n");
    assert!(outcome.stderr.ends_with(&line), "{}", outcome.stderr);
    // A success needs no explanation.
    assert_eq!(shim("make", &["-c", "exit 0"]).exited(0).stderr, "");
    assert_eq!(shim("cmake", &["-c", &script]).exited(3).text(), "");
    let mut log = Command::new(&binaries().coder);
    log.env_clear()
        .env("HOME", session.scratch().join("home"))
        .env("XDG_RUNTIME_DIR", session.scratch().join("run"))
        .env("TMPDIR", session.scratch().join("run"));
    let records = Outcome::of(log.args(["log", "--json"])).exited(0).text();
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<serde_json::Value> = records.collect();
    let no_network = |tool: &str| -> Vec<_> {
        let of_tool = records.iter().filter(|record| record["tool"] == tool);
        of_tool.map(|record| record["no_network"].clone()).collect()
    };
    assert_eq!(no_network("make"), vec![serde_json::Value::from(rule); 4]);
    assert_eq!(no_network("cmake"), [serde_json::Value::Null]);
}

#[test]
fn a_tool_with_a_terminal_has_no_network() {
    let session = setup(RULE).start();
    let script = format!("PATH=/usr/bin:/bin; tty >&2; {TRIES}");
    let mut shim = session.shim("make");
    shim.args(["-c", &script]);
    let terminal = aifo_tests::Terminal::new();
    let process = terminal.start(&shim);
    terminal.expect("Network is unreachable");
    assert_eq!(process.finish(), Ok(3));
}

#[test]
fn the_verdict_is_shown() {
    let setup = setup(RULE);
    let coder = |words: &[&str]| Outcome::of(setup.coder().args(words)).exited(0).text();
    let rule = format!("{}:1", setup.workspace().join(".aifo.toml").display());
    let network = format!("network:  none, by rule '{rule}'\n");
    let checked = coder(&["policy", "check", "--", "timeout", "5", "make", "all"]);
    assert!(
        checked.starts_with(&format!("verdict:  allow\nrule:     none\n{network}")),
        "{checked}"
    );
    let json = coder(&["policy", "check", "--json", "--", "make"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["no_network"], rule);
    let why = coder(&["why", "make", "all"]);
    assert!(why.contains(&format!("network:     none, by rule '{rule}'\n")), "{why}");
    let shown = coder(&["config", "show", "--json"]);
    assert!(shown.contains("\"net\": \"none\""), "{shown}");
}

#[test]
fn a_rule_without_effect_and_other_networks_are_errors() {
    for (rules, expected) in [
        ("[[rule]]\nrun = 'make'\n", "the rule has neither 'then' nor 'net'"),
        ("[[rule]]\nrun = 'make'\nnet = 'names'\n", "unknown variant `names`, expected `none`"),
    ] {
        let setup = setup(rules);
        let outcome = Outcome::of(setup.coder().args(["policy", "test"]));
        assert!(outcome.exited(1).stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn a_call_in_place_has_no_network() {
    if Backend::chosen().is_engine() {
        return;
    }
    let script = "case $1 in ways) exec python3 ways.py;; esac; echo ran; ls -l /proc/$$/fd | grep -c socket";
    let setup = setup("[[rule]]\nrun = 'git'\nnet = 'none'\n");
    let setup = ["sh", "python3", "ls", "grep", "bash", "sleep", "timeout"].into_iter().fold(
        setup.script("git", &format!("PATH=/usr/local/bin:/usr/bin:/bin; {script}")),
        |setup, name| {
            let program = aifo_tests::program(name).expect("the machine has the tool");
            setup.tool(name, Tool::Link(program))
        },
    );
    let run = |script: &str| {
        let mut run: Command = setup.coder();
        run.args(["run", "-q", "--backend", "local", "--toolchain", "c-cpp", "--no-rules", "--"]);
        Outcome::of(run.args(["bash", "-c", script]))
    };
    let ways = run("git ways");
    assert_held(&ways.exited(0).text());
    let log = Outcome::of(setup.coder().args(["log"])).text();
    assert!(log.contains("git ways  # without network, by rule '"), "{log}");
    // The caller connection is not inherited, and none of the standard descriptors may be one.
    let listens = "import socket, subprocess, sys\n\
                   server = socket.create_server(('127.0.0.1', 0))\n\
                   peer = socket.create_connection(server.getsockname())\n\
                   peer.set_inheritable(True)\n\
                   print(subprocess.run(['git'], pass_fds=[peer.fileno()], capture_output=True).stdout)\n\
                   refused = subprocess.run(['git'], stdout=peer, stderr=subprocess.PIPE)\n\
                   print(refused.returncode, refused.stderr.decode())\n";
    fs::write(setup.workspace().join("listens.py"), listens).unwrap();
    let python = aifo_tests::program("python3").expect("the machine has the tool");
    let outcome = run(&format!("{} listens.py", python.display())).exited(0).text();
    assert!(outcome.starts_with("b'ran\\n0\\n'\n86 "), "{outcome}");
    assert!(outcome.contains("its descriptor 1 is a network connection"), "{outcome}");
}

#[test]
fn the_shim_runs_a_command_without_network() {
    let shim = |words: &[&str]| {
        Outcome::of(Command::new(&binaries().shim).arg("--without-network").args(words))
    };
    let outcome = shim(&["sh", "-c", TRIES]);
    assert_eq!(outcome.exited(3).text(), "Network is unreachable\n");
    assert_eq!(shim(&["/usr/bin/printf", "%s", "a b"]).exited(0).text(), "a b");
    assert!(shim(&[]).exited(2).stderr.contains("requires a command"));
    assert!(shim(&["no-such-program"]).exited(127).stderr.contains("is not found in PATH"));
}
