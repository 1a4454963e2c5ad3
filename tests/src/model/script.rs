//! The model's turns, and which turn is next.

use serde_json::Value;

use super::ToolResult;
use super::report;
use super::tools::suggestion;

/// The turns of a model. Each turn waits for the report of the one before it.
///
/// After the last turn, the model repeats its last text.
#[derive(Clone, Debug, Default)]
pub struct Script {
    turns: Vec<Turn>,
}

/// One reply of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Turn {
    /// Runs a command with the agent's shell tool.
    Shell(String),
    /// Calls one of the agent tools by name, with these arguments.
    Call(String, Value),
    /// Sends a text, which ends the agent's work until its user speaks again.
    Say(String),
}

/// A part of the conversation in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// From the user, or from the agent in the user's name.
    User(String),
    /// From the model.
    Model(String),
    /// The result of a tool call.
    ToolReport(String),
}

/// The position of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Position<'a> {
    /// The reports of the commands so far.
    pub(super) results: Vec<ToolResult>,
    /// The next action.
    pub(super) next: Next<'a>,
}

/// The model's next action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<'a> {
    /// A turn of the script, by its number from 0.
    Turn(usize, &'a Turn),
    /// Waits for that turn's command, which continues in a session of the agent.
    Wait { turn: usize, session: u64, polls: usize },
    /// The script is over.
    Over,
}

impl Script {
    /// An empty script.
    pub fn new() -> Self {
        Script::default()
    }

    /// Adds a shell command, which may have several lines.
    ///
    /// Not every agent accepts every command: gemini rejects `$(`, and openhands types all of them
    /// into one shell, which `exit` would end.
    #[must_use]
    pub fn shell(mut self, command: impl Into<String>) -> Self {
        self.turns.push(Turn::Shell(command.into()));
        self
    }

    /// Adds a call of an agent's tool, which must accept these arguments.
    #[must_use]
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.turns.push(Turn::Call(tool.into(), arguments));
        self
    }

    /// Adds a text, after which the user must continue.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.turns.push(Turn::Say(text.into()));
        self
    }

    /// The number of commands.
    pub(super) fn commands(&self) -> usize {
        self.commands_up_to(usize::MAX)
    }

    /// The number of commands before a turn, from 0.
    pub(super) fn commands_up_to(&self, turn: usize) -> usize {
        let turns = self.turns.iter().take(turn.saturating_add(1));
        turns.filter(|turn| !matches!(turn, Turn::Say(_))).count()
    }

    /// The number of the last turn, if there is any.
    pub(super) fn last(&self) -> Option<usize> {
        self.turns.len().checked_sub(1)
    }

    /// The last text.
    pub(super) fn last_words(&self) -> &str {
        let said = self.turns.iter().rev().find_map(|turn| match turn {
            Turn::Say(text) => Some(text.as_str()),
            Turn::Shell(_) | Turn::Call(..) => None,
        });
        said.unwrap_or("There is nothing left to do.")
    }

    /// Finds a conversation's position in the script.
    pub(super) fn position(&self, conversation: &[Message]) -> Position<'_> {
        let mut results = Vec::new();
        let mut turns = self.turns.iter().enumerate();
        let mut turn = turns.next();
        // The parts of the current command's report.
        let mut parts = Vec::new();
        let mut is_suggestion = false;
        for message in conversation {
            let Some((_, current)) = turn else { break };
            match (current, message) {
                (Turn::Shell(command), Message::Model(said))
                    if said.contains(&suggestion(command)) =>
                {
                    is_suggestion = true;
                    continue;
                }
                (Turn::Shell(command), Message::User(text)) if is_suggestion => {
                    results.push(ToolResult::from_user_text(command, text));
                }
                (Turn::Shell(command) | Turn::Call(command, _), Message::ToolReport(report)) => {
                    parts.push(report.as_str());
                    if report::running(report).is_some() {
                        continue;
                    }
                    results.push(ToolResult::from_reports(command, &parts));
                }
                (Turn::Say(text), Message::Model(said)) if said.contains(text.trim()) => {}
                _ => continue,
            }
            (parts, is_suggestion, turn) = (Vec::new(), false, turns.next());
        }
        let session = parts.last().and_then(|bit| report::running(bit));
        let next = match (turn, session) {
            (Some((turn, _)), Some(session)) => Next::Wait { turn, session, polls: parts.len() },
            (Some((number, turn)), None) => Next::Turn(number, turn),
            (None, _) => Next::Over,
        };
        Position { results, next }
    }
}
