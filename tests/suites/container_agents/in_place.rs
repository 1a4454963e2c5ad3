//! Calls of the agent that are judged in its container (`spec/rules.md#judged-where-they-run`).

use std::fs;
use std::process::Command;

use aifo_tests::{ContainerSetup, Engine, Outcome, Running, Tmux, WITH_GIT, eventually};

/// A session around a shell script, which is the agent.
fn agent(containers: &ContainerSetup, script: &str) -> Command {
    let mut run = containers.command("run");
    run.args(["--image", WITH_GIT, "--", "bash", "-c", script]);
    run
}

/// Runs a command of the launcher in the session environment.
fn coder(containers: &ContainerSetup, words: &[&str]) -> Command {
    let mut command = containers.setup().coder();
    command.args(words);
    command
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn git_is_judged_however_the_agent_calls_it() {
    let Some(engine) = Engine::with_git("git_is_judged_however_the_agent_calls_it") else { return };
    let containers = ContainerSetup::of(&engine).kind_from("c-cpp", WITH_GIT);
    let workspace = containers.setup().workspace();
    let rules = "[[rule]]\nrun = 'git push'\nthen = 'deny'\nbecause = 'not from here'\n\
                 [[rule]]\nrun = ['docker']\nthen = 'ask'\n[[rule]]\nrun = 'tac'\nthen = 'deny'\n";
    fs::write(workspace.join(".aifo.toml"), rules).unwrap();
    let calls = [
        ("git push", 86),
        ("git -C . push origin", 86),
        ("sh -c 'git push'", 86),
        ("bash -lc 'git push'", 86),
        ("env -i /bin/bash -lc 'git push'", 86),
        ("env -i PATH=\"$PATH\" git push", 86),
        ("(cd /workspace && git push)", 86),
        ("(cd /tmp && git push)", 86),
        ("git -c alias.x='!git push' x", 86),
        ("GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x", 86),
        // Not judged: full paths are code.
        ("/usr/bin/git push", 128),
        ("git --version", 0),
        ("docker --version", 127),
        ("command -v docker", 1),
        ("bash -lc 'command -v docker'", 1),
        ("tac /dev/null", 86),
    ];
    let script = calls.map(|(call, _)| format!("{call}; echo \"exit $?\"\n")).concat();
    let script = format!("{script}command -v git; git init -q; git status --short | head -1");
    let outcome = Outcome::of(&mut agent(&containers, &script));
    let text = outcome.exited(0).text();
    let codes: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("exit ")).collect();
    let expected = calls.map(|(_, code)| code.to_string());
    assert_eq!(codes, expected, "{text}\n{}", outcome.stderr);
    for line in ["/opt/aifo/bin/in-place/git/git", "?? .aifo.toml"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let denied = outcome.stderr.matches("aifo-shim: denied by rule '").count();
    assert_eq!(denied, 11, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("docker: command not found\n"), "{}", outcome.stderr);
    let log = Outcome::of(&mut coder(&containers, &["log", "--all"])).text();
    let in_place: Vec<&str> = log.lines().filter(|line| line.contains("  agent     ")).collect();
    assert!(in_place.iter().all(|line| line.contains("  agent     git ")), "{log}");
    let status = in_place.iter().find(|line| line.ends_with("git status --short"));
    assert!(status.is_some_and(|line| line.contains(" ms ") || line.contains(" s ")), "{log}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_force_push_in_the_container_is_asked_in_a_second_terminal() {
    let test = "a_force_push_in_the_container_is_asked_in_a_second_terminal";
    let Some(engine) = Engine::with_git(test) else { return };
    let containers = ContainerSetup::of(&engine).kind_from("c-cpp", WITH_GIT);
    let script = "git init -q --bare /tmp/r; git init -q .; git -c user.name=a -c user.email=b commit -q \
                  --allow-empty -m x; git push --force /tmp/r HEAD:refs/heads/m; echo \"exit $?\"; \
                  git push --force /tmp/r HEAD:refs/heads/n; echo \"exit $?\"; \
                  git --git-dir=/tmp/r for-each-ref --format='%(refname)'";
    let running = Running::start(&mut agent(&containers, script));
    for option in ["once", "deny"] {
        let mut listed = String::new();
        eventually("a question is open", || {
            listed = Outcome::of(&mut coder(&containers, &["approve"])).text();
            listed.contains("git push --force /tmp/r")
        });
        let id = listed.split_whitespace().next().unwrap();
        Outcome::of(&mut coder(&containers, &["approve", "--answer", id, option])).exited(0);
    }
    let outcome = running.finish();
    let text = outcome.exited(0).text();
    assert_eq!(text, "exit 0\nexit 86\nrefs/heads/m\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("aifo-shim: denied by the user: git push --force"));
    let line = "aifo-coder: waiting for approval: git push --force /tmp/r HEAD:refs/heads/m; answer with: \
                aifo-coder approve bash-1\n";
    assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_call_that_waits_is_in_the_title_of_the_terminal() {
    let Some(engine) = Engine::with_git("a_call_that_waits_is_in_the_title_of_the_terminal") else {
        return;
    };
    let containers = ContainerSetup::of(&engine).kind_from("c-cpp", WITH_GIT);
    let script = "git init -q .; git push --force x y; echo \"exit $?\"; read end";
    let tmux = Tmux::start(&agent(&containers, script));
    let title = || tmux.value("#{pane_title}");
    eventually("the title says so", || {
        title() == "waiting for approval: aifo-coder approve bash-1"
    });
    let listed = Outcome::of(&mut coder(&containers, &["approve"])).text();
    let id = listed.split_whitespace().next().unwrap();
    Outcome::of(&mut coder(&containers, &["approve", "--answer", id, "deny"])).exited(0);
    tmux.expect("exit 86");
    eventually("the earlier title is back", || !title().contains("waiting"));
    tmux.line("end");
}
