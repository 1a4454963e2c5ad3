//! A session of an agent from start to end: checks, the lock, the terminal, and every ending.
//!
//! Proves `spec/agents.md#one-agent-per-workspace`, `spec/agents.md#end`.

use std::fs;
use std::process::Command;

use aifo_tests::{
    ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Signal, Terminal, Tmux, can_run,
    eventually, example, is_alive,
};

use super::{contained, containers, printed};

/// The session's objects on its engine, and its processes on this machine.
fn left(engine: &Engine, containers: &ContainerSetup) -> Vec<String> {
    engine.all_of(containers.setup().scratch())
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_ends_as_its_agent_does() {
    let Some(engine) = Engine::of_run("it_ends_as_its_agent_does") else { return };
    let containers = ContainerSetup::of(&engine);
    let run = |command: &[&str]| Outcome::of(&mut contained(&containers, command));
    run(&["sh", "-c", "exit 7"]).exited(7);
    run(&["sh", "-c", "kill -TERM $$"]).exited(143);
    let outcome = run(&["no-such-agent"]);
    let absent = "aifo-shim: cannot execute 'no-such-agent': not found in the agent's image";
    assert!(outcome.exited(127).stderr.lines().any(|line| line == absent), "{outcome:?}");
    run(&["/etc/passwd"]).exited(126);
    assert_eq!(left(&engine, &containers), [""; 0]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_of_an_editor_authenticates_in_its_container() {
    let name = "an_agent_of_an_editor_authenticates_in_its_container";
    let Some(engine) = Engine::of_run(name) else { return };
    let containers = containers(&engine);
    let mut login = containers.command("acp");
    let script =
        "test -t 0 && echo terminal; echo \"$0 $* A=$A B=$B\"; test -e /workspace && exit 7";
    login.args(["--quiet", "--image", EVERY_TOOL, "--agent-command"]);
    login.args([&format!("sh -c '{script}' acp"), "--", "--backend", "local"]);
    login.env("AIFO_ENV_A", "1").env("B", "2");
    let terminal = Terminal::new();
    let started = terminal.start(&login);
    terminal.expect("terminal\r\n").expect("acp --backend local A=1 B=\r\n");
    assert_eq!(started.finish(), Ok(7), "{}", terminal.shown());
    assert_eq!(left(&engine, &containers), [""; 0]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_says_what_holds_and_what_came_of_it() {
    let Some(engine) = Engine::of_run("it_says_what_holds_and_what_came_of_it") else { return };
    let tools = containers(&engine);
    let outcome =
        Outcome::of(&mut contained(&tools, &["sh", "-c", "make; make no-such-goal; true"]));
    // Some machines have certificates of their own, which is one more warning.
    let varies =
        |line: &&str| line.contains(": ready in ") || line.contains("do not have the certificates");
    let ours: Vec<_> = outcome.stderr.lines().filter(|line| !varies(line)).collect();
    let banner: Vec<_> = ours.iter().take_while(|line| !line.starts_with("make")).collect();
    assert!((1..=8).contains(&banner.len()), "{outcome:?}");
    for word in ["agent:", "files:", "network:", "secrets:"] {
        assert!(banner.iter().any(|line| line.starts_with(word)), "{word} {outcome:?}");
    }
    let last = ours.last().unwrap();
    assert!(last.starts_with("aifo-coder: 2 tool calls, 1 failed, "), "{last}");

    let quiet = Outcome::of(&mut contained(&tools.switch("--quiet"), &["sh", "-c", "make"]));
    assert_eq!((quiet.text().as_str(), quiet.stderr.as_str()), (super::MADE, ""));
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_bypass_of_the_shims_is_reported() {
    let Some(engine) = Engine::of_run("a_bypass_of_the_shims_is_reported") else { return };
    // Sorts after aifo's own file, which only a deliberate file does.
    let profile = "RUN echo 'PATH=/usr/bin:/bin' >/etc/profile.d/zzz.sh\n";
    let image = engine.build(&format!("FROM {EVERY_TOOL}\n{profile}"));
    let run = |containers: &ContainerSetup, image: &str| {
        let mut run = containers.command("run");
        Outcome::of(run.args(["--quiet", "--image", image, "--", "echo", "it runs"]))
    };
    let outcome = run(&containers(&engine), image.name());
    assert_eq!(outcome.exited(0).text(), "it runs\n");
    let warning = "aifo-coder: WARNING: 'bash -lc' finds make at '/usr/bin/make': what the agent runs \
                   by it bypasses aifo";
    assert_eq!(outcome.only_line(), warning);

    // A sidecar that lacks its tool.
    let lacking = engine.build(&format!("FROM {EVERY_TOOL}\nRUN rm /usr/bin/make\n"));
    let tools = ContainerSetup::of(&engine).kind_from("c-cpp", lacking.name());
    let outcome = run(&tools, EVERY_TOOL);
    assert_eq!(outcome.exited(0).text(), "it runs\n");
    let line = outcome.only_line();
    let beginning = "aifo-coder: WARNING: 'make --version' is not answered by its sidecar: ";
    assert!(line.starts_with(beginning), "{line}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn one_agent_has_the_workspace() {
    let Some(engine) = Engine::of_run("one_agent_has_the_workspace") else { return };
    let tools = containers(&engine);
    let waits = "touch in; while ! [ -e out ]; do sleep 0.1; done";
    let first = Running::start(&mut contained(&tools, &["sh", "-c", waits]));
    let workspace = tools.setup().workspace();
    eventually("the first has started", || workspace.join("in").exists());
    let second = Outcome::of(&mut contained(&tools, &["true"]));
    let told_of =
        format!("aifo-coder: an agent works in '{}' already: sh, session ", workspace.display());
    assert!(second.exited(86).stderr.starts_with(&told_of), "{second:?}");
    assert!(second.stderr.contains("--force-share"), "{second:?}");
    let mut forced = tools.command("run");
    forced.args(["--force-share", "--image", EVERY_TOOL, "--", "make"]);
    assert_eq!(Outcome::of(&mut forced).exited(0).text(), super::MADE);
    fs::write(workspace.join("out"), "").unwrap();
    first.finish().exited(0);
    assert_eq!(printed(&tools, "make"), super::MADE, "the lock went with the first");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn its_terminal_is_the_users() {
    let Some(engine) = Engine::of_run("its_terminal_is_the_users") else { return };
    let tools = containers(&engine).switch("--quiet");
    let shell = contained(&tools, &["bash", "--norc", "--noprofile", "-i"]);
    let tmux = Tmux::start(&shell);
    tmux.prompt("bash-5.2#");
    tmux.line("test -t 0 -a -t 1 -a -t 2 && stty size").expect("24 80");
    tmux.line("make | cat").expect(super::MADE.trim());
    tmux.resize(100, 30);
    tmux.line("clear; stty size").expect("30 100");
    // Ctrl-C goes to the agent and its children.
    tmux.line("sh -c \"printf 'go%s' ing; sleep 1000\"").expect("going").press(&["C-c"]);
    tmux.line("echo ended with $?").expect("ended with 130");
    tmux.line("exit 3");
    eventually("aifo-coder has ended", || !is_alive(tmux.pid));
    assert_eq!(left(&engine, &tools), [""; 0]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_terminal_is_left_as_it_was() {
    let Some(engine) = Engine::of_run("the_terminal_is_left_as_it_was") else { return };
    let tools = ContainerSetup::of(&engine).switch("--quiet");
    let terminal = Terminal::new();
    let before = terminal.modes();
    let raw = "stty raw -echo; printf 'it is raw'; exit 0";
    let process = terminal.start(&contained(&tools, &["sh", "-c", raw]));
    terminal.expect("it is raw");
    assert_eq!(process.finish(), Ok(0));
    assert_eq!(terminal.modes(), before);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn signals_are_passed_on() {
    let Some(engine) = Engine::of_run("signals_are_passed_on") else { return };
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        let tools = ContainerSetup::of(&engine);
        let traps =
            format!("trap 'echo got it; exit 5' {name}; echo ready; while :; do sleep 0.1; done");
        let run = Running::start(&mut contained(&tools, &["sh", "-c", &traps]));
        run.expect("ready").signal(signal);
        let outcome = run.finish();
        assert_eq!(outcome.exited(5).text(), "ready\ngot it\n", "{name}");
        assert_eq!(left(&engine, &tools), [""; 0]);
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_terminal_that_hangs_up_takes_everything_along() {
    let Some(engine) = Engine::of_run("a_terminal_that_hangs_up_takes_everything_along") else {
        return;
    };
    let tools = containers(&engine).switch("--quiet");
    let tmux = Tmux::start(&contained(&tools, &["bash", "--norc", "--noprofile", "-i"]));
    tmux.prompt("bash-5.2#");
    let pid = tmux.pid;
    tmux.close();
    eventually("aifo-coder has ended", || !is_alive(pid));
    eventually("nothing is left", || left(&engine, &tools).is_empty());
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_launcher_that_is_killed_takes_the_agent_along() {
    let Some(engine) = Engine::of_run("a_launcher_that_is_killed_takes_the_agent_along") else {
        return;
    };
    let tools = containers(&engine);
    let run = Running::start(&mut contained(&tools, &["sh", "-c", "echo ready; sleep 1000"]));
    run.expect("ready").signal(Signal::SIGKILL);
    eventually("the containers end by themselves", || {
        left(&engine, &tools).iter().all(|name| name.starts_with("aifo-net-"))
    });
    let cleanup = Outcome::of(tools.setup().coder().arg("cleanup"));
    cleanup.exited(0);
    assert_eq!(left(&engine, &tools), [""; 0], "{cleanup:?}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_whose_container_is_killed_has_no_known_ending() {
    let test = "an_agent_whose_container_is_killed_has_no_known_ending";
    let Some(engine) = Engine::of_run(test) else { return };
    let tools = containers(&engine);
    let run = Running::start(&mut contained(&tools, &["sh", "-c", "echo ready; sleep 1000"]));
    run.expect("ready");
    let agent = left(&engine, &tools).into_iter().find(|name| name.starts_with("aifo-agent-"));
    engine.text(["kill", &agent.expect("it runs")]);
    run.finish().exited(125);
    eventually("nothing is left", || left(&engine, &tools).is_empty());
}

/// As a user without other sessions on this machine.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_is_the_caller_outside() {
    let test = "it_is_the_caller_outside";
    let Some(engine) = Engine::of_run(test) else { return };
    // Podman needs subordinate ids for the user.
    if engine.is_podman() || !can_run(test, &["setpriv", "--reuid", "1000", "true"]) {
        return;
    }
    use std::os::unix::fs::{MetadataExt, chown};
    let group = fs::metadata("/var/run/docker.sock").unwrap().gid().to_string();
    let user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--groups", &group];
    let tools = containers(&engine).through(&user);
    let setup = tools.setup();
    for dir in ["", "workspace", "workspace/Makefile", "home", "run"] {
        chown(setup.scratch().join(dir), Some(1000), Some(1000)).unwrap();
    }
    let look = "id -u; id -un; echo x >~/x; touch made; make; env -i /bin/bash -lc make";
    let text = printed(&tools, look);
    assert_eq!(text, format!("1000\ncoder\n{0}{0}", super::MADE));
    assert_eq!(fs::metadata(setup.workspace().join("made")).unwrap().uid(), 1000);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_unavailable_image_or_tool_starts_nothing() {
    let Some(engine) = Engine::of_run("an_unavailable_image_or_tool_starts_nothing") else {
        return;
    };
    let refused = |containers: &ContainerSetup, args: &[&str], code: i32, says: &[&str]| {
        let outcome = Outcome::of(containers.command("run").args(args));
        outcome.exited(code);
        for word in says {
            assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
        }
        assert_eq!(left(&engine, containers), [""; 0]);
    };
    let tools = || ContainerSetup::of(&engine);
    refused(&tools(), &["codx"], 2, &["there is no agent 'codx'", "did you mean 'codex'?"]);
    // Without the option, docker builds it.
    let engine_option = if engine.is_podman() { "--engine podman " } else { "" };
    let hint = format!("aifo-coder images build {engine_option}codex");
    refused(
        &tools().env("AIFO_CODER_IMAGE_TAG", "none"),
        &["codex"],
        86,
        &["no image 'aifo-agent-codex:none'", &hint],
    );
    refused(
        &tools(),
        &["--image", "aifo-none:none", "--", "sh"],
        86,
        &["aifo-none:none", "--image"],
    );
    refused(
        &tools(),
        &["--listen", "tcp://127.0.0.1:0", "--image", EVERY_TOOL, "--", "sh"],
        86,
        &["--listen"],
    );
    // The local command of the agent prints the same.
    let mut local = Command::new(&aifo_tests::binaries().coder);
    local.args(["run", "--backend", "local", "--image", EVERY_TOOL, "codex"]);
    Outcome::of(&mut local).exited(86);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_dry_run_shows_the_command() {
    let Some(engine) = Engine::of_run("a_dry_run_shows_the_command") else { return };
    let tools = containers(&engine).switch("--dry-run").env("OPENAI_API_KEY", "sk-secret");
    let mut run = tools.command("run");
    let outcome = Outcome::of(run.args(["--image", EVERY_TOOL, "codex", "exec"]));
    let text = outcome.exited(0).text();
    let agent = text.lines().find(|line| line.contains("--name aifo-agent-")).expect("it is there");
    assert!(agent.contains(EVERY_TOOL) && agent.contains(".codex"), "{agent}");
    assert!(!text.contains("sk-secret"), "{text}");
    assert_eq!(left(&engine, &tools), [""; 0]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn other_launchers_have_it_too() {
    let Some(engine) = Engine::of_run("other_launchers_have_it_too") else { return };
    let containers = containers(&engine);
    let coder = containers.setup().coder();
    let mut launcher = Command::new(example("agent"));
    launcher.env_clear().envs(coder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    launcher.arg(containers.setup().workspace()).args(["c-cpp", EVERY_TOOL, "make"]);
    let outcome = Outcome::of(&mut launcher);
    let text = outcome.exited(0).text();
    assert!(text.starts_with(super::MADE), "{outcome:?}");
    assert!(text.contains("Ended(Exited(0)) after 1 tool calls"), "{outcome:?}");
    assert_eq!(left(&engine, &containers), [""; 0]);
    // By default a session keeps its project's caches.
    let cleared = containers.clear_caches(&containers.setup().workspace());
    assert!(cleared.starts_with("removed aifo-ccache-"), "{cleared}");
}
