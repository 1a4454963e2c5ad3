//! `aifo-coder web` with a scripted agent, and browsers as plain HTTP clients.

mod access;
mod another_user;
mod attention;
mod limits;
mod load;
mod origin;
mod restart;
mod resume;
mod turns;
mod typed;
mod watch;

use std::process::Command;

use aifo_tests::{AcpAgent, Script, SessionSetup, Step, WebServer};
use serde_json::{Value, json};

/// An agent, its setup and a server port.
pub(crate) struct WebTest {
    pub(crate) setup: SessionSetup,
    pub(crate) agent: AcpAgent,
    pub(crate) port: u16,
}

impl WebTest {
    pub(crate) fn with(script: &Script) -> Self {
        WebTest {
            setup: SessionSetup::new(),
            agent: AcpAgent::new(script),
            port: aifo_tests::free_port(),
        }
    }

    /// Writes `[web]` of the user's file.
    pub(crate) fn configure(&self, web: &str) {
        let directory = self.setup.scratch().join("home/.config/aifo");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), format!("[web]\n{web}\n")).unwrap();
    }

    /// `web --watch`.
    pub(crate) fn watch_command(&self) -> Command {
        let mut watch = self.setup.coder();
        watch.args(["web", "--watch", "--quiet"]);
        watch.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        watch
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = self.command_without_agent();
        command.args(["--agent-command", &self.agent.command_line()]);
        command
    }

    fn command_without_agent(&self) -> Command {
        let mut command = self.setup.coder();
        command.args(["web", "--backend", "local", "--quiet"]);
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command
    }

    #[track_caller]
    pub(crate) fn start(&self) -> WebServer {
        WebServer::start(&mut self.command())
    }

    /// Starts the server with another agent.
    #[track_caller]
    pub(crate) fn start_with_agent(&self, agent: &str) -> WebServer {
        WebServer::start(self.command_without_agent().args(["--agent-command", agent]))
    }
}

/// The conforming agent with this turn.
pub(crate) fn turn(steps: impl Into<Vec<Step>>) -> Script {
    Script::conforming().on("session/prompt", steps)
}

/// A turn that waits for permission.
pub(crate) fn waiting_turn() -> Script {
    turn([
        Step::say("half of a sentence"),
        Step::ask(7, "session/request_permission", Step::permission(call("make"))),
        Step::stop("end_turn"),
    ])
}

/// A call that needs permission.
pub(crate) fn call(command: &str) -> Value {
    json!({"toolCallId": "t", "title": "a command", "kind": "execute",
        "rawInput": {"command": command, "cwd": "/workspace/sub"}})
}

/// A generator of numbers that look random and repeat from run to run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A number from 0 to before the end.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
