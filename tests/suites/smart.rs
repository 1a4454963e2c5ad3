//! Smart decisions, end to end: real shims, and runtimes that tell what became of them. Which call
//! runs where is `spec/decide.md`, whose tables have tests of their own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aifo_tests::{Outcome, Running, Scratch, Session, Setup, Signal, Tool, binaries, possible};

const NOT_CONFIGURED: &str =
    "aifo-shim: proxy not configured. Please launch agent with --toolchain.\n";

/// The places where a local node is looked for.
const NODES: [&str; 2] = ["/usr/local/bin/node", "/usr/bin/node"];

/// An agent with a python of its own, outside of the workspace. That python is really a shell, so
/// that a program can tell by what name, and as what process, it was started.
struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        let place = Place { scratch: Scratch::new() };
        for folder in ["agent", "runtime", "shims"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        symlink("/bin/sh", place.path("runtime/python3")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A program of the agent's.
    fn program(&self, text: &str) -> PathBuf {
        let path = self.path("agent/program");
        fs::write(&path, text).unwrap();
        path
    }

    /// A runtime that is a script.
    fn script(&self, name: &str, body: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A shim that is smart about everything, in a session or without one.
    fn shim(&self, session: Option<&Session>, tool: &str) -> Command {
        let mut shim = match session {
            Some(session) => session.shim(tool),
            None => {
                let link = self.path("shims").join(tool);
                let _ = symlink(&binaries().shim, &link);
                let mut shim = Command::new(link);
                shim.env_clear().current_dir(self.path("agent")).stdin(Stdio::null());
                shim
            }
        };
        let workspace = session.map_or(PathBuf::from("/workspace"), Session::workspace);
        shim.env("AIFO_WORKSPACE", workspace)
            .env("AIFO_SHIM_SMART", "1")
            .env("AIFO_SHIM_SMART_NODE", "1")
            .env("AIFO_SHIM_SMART_PYTHON", "1")
            .env("AIFO_SHIM_LOCAL_PYTHON", self.path("runtime/python3"));
        shim
    }
}

/// A session whose sidecars have fakes under the runtimes' names.
fn session() -> Session {
    let setup = Setup::new().kinds(&["node", "python"]).verbose();
    let tools = ["node", "python3", "pip", "npm"];
    tools.into_iter().fold(setup, |setup, tool| setup.tool(tool, Tool::Fake)).start()
}

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
    // The same process, argv[0] the runtime's path, the arguments untouched, stdin passed on.
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
        let line = text.lines().find_map(|line| line.strip_prefix(mask)).expect("the kernel tells");
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
            // The fake tool takes it for a verb that it does not know: it was asked.
            outcome.exited(99);
            assert!(outcome.text().contains("unknown verb"), "{outcome:?}");
        }
    }
    // A link outside that leads in is the workspace's code all the same.
    symlink(session.file("app.py"), place.path("agent/link.py")).unwrap();
    let mut command = place.shim(Some(&session), "python3");
    Outcome::of(command.arg(place.path("agent/link.py"))).exited(99);
}

