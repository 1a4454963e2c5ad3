//! `aifo-coder setup` shows a plan for a project, carries it out, and ends with the next command
//! (`spec/cli.md#setup`).

use std::fs;

use aifo_tests::{Outcome, SessionSetup, Terminal};

/// A docker that has the images whose files exist, and pulls those whose names begin with `node`.
const DOCKER: &str = r#"case "$1 $2" in
'info '*) echo '{"ServerVersion":"28.0.0","OperatingSystem":"x","KernelVersion":"6.1","MemTotal":1}' ;;
'image inspect') for image; do :; done; [ -e "IMAGES/$image" ] ;;
'pull node:'*) echo Pulling; : > "IMAGES/$2" ;;
'pull '*) echo 'no such host' >&2; exit 1 ;;
*) exit 1 ;;
esac"#;

const C: &str = "aifo-toolchain-c-cpp:latest";
const NODE: &str = "aifo-toolchain-node:latest";

/// A project with make and a version of node.
fn project() -> SessionSetup {
    let setup = SessionSetup::new();
    let images = setup.scratch().join("images");
    fs::create_dir(&images).unwrap();
    for image in [C, NODE, "aifo-agent-codex:latest"] {
        fs::write(images.join(image), "").unwrap();
    }
    let docker = DOCKER.replace("IMAGES", images.to_str().unwrap());
    let setup = setup.script("docker", &docker);
    for (name, text) in [("Makefile", ""), ("package.json", "{}"), (".nvmrc", "22")] {
        fs::write(setup.workspace().join(name), text).unwrap();
    }
    setup
}

fn setup_command(setup: &SessionSetup, args: &[&str]) -> std::process::Command {
    let mut coder = setup.coder();
    coder.args(["setup", "--engine", "docker", "--workspace"]).arg(setup.workspace()).args(args);
    coder
}

/// The lines of the plan.
fn plan(setup: &SessionSetup, node: &str) -> String {
    format!(
        "aifo-coder: images for '{}', in docker:\n\
         \x20 present  c-cpp  {C}\n{node}\
         \x20 present  codex  aifo-agent-codex:latest\n",
        setup.workspace().display()
    )
}

const TO_PULL: &str =
    "  pull     node   node:22                      ('.nvmrc' requests node 22)\n";
const NEXT: &str =
    "aifo-coder: next: start the agent with `aifo-coder run --backend docker codex`\n";

#[test]
fn a_plan_is_carried_out_after_consent() {
    let setup = project();
    let outcome = Outcome::of(&mut setup_command(&setup, &["codex"]));
    let nothing = "aifo-coder: nothing was built or pulled; repeat the command with --yes\n";
    assert_eq!(outcome.exited(1).stderr, plan(&setup, TO_PULL) + nothing);

    let terminal = Terminal::new();
    let process = terminal.start(&setup_command(&setup, &["codex"]));
    terminal.expect("continue? [Y/n] ").press("n\n");
    assert_eq!(process.finish(), Ok(0));
    terminal.expect("nothing was built or pulled");
    assert!(!setup.scratch().join("images/node:22").exists());

    let outcome = Outcome::of(&mut setup_command(&setup, &["--yes", "codex"]));
    let stderr = &outcome.exited(0).stderr;
    assert!(stderr.starts_with(&plan(&setup, TO_PULL)), "{stderr}");
    assert!(stderr.contains("aifo-coder: node: pulled node:22 in "), "{stderr}");
    assert!(stderr.ends_with(NEXT), "{stderr}");

    let present = "  present  node   node:22                      ('.nvmrc' requests node 22)\n";
    let outcome = Outcome::of(&mut setup_command(&setup, &["codex"]));
    let rest = format!("aifo-coder: all images are present\n{NEXT}");
    assert_eq!(outcome.exited(0).stderr, plan(&setup, present) + &rest);
}

#[test]
fn an_image_that_cannot_be_had_is_reported() {
    let setup = project();
    fs::write(setup.workspace().join(".python-version"), "2.7").unwrap();
    fs::write(setup.scratch().join("images/aifo-toolchain-python:latest"), "").unwrap();
    let outcome = Outcome::of(&mut setup_command(&setup, &["--yes"]));
    let stderr = &outcome.exited(0).stderr;
    let replaced =
        "'python:2.7' cannot be pulled: no such host; using 'aifo-toolchain-python:latest'";
    assert!(stderr.contains(replaced), "{stderr}");
    assert!(stderr.ends_with("or add an agent with `aifo-coder setup AGENT`\n"), "{stderr}");

    let user = setup.scratch().join("home/.config/aifo/config.toml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(&user, "[kind.python]\nimage = 'mine/python'\n").unwrap();
    let outcome = Outcome::of(&mut setup_command(&setup, &["--yes"]));
    let stderr = &outcome.exited(1).stderr;
    let failed =
        "aifo-coder: 'mine/python' cannot be pulled: no such host\nhint: load it into docker\n";
    assert!(stderr.ends_with(failed), "{stderr}");
}

#[test]
fn agents_with_a_state_are_part_of_the_plan() {
    let setup = project();
    fs::create_dir_all(setup.scratch().join("home/.codex")).unwrap();
    let outcome = Outcome::of(&mut setup_command(&setup, &[]));
    assert!(outcome.exited(1).stderr.starts_with(&plan(&setup, TO_PULL)), "{}", outcome.stderr);
    let outcome = Outcome::of(&mut setup_command(&setup, &["codx"]));
    let expected = "aifo-coder: AGENT: there is no agent 'codx'\nhint: did you mean 'codex'?\n";
    assert_eq!(outcome.exited(2).stderr, expected);
}
