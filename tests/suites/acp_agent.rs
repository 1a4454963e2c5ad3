//! `aifo-coder prompt` with an agent that misbehaves as real agents do: the turn has the correct
//! result, and no agent process is left.

mod answers;
mod calls;
mod cancelling;
mod editor;
mod endings;
mod hosts;
mod lines;
mod log;
mod login;
mod memory;
mod refusals;
mod requests;
mod rules;
mod sessions;
mod terminal;

use std::process::Command;

use aifo_tests::acp_agent::{AcpAgent, Script};
use aifo_tests::{Outcome, SessionSetup};
use serde_json::Value;

/// An agent and its setup.
struct PromptTest {
    setup: SessionSetup,
    agent: AcpAgent,
}

/// The result of a prompt with `--format json`.
#[derive(Debug)]
struct PromptResult {
    outcome: Outcome,
    reports: Vec<Value>,
}

impl PromptTest {
    fn with(script: &Script) -> Self {
        PromptTest { setup: SessionSetup::new(), agent: AcpAgent::new(script) }
    }

    /// `aifo-coder prompt` with this agent, no sidecars, and reports on stdout.
    fn prompt(&self, options: &[&str]) -> Command {
        self.prompt_as("json", options)
    }

    fn prompt_as(&self, format: &str, options: &[&str]) -> Command {
        let mut prompt = self.setup.coder();
        prompt.args(["prompt", "--backend", "local", "--format", format]);
        prompt.args(["--agent-command", &self.agent.command_line()]).args(options).arg("hello");
        prompt
    }

    /// Runs the prompt to its end. Checks that no agent process is left.
    #[track_caller]
    fn ask(&self, options: &[&str]) -> PromptResult {
        self.result(Outcome::of(&mut self.prompt(options)))
    }

    #[track_caller]
    fn result(&self, outcome: Outcome) -> PromptResult {
        let result = PromptResult::of(outcome);
        assert_eq!(self.agent.alive(), [0; 0], "{result:?}");
        result
    }
}

impl PromptResult {
    #[track_caller]
    fn of(outcome: Outcome) -> Self {
        let text = outcome.text();
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?} in {outcome:?}"))
        };
        let reports: Vec<Value> = text.lines().map(parse).collect();
        PromptResult { outcome, reports }
    }

    /// The reports of a type, in order.
    fn all(&self, name: &str) -> Vec<&Value> {
        self.reports.iter().filter(|report| report["type"] == name).collect()
    }

    /// The last report. Panics unless it is the only one of type `final`.
    #[track_caller]
    fn end(&self) -> &Value {
        let ends = self.all("final");
        assert_eq!(ends.len(), 1, "{self:?}");
        assert_eq!(self.reports.last(), Some(ends[0]), "nothing comes after it");
        ends[0]
    }

    /// Panics unless the turn succeeded with this answer.
    #[track_caller]
    fn answered(&self, text: &str) -> &Self {
        let end = self.end();
        assert_eq!(
            (&end["text"], &end["stop_reason"]),
            (&text.into(), &"end_turn".into()),
            "{self:?}"
        );
        self.outcome.exited(0);
        self
    }

    /// Panics unless the agent failed with an error that contains all of `words`.
    #[track_caller]
    fn failed(&self, words: &[&str]) -> &Self {
        self.end();
        self.outcome.exited(1);
        for word in words {
            assert!(self.outcome.stderr.contains(word), "no {word:?} in {self:?}");
        }
        self
    }
}

/// The conforming agent with this turn.
fn turn(steps: impl Into<Vec<aifo_tests::Step>>) -> Script {
    Script::conforming().on("session/prompt", steps)
}