#[test]
fn what_is_no_runtime_goes_to_the_sidecar() {
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
    // An environment in the workspace runs nothing here, whatever lies in it.
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
fn a_runtime_that_leads_back_to_the_shim_is_told() {
    let place = Place::new();
    let runtime = place.path("runtime/python3");
    fs::remove_file(&runtime).unwrap();
    symlink(&binaries().shim, &runtime).unwrap();
    let program = place.program("echo local\n");
    let outcome = Outcome::of(place.shim(None, "python3").arg(program));
    let expected = format!(
        "aifo-shim: '{}' leads back to aifo-shim; install a real runtime there, or take the link \
         away",
        runtime.display()
    );
    assert_eq!(outcome.exited(86).only_line(), expected);
}

/// A program that runs here may call python again: that is no recursion.
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
    let story = "smart::a_program_outside_runs_on_the_machines_node";
    let installed = NODES.map(|node| format!("[ -x {node} ]")).join(" || ");
    if !possible(story, &["/bin/sh", "-c", &installed]) {
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

/// The variables that lead to a session and make its shims smart, as a file.
fn settings(place: &Place, session: &Session) -> String {
    let lines = [
        format!("AIFO_TOOLEEXEC_URL={}", session.url()),
        format!("AIFO_TOOLEEXEC_TOKEN={}", session.token()),
        format!("AIFO_WORKSPACE={}", session.workspace().display()),
        "AIFO_SHIM_SMART=1".to_owned(),
        "AIFO_SHIM_SMART_PYTHON=yes".to_owned(),
        format!("AIFO_SHIM_LOCAL_PYTHON={}", place.path("runtime/python3").display()),
        "PATH=/evil".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// Puts the settings beside the place's links.
fn write_settings(place: &Place, text: &str, mode: u32) -> PathBuf {
    let file = place.path("shims/shim.env");
    let _ = fs::remove_file(&file);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// A shim without an environment, in the session's workspace.
fn bare(place: &Place, session: &Session, tool: &str) -> Command {
    let link = place.path("shims").join(tool);
    let _ = symlink(&binaries().shim, &link);
    let mut shim = Command::new(link);
    shim.env_clear().current_dir(session.workspace()).stdin(Stdio::null());
    shim
}

#[test]
fn settings_beside_the_link_stand_in_for_the_environment() {
    let (place, session) = (Place::new(), session());
    write_settings(&place, &settings(&place, &session), 0o400);
    let outcome = Outcome::of(bare(&place, &session, "npm").args(["say", "hi"]));
    assert_eq!(outcome.exited(0).text(), "hi\n");
    let program = place.program("echo local\n");
    let outcome = Outcome::of(bare(&place, &session, "python3").arg(program));
    assert_eq!(outcome.exited(0).text(), "local\n");
    // Called by name, the link is found in PATH.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "npm say hi"]).env_clear().env("PATH", place.path("shims"));
    let outcome = Outcome::of(shell.current_dir(session.workspace()));
    assert_eq!(outcome.exited(0).text(), "hi\n");
}

#[test]
fn the_environment_wins_over_the_file() {
    let (place, session) = (Place::new(), session());
    write_settings(&place, &settings(&place, &session), 0o600);
    let program = place.program("echo local\n");
    let mut command = bare(&place, &session, "python3");
    Outcome::of(command.arg(program).env("AIFO_SHIM_SMART", "0")).exited(99);
    let mut command = bare(&place, &session, "npm");
    command.args(["say", "hi"]).env("AIFO_TOOLEEXEC_URL", "unix:///nonexistent/sock");
    let outcome = Outcome::of(&mut command);
    assert!(outcome.exited(86).stderr.contains("/nonexistent/sock"), "{}", outcome.stderr);
    // Who has both in the environment does not need the file.
    let other = settings(&place, &session).replace(session.token(), "another");
    write_settings(&place, &other, 0o600);
    let mut command = session.shim("npm");
    assert_eq!(Outcome::of(command.args(["say", "hi"])).exited(0).text(), "hi\n");
}

#[test]
fn a_file_that_others_may_have_written_is_not_trusted() {
    let (place, session) = (Place::new(), session());
    let text = settings(&place, &session);
    let not_configured = || {
        let outcome = Outcome::of(bare(&place, &session, "npm").args(["say", "hi"]));
        assert_eq!(outcome.exited(86).stderr, NOT_CONFIGURED);
    };
    for mode in [0o620, 0o602, 0o666] {
        write_settings(&place, &text, mode);
        not_configured();
    }
    let file = write_settings(&place, &text, 0o600);
    let moved = place.path("agent/shim.env");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    not_configured();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    not_configured();
    fs::remove_dir(&file).unwrap();
    let file = write_settings(&place, &text, 0o644);
    Outcome::of(bare(&place, &session, "npm").args(["say", "hi"])).exited(0);
    let story = "smart::a_file_that_others_may_have_written_is_not_trusted, another's file";
    if possible(story, &["/bin/sh", "-c", "[ \"$(id -u)\" = 0 ]"]) {
        chown(file, Some(65534), None).unwrap();
        not_configured();
    }
}

#[test]
fn the_machines_own_file_comes_last() {
    let namespace = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c"];
    let mount = "mount -t tmpfs none /run && mkdir /run/aifo";
    let story = "smart::the_machines_own_file_comes_last";
    if !possible(story, &[&namespace[..], &[mount]].concat()) {
        return;
    }
    let (place, session) = (Place::new(), session());
    let file = place.path("agent/run.env");
    fs::write(&file, settings(&place, &session)).unwrap();
    let script =
        format!("{mount} && cp {} /run/aifo/shim.env && exec \"$0\" say hi", file.display());
    let run = || {
        let shim = bare(&place, &session, "npm");
        let mut command = Command::new(namespace[0]);
        command.args(&namespace[1..]).arg(&script).arg(shim.get_program());
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(session.workspace());
        Outcome::of(&mut command)
    };
    assert_eq!(run().exited(0).text(), "hi\n");
    write_settings(&place, "AIFO_TOOLEEXEC_URL=unix:///x\nAIFO_TOOLEEXEC_TOKEN=t\n", 0o600);
    assert!(run().exited(86).stderr.contains("unix:///x"), "the one beside the link comes first");
}

/// What the launcher writes for children that an agent starts without an environment.
#[test]
fn an_agents_children_need_no_environment() {
    let setup = Setup::new().tool("make", Tool::Fake).tool("sh", Tool::Link("/bin/sh".into()));
    let mut run = setup.coder();
    let script = "make=$(command -v make); /usr/bin/env -i \"$make\" say hi; \
                  /bin/ls -l \"${make%/*}/shim.env\"";
    run.args(["run", "--toolchain", "c-cpp", "--", "sh", "-c", script]);
    let text = Outcome::of(&mut run).exited(0).text();
    assert!(text.starts_with("hi\n-r-------- "), "{text}");
}
