//! Held sessions whose agent has a container: the screen, the gateway and the tools outlive the terminal.

use std::fs;
use std::process::Command;

use aifo_tests::{ContainerSetup, Engine, Outcome, SessionSetup, Signal, Terminal, eventually};

use crate::container_agents::{MADE, contained, containers};

const DRAWS: &str = r"stty raw -echo; trap 'printf \\033[H\\033[2Jsize.; stty size' WINCH
printf '\033[?1049h\033[2Jdraws.'; : >began
while [ ! -e go ]; do sleep 0.05; done; printf '\033[?1049l'; make; exit 7";

/// A contained command, with options of `run` and a terminal environment.
fn held(containers: &ContainerSetup, how: &str) -> Command {
    let run = contained(containers, &["bash", "-c", DRAWS]);
    let mut args: Vec<_> = run.get_args().map(ToOwned::to_owned).collect();
    let at = args.iter().position(|arg| arg == "run").unwrap();
    args.insert(at + 1, how.into());
    let mut held = with_environment(&run);
    held.args(args);
    held
}

/// `aifo-coder` in the same environment.
fn coder(containers: &ContainerSetup, args: &[&str]) -> Command {
    let mut coder = with_environment(&contained(containers, &[]));
    coder.args(args);
    coder
}

fn with_environment(run: &Command) -> Command {
    let mut command = Command::new(run.get_program());
    command.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm-256color");
    command.current_dir(run.get_current_dir().unwrap());
    command
}

fn has(setup: &SessionSetup, name: &str) -> bool {
    setup.workspace().join(name).exists()
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_works_on_without_a_terminal() {
    let Some(engine) = Engine::of_run("an_agent_works_on_without_a_terminal") else { return };
    let containers = containers(&engine);
    let setup = containers.setup();
    let first = Terminal::sized(80, 24);
    let run = first.start(&held(&containers, "--keep"));
    first.expect("draws.");
    aifo_tests::send_signal(run.pid(), Signal::SIGHUP);
    assert_eq!(run.finish(), Ok(0));
    first.expect("\x1b[?1049l");
    let sessions = || Outcome::of(&mut coder(&containers, &["sessions"])).exited(0).text();
    eventually("the session is detached", || sessions().contains(" detached "));

    let second = Terminal::sized(100, 40);
    let attach = second.start(&coder(&containers, &["attach"]));
    second.expect("draws.").expect("\x1b[?1049h").expect("size.40 100");
    second.press("\x1c\x04");
    assert_eq!(attach.finish(), Ok(0));

    // Its tools too: the call and the end come without a terminal.
    fs::write(setup.workspace().join("go"), "").unwrap();
    eventually("the session has ended", || sessions().contains(" ended "));
    let third = Terminal::sized(100, 40);
    let attach = third.start(&coder(&containers, &["attach"]));
    assert_eq!(attach.finish(), Ok(7), "{}", third.shown());
    third.expect(MADE.trim_end());
    assert!(has(setup, "began"));
    eventually("nothing is left", || fs::read_dir(setup.runtime()).unwrap().count() == 0);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_session_starts_without_a_terminal() {
    let Some(engine) = Engine::of_run("a_session_starts_without_a_terminal") else { return };
    let containers = containers(&engine);
    let id = Outcome::of(&mut held(&containers, "--detach")).exited(0).text();
    eventually("the agent works", || has(containers.setup(), "began"));
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&coder(&containers, &["attach", id.trim_end()]));
    terminal.expect("\x1b[?1049h").expect("draws.");
    fs::write(containers.setup().workspace().join("go"), "").unwrap();
    assert_eq!(attach.finish(), Ok(7), "{}", terminal.shown());
}
