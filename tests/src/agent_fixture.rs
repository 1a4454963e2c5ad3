//! The fixture of a real agent: its image, its sidecars, and a scripted model.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::model::{Agent, FakeModel, Script, Start};
use crate::{ContainerSetup, Engine, processes_using};

/// The fixture of one agent, with an empty workspace.
#[derive(Debug)]
pub struct AgentFixture {
    /// The session options.
    pub containers: ContainerSetup,
    /// The agent.
    pub agent: Agent,
    engine: Engine,
    /// The port of its model.
    port: Cell<Option<u16>>,
}

impl AgentFixture {
    /// One fixture, with these sidecars, for each agent in `AIFO_TEST_AGENTS` (default: all). An
    /// agent without an image is reported as skipped.
    pub fn of_run(test: &str, kinds: &[&str]) -> Vec<Self> {
        let Some(engine) = Engine::of_run(test) else { return Vec::new() };
        let wanted = std::env::var("AIFO_TEST_AGENTS").unwrap_or_default();
        let wanted = |agent: &Agent| {
            let mut names = wanted.split(',').filter(|name| !name.is_empty()).peekable();
            names.peek().is_none() || names.any(|name| name == agent.name())
        };
        let ready = |agent: &Agent| {
            let image = format!("aifo-agent-{}:latest", agent.name());
            let known = engine.command(["image", "inspect", &image]).output();
            let is_ready = known.is_ok_and(|known| known.status.success());
            if !is_ready {
                let build = format!("aifo-coder images build {}", agent.name());
                // A closed stderr does not matter.
                let _ = writeln!(std::io::stderr(), "skipped: {test}: {}: {build}", agent.name());
            }
            is_ready
        };
        let agents = Agent::ALL.into_iter().filter(wanted).filter(ready);
        agents.map(|agent| AgentFixture::new(&engine, agent, kinds)).collect()
    }

    fn new(engine: &Engine, agent: Agent, kinds: &[&str]) -> Self {
        let containers =
            kinds.iter().fold(ContainerSetup::of(engine), |containers, kind| containers.kind(kind));
        AgentFixture { containers, agent, engine: engine.clone(), port: Cell::new(None) }
    }

    /// The agent name.
    pub fn name(&self) -> &'static str {
        self.agent.name()
    }

    /// The project directory.
    pub fn workspace(&self) -> PathBuf {
        self.containers.setup().workspace()
    }

    /// A model on this machine's loopback, and its URL for the agent, which reaches it by name.
    pub fn model(&self, script: Script) -> (FakeModel, String) {
        let model = FakeModel::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script);
        let model = model.expect("a port is free");
        self.port.set(Some(model.address().port()));
        let url = model.url_at("model.test");
        (model, url)
    }

    /// Adds the agent variables and files, and allows it its model.
    #[must_use]
    pub fn configured(mut self, start: &Start) -> Self {
        if let Some(port) = self.port.get() {
            let rule = format!("agent=model.test:{port} address=127.0.0.1");
            self.containers = self.containers.flag("--allow-net", &rule);
        }
        for (name, value) in &start.environment {
            self.containers = self.containers.env(&format!("AIFO_ENV_{name}"), value);
        }
        let home = self.containers.setup().scratch().join("home");
        for (path, text) in &start.files {
            let file = home.join(path);
            fs::create_dir_all(file.parent().expect("it is below HOME")).expect("HOME is writable");
            fs::write(file, text).expect("HOME is writable");
        }
        self
    }

    /// A subcommand of `aifo-coder` with the session options.
    pub fn command(&self, verb: &str) -> Command {
        self.containers.command(verb)
    }

    /// The logged calls of all sessions.
    pub fn calls(&self) -> Vec<Value> {
        let logs = self.logs().into_iter();
        let texts = logs.map(|log| fs::read_to_string(log).expect("a log is text"));
        let lines: Vec<_> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let records = lines.iter().map(|line| serde_json::from_str(line).expect("a line is JSON"));
        // The others are messages.
        records.filter(|record: &Value| record["tool"].is_string()).collect()
    }

    /// The log files, one per session.
    fn logs(&self) -> Vec<PathBuf> {
        let dir = self.containers.setup().scratch().join("home/.local/state/aifo/log");
        let logs = fs::read_dir(dir).into_iter().flatten().flatten();
        logs.map(|log| log.path()).collect()
    }

    /// The remaining containers and networks of its sessions.
    pub fn left(&self) -> Vec<String> {
        self.engine.all_of(self.containers.setup().scratch())
    }

    /// Panics if containers, networks, processes or directories of its sessions remain.
    #[track_caller]
    pub fn assert_clean(&self) {
        let name = self.name();
        assert_eq!(self.left(), [""; 0], "{name}");
        let scratch = self.containers.setup().scratch();
        let processes = processes_using(scratch);
        assert!(processes.is_empty(), "{name}: {processes:?}");
        let dirs = fs::read_dir(self.containers.setup().runtime())
            .expect("the runtime directory is readable");
        let dirs = dirs.flatten().map(|dir| dir.file_name());
        let dirs: Vec<_> = dirs.filter(|dir| dir.to_string_lossy().starts_with("aifo-")).collect();
        assert!(dirs.is_empty(), "{name}: {dirs:?}");
        for log in self.logs() {
            let id = log.file_stem().unwrap_or_default().to_string_lossy();
            let tmp = PathBuf::from(format!("/var/tmp/aifo-{id}-tmp"));
            assert!(!tmp.exists(), "{name}: {}", tmp.display());
        }
    }
}
