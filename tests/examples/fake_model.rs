//! A scripted model for manual use: prints its address and all requests, and can start an agent.
//!
//! ```text
//! cargo run -p aifo-tests --example fake_model -- [--listen ADDR] [--agent NAME] [--home DIR]
//!     [--raw FILE] {--shell COMMAND | --say TEXT}.. [-- BEFORE THE AGENTS COMMAND]
//! ```
//!
//! The agent is found in PATH and gets DIR as its HOME. On a terminal its user talks to the model;
//! otherwise it runs one task. FILE gets the bodies of all requests, one per line.

use std::error::Error;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use aifo_tests::model::{Agent, FakeModel, Script, Start};

fn main() -> Result<(), Box<dyn Error>> {
    let mut script = Script::new();
    let mut listen = "127.0.0.1:0".to_owned();
    let (mut agent, mut before, mut raw) = (None, Vec::new(), None);
    let mut home = PathBuf::from("/tmp/fake-model-home");
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        if flag == "--" {
            before = args.collect();
            break;
        }
        let value = args.next().ok_or_else(|| format!("'{flag}' needs a value"))?;
        match flag.as_str() {
            "--shell" => script = script.shell(value),
            "--say" => script = script.say(value),
            "--listen" => listen = value,
            "--home" => home = value.into(),
            "--raw" => raw = Some(value),
            "--agent" => {
                let named = Agent::ALL.into_iter().find(|agent| agent.name() == value);
                agent = Some(named.ok_or_else(|| format!("unknown agent '{value}'"))?);
            }
            other => return Err(format!("unknown flag '{other}'").into()),
        }
    }
    let model = FakeModel::bind(listen.parse()?, script)?;
    eprintln!("model: {}", model.url());
    let Some(agent) = agent else {
        loop {
            thread::park();
        }
    };
    let start = match std::io::stdin().is_terminal() {
        true => agent.interactive(&model.url()),
        false => agent.headless(&model.url(), model.script()),
    };
    let status = run(&start, &home, &before)?;
    eprintln!("{} ended with {status}", agent.name());
    for asked in model.requests() {
        eprintln!("{} {} {}: {:?}", asked.status, asked.method, asked.target, asked.replied);
    }
    for result in model.results() {
        eprintln!("{:?} -> {:?}\n{}", result.command, result.exit, result.output);
    }
    if let Some(raw) = raw {
        let bodies: Vec<_> = model.requests().iter().map(|asked| asked.body.to_string()).collect();
        fs::write(raw, bodies.join("\n"))?;
    }
    Ok(())
}

fn run(agent: &Start, home: &Path, before: &[String]) -> Result<String, Box<dyn Error>> {
    for (path, text) in &agent.files {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap_or(home))?;
        fs::write(path, text)?;
    }
    let words: Vec<_> = before.iter().chain(&agent.command).collect();
    let (program, args) = words.split_first().ok_or("an agent has a command")?;
    let mut command = Command::new(program);
    command.args(args).env("HOME", home);
    if !std::io::stdin().is_terminal() {
        command.stdin(Stdio::piped());
    }
    command.envs(agent.environment.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // An agent that does not read may have ended.
        let _ = stdin.write_all(agent.stdin.as_bytes());
    }
    Ok(child.wait()?.to_string())
}
