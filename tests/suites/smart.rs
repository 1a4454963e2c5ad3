//! Smart decisions end to end, with real shims and runtimes that print how they were started. The
//! decision tables have their own tests, see `spec/decide.md`.
//!
//! Proves `spec/shim.md#local-runtimes`.

mod place;
mod settings;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use aifo_tests::{Outcome, Running, Session, Signal, binaries, can_run};

use place::{Place, session};

const NOT_CONFIGURED: &str =
    "aifo-shim: proxy not configured. Please launch agent with --toolchain.\n";

/// The directories where a local node is searched.
const NODES: [&str; 2] = ["/usr/local/bin/node", "/usr/bin/node"];

#[track_caller]
fn check_nothing_reached_the_proxy(session: &Session) {
    assert_eq!(session.log_lines(&["aifo-coder: exec"]), [""; 0]);
}

#[test]
fn the_shim_becomes_the_runtime() {
    let (place, session) = (Place::new(), session());
    let program = place.program("echo $$; tr '\\0' '\\n' < /proc/$$/cmdline; tr a-z A-Z\n");
    let mut command = place.shim(Some(&session), "python3");
    command.env("PATH", "/usr/bin:/bin").arg(&program).args(["-x", "a b", ""]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let runtime = place.path("runtime/python3");
    let (runtime, program) = (runtime.display(), program.display());
    // The same process; argv[0] is the runtime's path; arguments and stdin are unchanged.
    assert_eq!(text, format!("{pid}\n{runtime}\n{program}\n-x\na b\n\nTYPED\n"));
    check_nothing_reached_the_proxy(&session);
}

#[test]
fn signals_and_exit_codes_are_the_runtimes() {
    let place = Place::new();
    let program = place.program("trap 'exit 33' USR1; echo ready; while :; do :; done\n");
    let start = || {
        let shim = Running::start(place.shim(None, "python3").arg(&program));
        shim.expect("ready\n");
        shim
    };
    let shim = start();
    shim.signal(Signal::SIGUSR1);
    shim.finish().exited(33);
    let shim = start();
    shim.signal(Signal::SIGTERM);
    assert_eq!(shim.finish().signal(), Some(15), "it died of it, as the runtime itself");
}

/// A shell's `yes | head` ends; with SIGPIPE ignored it would not.
#[test]
fn a_runtime_has_its_signals_as_at_birth() {
    let place = Place::new();
    let program = place.program("while read name value; do case $name in Sig*) echo $name $value;; esac; done < /proc/$$/status\n");
    let text = Outcome::of(place.shim(None, "python3").arg(&program)).exited(0).text();
    for mask in ["SigBlk", "SigIgn"] {
        let line = text.lines().find_map(|line| line.strip_prefix(mask)).expect("the line exists");
        let bits = u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap();
        assert_eq!(bits & !(0b11 << 31), 0, "{mask}{line}");
    }
}

#[test]
fn a_program_in_the_workspace_goes_to_the_sidecar() {
    let (place, session) = (Place::new(), session());
    fs::write(session.file("app.py"), "echo local\n").unwrap();
    for tool in ["python", "python3", "node"] {
        let file = session.file("app.py");
        for program in ["app.py", "./app.py", &file] {
            let outcome = Outcome::of(place.shim(Some(&session), tool).arg(program));
            // The fake tool runs and rejects it as an unknown verb.
            outcome.exited(99);
            assert_eq!(outcome.text(), "", "nothing of it ran here");
            assert!(outcome.stderr.contains("unknown verb"), "{outcome:?}");
        }
    }
    // A link outside that points into the workspace is the workspace's code.
    symlink(session.file("app.py"), place.path("agent/link.py")).unwrap();
    let mut command = place.shim(Some(&session), "python3");
    Outcome::of(command.arg(place.path("agent/link.py"))).exited(99);
}

#[test]
fn tools_that_are_no_runtime_go_to_the_sidecar() {
    let (place, session) = (Place::new(), session());
    for tool in ["pip", "npm"] {
        let outcome = Outcome::of(place.shim(Some(&session), tool).args(["say", "hi"]));
        assert_eq!(outcome.exited(0).text(), "hi\n", "{tool}");
    }
    for (tool, args) in [("python3", &["-c", "x"][..]), ("node", &["-e", "x"]), ("node", &["-"])] {
        Outcome::of(place.shim(Some(&session), tool).args(args)).exited(99);
    }
}

#[test]
fn every_switch_has_to_be_on() {
    let (place, session) = (Place::new(), session());
    let program = place.program("echo local\n");
    let run = |name: &str, value: &str| {
        let mut command = place.shim(Some(&session), "python3");
        Outcome::of(command.arg(&program).env(name, value))
    };
    assert_eq!(run("AIFO_SHIM_SMART_NODE", "0").exited(0).text(), "local\n", "not its own");
    for value in ["true", "YES", "on"] {
        assert_eq!(run("AIFO_SHIM_SMART", value).exited(0).text(), "local\n", "{value}");
    }
    for name in ["AIFO_SHIM_SMART", "AIFO_SHIM_SMART_PYTHON"] {
        for value in ["0", "", "no", "2"] {
            run(name, value).exited(99);
        }
    }
}

#[test]
fn a_module_is_local() {
    let (place, session) = (Place::new(), session());
    place.script("runtime/python3", "echo local \"$@\"");
    for args in [&["-m", "mod", "x"][..], &["-um", "mod"]] {
        for tool in ["python", "python3"] {
            let outcome = Outcome::of(place.shim(Some(&session), tool).args(args));
            assert_eq!(outcome.exited(0).text(), format!("local {}\n", args.join(" ")));
        }
    }
    check_nothing_reached_the_proxy(&session);
}

#[test]
fn a_program_runs_on_the_python_of_its_own_environment() {
    let place = Place::new();
    place.script("venv/bin/python3", "echo venv \"$1\"");
    place.script("venv/bin/agent", "");
    fs::write(place.path("venv/pyvenv.cfg"), "").unwrap();
    let program = place.path("venv/bin/agent");
    symlink(&program, place.path("agent/agent")).unwrap();
    for program in [program, place.path("agent/agent")] {
        let outcome = Outcome::of(place.shim(None, "python3").arg(&program));
        assert_eq!(outcome.exited(0).text(), format!("venv {}\n", program.display()));
    }
    // An environment in the workspace never runs locally.
    let session = session();
    fs::create_dir_all(session.file("venv/bin")).unwrap();
    symlink("/bin/sh", session.file("venv/bin/python3")).unwrap();
    let mut command = place.shim(Some(&session), "python3");
    let local = command.env("AIFO_SHIM_LOCAL_PYTHON", session.file("venv/bin/python3"));
    let outcome = Outcome::of(local.env("AIFO_TOOLCHAIN_VERBOSE", "1").arg("/nonexistent.py"));
    let used = format!("local={}", session.file("venv"));
    assert!(!outcome.stderr.contains(&used), "{}", outcome.stderr);
}

#[test]
fn a_decision_is_one_line_when_verbose() {
    let (place, session) = (Place::new(), session());
    let program = place.program("echo local\n");
    let verbose = |tool: &str, args: &[&str]| {
        let mut command = place.shim(Some(&session), tool);
        Outcome::of(command.args(args).env("AIFO_TOOLCHAIN_VERBOSE", "1"))
    };
    let program = program.to_str().unwrap();
    let outcome = verbose("python3", &[program]);
    let runtime = place.path("runtime/python3");
    let expected = format!(
        "aifo-shim: smart: tool=python3 mode=local reason=outside-workspace program={program} \
         local={}",
        runtime.display()
    );
    assert_eq!(outcome.exited(0).only_line(), expected);
    let outcome = verbose("node", &["app.js"]);
    let app = session.file("app.js");
    let expected =
        format!("aifo-shim: smart: tool=node mode=proxy reason=inside-workspace program={app}");
    assert_eq!(outcome.stderr.lines().next(), Some(&*expected));
    assert_eq!(Outcome::of(place.shim(None, "python3").arg(program)).stderr, "", "else quiet");
}

#[test]
fn a_runtime_that_resolves_to_the_shim_is_reported() {
    let place = Place::new();
    let runtime = place.path("runtime/python3");
    fs::remove_file(&runtime).unwrap();
    symlink(&binaries().shim, &runtime).unwrap();
    let program = place.program("echo local\n");
    let outcome = Outcome::of(place.shim(None, "python3").arg(program));
    let expected = format!(
        "aifo-shim: '{}' runs aifo-shim again; hint: install a runtime there, or remove the \
         link",
        runtime.display()
    );
    assert_eq!(outcome.exited(86).only_line(), expected);
}

/// A local program may call python again without recursion.
#[test]
fn a_local_program_may_call_its_runtime_again() {
    let place = Place::new();
    let shims = place.path("shims");
    let again = place.path("agent/again");
    fs::write(&again, "echo again\n").unwrap();
    let call = format!("{}/python3 {}\n", shims.display(), again.display());
    let program = place.program(&format!("{call}{call}"));
    let outcome = Outcome::of(place.shim(None, "python3").arg(program));
    assert_eq!(outcome.exited(0).text(), "again\nagain\n");
}

#[test]
fn without_a_local_runtime_nothing_runs() {
    let (place, session) = (Place::new(), session());
    let program = place.program("echo local\n");
    let outcome = Outcome::of(place.shim(Some(&session), "python3.987").arg(&program));
    let program = program.display();
    let first = format!("aifo-shim: no local python3.987 to run {program}: tried ");
    assert!(outcome.exited(127).stderr.starts_with(&first), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    check_nothing_reached_the_proxy(&session);
}

#[test]
fn without_a_session_what_is_local_runs_and_nothing_else() {
    let place = Place::new();
    let program = place.program("echo local\n");
    let outcome = Outcome::of(place.shim(None, "python3").arg(&program));
    assert_eq!((&*outcome.exited(0).text(), &*outcome.stderr), ("local\n", ""));
    for (tool, args) in [
        ("python3", &["-c", "x"][..]),
        ("python3", &["/workspace/app.py"]),
        ("pip", &["install", "x"]),
        ("cargo", &["build"]),
        ("say", &["hi"]),
    ] {
        let outcome = Outcome::of(place.shim(None, tool).args(args));
        assert_eq!(outcome.exited(86).stderr, NOT_CONFIGURED, "{tool} {args:?}");
        assert_eq!(outcome.text(), "");
    }
}

#[test]
fn a_program_outside_runs_on_the_machines_node() {
    let test = "smart::a_program_outside_runs_on_the_machines_node";
    let installed = NODES.map(|node| format!("[ -x {node} ]")).join(" || ");
    if !can_run(test, &["/bin/sh", "-c", &installed]) {
        return;
    }
    let node = NODES.into_iter().find(|node| Path::new(node).exists()).unwrap();
    let (place, session) = (Place::new(), session());
    let text = "console.log(process.pid, process.argv0, process.argv.slice(2).join());\
                process.stdin.pipe(process.stdout);";
    let program = place.path("agent/cli.js");
    fs::write(&program, text).unwrap();
    for args in [&[][..], &["--no-warnings"], &["--"], &["-r", "fs"]] {
        let mut command = place.shim(Some(&session), "node");
        command.args(args).arg(&program).args(["-e", "x"]);
        let shim = Running::start(&mut command);
        let pid = shim.pid();
        assert_eq!(shim.finish().exited(0).text(), format!("{pid} {node} -e,x\n"), "{args:?}");
    }
    check_nothing_reached_the_proxy(&session);
}
