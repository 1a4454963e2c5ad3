//! What the model does, turn by turn, and which turn is next.

use serde_json::Value;

use super::ToolResult;
use super::report;
use super::tools::suggestion;

/// What a model does. Each turn waits for the one before it to be answered.
///
/// When the last turn is over, the model has nothing but its last words to say.
#[derive(Clone, Debug, Default)]
pub struct Script {
    turns: Vec<Turn>,
}

/// One answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Turn {
    /// Has a command run by the agent's shell tool.
    Shell(String),
    /// Has one of the agent's tools called, whatever it does, by its name and with these arguments.
    Call(String, Value),
    /// Says something, which ends the agent's work until its user speaks again.
    Say(String),
}

/// A part of the conversation, as an agent sends it along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// The user, or the agent in the user's name.
    Heard(String),
    /// The model.
    Said(String),
    /// What became of a tool call.
    Reported(String),
}

/// Where a conversation has got to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place<'a> {
    /// What was reported of the commands so far.
    pub(super) results: Vec<ToolResult>,
    /// What is next, with its number from 0.
    pub(super) next: Next<'a>,
}

/// What the model does now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<'a> {
    /// A turn of the script, by its number.
    Turn(usize, &'a Turn),
    /// The command of that turn goes on in a session of the agent's, and has to be waited for.
    Wait { turn: usize, session: u64, polls: usize },
    /// The script is over.
    Over,
}

impl Script {
    /// A model that has nothing to do.
    pub fn new() -> Self {
        Script::default()
    }

    /// Then it has a command run, as one string for a shell. It may have several lines.
    ///
    /// Not every agent takes every command: gemini refuses whatever has `$(` in it, and openhands types
    /// all of them into one shell, which `exit` would end.
    #[must_use]
    pub fn shell(mut self, command: impl Into<String>) -> Self {
        self.turns.push(Turn::Shell(command.into()));
        self
    }

    /// Then it has a tool of that agent's called, which has to know these arguments.
    #[must_use]
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.turns.push(Turn::Call(tool.into(), arguments));
        self
    }

    /// Then it says something, and leaves it to the user to go on.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.turns.push(Turn::Say(text.into()));
        self
    }

    /// How many commands it has run.
    pub(super) fn commands(&self) -> usize {
        self.commands_up_to(usize::MAX)
    }

    /// How many commands it has run when that turn has come, from 0.
    pub(super) fn commands_up_to(&self, turn: usize) -> usize {
        let turns = self.turns.iter().take(turn.saturating_add(1));
        turns.filter(|turn| !matches!(turn, Turn::Say(_))).count()
    }

    /// The number of the last turn, if there is any.
    pub(super) fn last(&self) -> Option<usize> {
        self.turns.len().checked_sub(1)
    }

    /// What it said last of all, or would.
    pub(super) fn last_words(&self) -> &str {
        let said = self.turns.iter().rev().find_map(|turn| match turn {
            Turn::Say(text) => Some(text.as_str()),
            Turn::Shell(_) | Turn::Call(..) => None,
        });
        said.unwrap_or("There is nothing left to do.")
    }

    /// Follows a conversation through the script.
    pub(super) fn place(&self, conversation: &[Past]) -> Place<'_> {
        let mut results = Vec::new();
        let mut turns = self.turns.iter().enumerate();
        let mut turn = turns.next();
        // What has come of the current command, where an agent reports it bit by bit.
        let mut bits = Vec::new();
        let mut suggested = false;
        for past in conversation {
            let Some((_, current)) = turn else { break };
            match (current, past) {
                (Turn::Shell(_), Past::Said(said)) if said.contains(&suggestion(current)) => {
                    suggested = true;
                    continue;
                }
                (Turn::Shell(command), Past::Heard(text)) if suggested => {
                    results.push(ToolResult::suggested(command, text));
                }
                (Turn::Shell(command) | Turn::Call(command, _), Past::Reported(report)) => {
                    bits.push(report.as_str());
                    if report::running(report).is_some() {
                        continue;
                    }
                    results.push(ToolResult::reported(command, &bits));
                }
                (Turn::Say(text), Past::Said(said)) if said.contains(text.trim()) => {}
                _ => continue,
            }
            (bits, suggested, turn) = (Vec::new(), false, turns.next());
        }
        let session = bits.last().and_then(|bit| report::running(bit));
        let next = match (turn, session) {
            (Some((turn, _)), Some(session)) => Next::Wait { turn, session, polls: bits.len() },
            (Some((number, turn)), None) => Next::Turn(number, turn),
            (None, _) => Next::Over,
        };
        Place { results, next }
    }
}
