//! Model keys: an agent in a container works with a phantom key (`spec/keys.md`).

pub(crate) mod census;
mod model_server;
mod ways;

use std::fs;
use std::process::Command;

use aifo_tests::{
    ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Signal, eventually, write_executable,
    write_script,
};

use model_server::{KEY, ModelServer};

/// The beginning of an agent that is a script of bash: `ask KEY PATH` prints a response.
const ASK: &str = r#"#!/bin/bash
host=${OPENAI_BASE_URL#http://}; port=${host#*:}; port=${port%%/*}; base=/${host#*/}
ask() {
  exec 3<>"/dev/tcp/127.0.0.1/$port" || return
  printf 'POST %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}' "$2" "$port" "$1" >&3
  cat <&3; echo; exec 3>&-
}
"#;

/// A session whose agent is this script, by the name of an agent whose row has a base URL.
fn run(containers: &ContainerSetup, server: &ModelServer, options: &[&str], body: &str) -> Command {
    let agent = containers.setup().workspace().join("qwen");
    write_executable(&agent, format!("{ASK}\n{body}\n"), 0o755);
    let mut run = containers.command("run");
    run.args(options).args(["--image", EVERY_TOOL, "--"]).arg(agent);
    server.configure(&mut run);
    run
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_works_with_a_phantom_key() {
    let Some(engine) = Engine::of_run("an_agent_works_with_a_phantom_key") else { return };
    let Some(server) = ModelServer::start("an_agent_works_with_a_phantom_key") else { return };
    for net in ["separate", "shared", "names", "none"] {
        let containers = ContainerSetup::of(&engine).kind("c-cpp");
        let body = "env | sort; ask \"$OPENAI_API_KEY\" $base/chat/completions; ask sk-guess $base/responses
            ask \"$OPENAI_API_KEY\" $base/files";
        let outcome = Outcome::of(&mut run(&containers, &server, &["--net", net], body));
        let text = outcome.exited(0).text();
        assert!(text.contains("\"right_key\": true"), "{net}: {text}");
        assert!(text.contains(" 401 ") && text.contains(" 404 "), "{net}: {text}");
        assert!(!text.contains(KEY), "{net}: {text}");
        let line = text.lines().find(|line| line.starts_with("OPENAI_API_KEY=sk-"));
        assert_eq!(line.map(str::len), Some("OPENAI_API_KEY=sk-".len() + 48), "{net}: {text}");
        let log = &outcome.stderr;
        assert!(log.contains("aifo adds the key of openai outside"), "{net}: {log}");
        assert!(log.contains("1 request to models, "), "{net}: {log}");
        assert!(log.contains("3 tokens of prompts, 4 tokens of answers"), "{net}: {log}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_limit_and_a_key_that_is_passed() {
    let Some(engine) = Engine::of_run("a_limit_and_a_key_that_is_passed") else { return };
    let Some(server) = ModelServer::start("a_limit_and_a_key_that_is_passed") else { return };
    let containers = ContainerSetup::of(&engine).kind("c-cpp");
    let twice = "for n in 1 2; do ask \"$OPENAI_API_KEY\" $base/chat/completions; done";
    let outcome = Outcome::of(&mut run(&containers, &server, &["--max-requests", "1"], twice));
    let text = outcome.exited(0).text();
    assert!(text.contains("\"right_key\": true") && text.contains(" 429 "), "{text}");
    assert!(text.contains("insufficient_quota") && text.contains("--max-requests"), "{text}");
    let body = "ask \"$OPENAI_API_KEY\" $base/chat/completions";
    for (options, expected) in [
        (&["--max-tokens", "9"][..], ""),
        (&["--max-tokens", "9", "--keys", "pass"], "aifo adds no key"),
        (&["--max-tokens", "9", "--net", "host"], "aifo adds no key"),
        (&["--max-requests", "9", "--keys", "pass"], "aifo adds no key"),
    ] {
        let outcome = Outcome::of(&mut run(&containers, &server, options, body));
        if expected.is_empty() {
            assert!(outcome.exited(0).text().contains("\"right_key\": true"), "{options:?}");
            continue;
        }
        assert_eq!(outcome.code(), Some(86), "{options:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains(expected) && outcome.stderr.contains("hint: "),
            "{outcome:?}"
        );
    }
    let login = containers.setup().scratch().join("home/.qwen/oauth_creds.json");
    fs::create_dir_all(login.parent().unwrap()).unwrap();
    fs::write(&login, "{\"access_token\": \"x\"}").unwrap();
    let outcome = Outcome::of(&mut run(&containers, &server, &["--max-tokens", "9"], body));
    assert!(outcome.stderr.contains("the login '~/.qwen/oauth_creds.json'"), "{outcome:?}");
    let print = "echo \"$OPENAI_API_KEY $OPENAI_BASE_URL\"";
    let outcome = Outcome::of(&mut run(&containers, &server, &["--keys", "pass"], print));
    assert_eq!(outcome.exited(0).text(), format!("{KEY} {}\n", server.url()));
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn sources_are_files_and_commands() {
    let Some(engine) = Engine::of_run("sources_are_files_and_commands") else { return };
    let Some(server) = ModelServer::start("sources_are_files_and_commands") else { return };
    let containers = ContainerSetup::of(&engine).kind("c-cpp");
    let scratch = containers.setup().scratch().to_owned();
    let config = scratch.join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    let secret = scratch.join("secret");
    write_script(scratch.join("print"), &format!("echo {KEY}"));
    write_executable(&secret, KEY, 0o600);
    let ask = "ask \"$OPENAI_API_KEY\" $base/chat/completions";
    for (source, answer) in [
        (format!("file = {secret:?}"), "\"right_key\": true"),
        (format!("command = [{:?}]", scratch.join("print")), "\"right_key\": true"),
        (format!("file = {:?}", scratch.join("absent")), "cannot read the key of 'openai'"),
    ] {
        let text = format!("[keys.openai]\nurl = {:?}\n{source}\n", server.url());
        fs::write(config.join("config.toml"), text).unwrap();
        let mut run = run(&containers, &server, &[], ask);
        run.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
        let text = Outcome::of(&mut run).exited(0).text();
        assert!(text.contains(answer), "{source}: {text}");
    }
}

/// The key is nowhere in what the agent and its tools are made of.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_census_does_not_find_the_key() {
    let Some(engine) = Engine::of_run("a_census_does_not_find_the_key") else { return };
    let Some(server) = ModelServer::start("a_census_does_not_find_the_key") else { return };
    if !nix_is_root() {
        eprintln!(
            "skipped: a_census_does_not_find_the_key: only root reads the memory of containers"
        );
        return;
    }
    let containers = ContainerSetup::of(&engine).kind("c-cpp");
    let workspace = containers.setup().workspace();
    fs::write(workspace.join("Makefile"), "all:\n\t@echo made; sleep 600\n").unwrap();
    let body = "ask \"$OPENAI_API_KEY\" $base/chat/completions > answer; make > made & \
        until [ -s made ]; do sleep 0.1; done; echo ready > ready; wait";
    let session = Running::start(&mut run(&containers, &server, &[], body));
    eventually("the agent has asked, and a tool runs", || workspace.join("ready").exists());
    let answer = fs::read_to_string(workspace.join("answer")).unwrap();
    assert!(answer.contains("\"right_key\": true"), "{answer}");
    let phantom = census::phantom(&engine, &containers);
    let found = census::places(&engine, &containers, KEY.as_bytes());
    assert_eq!(found, [""; 0], "the key is in these places");
    // The census finds what is there.
    let found = census::places(&engine, &containers, phantom.as_bytes());
    assert!(found.iter().any(|place| place.contains("environ")), "{found:?}");
    assert!(found.iter().any(|place| place.contains("memory")), "{found:?}");
    session.signal(Signal::SIGTERM);
    session.finish();
}

fn nix_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
