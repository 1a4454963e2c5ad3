//! Calls of the session's log, beside the tool calls that caused them.

use super::SessionState;
use crate::block::{Block, ToolRun};

impl SessionState {
    /// Returns the tool call that ran at a time, if it was the only one.
    pub(crate) fn only_call_at(&self, time: u64) -> Option<String> {
        let mut running = self.entries.values().filter_map(|block| match block {
            Block::Tool(call)
                if call.started <= time.saturating_add(CLOCK_SLACK)
                    && call.ended.is_none_or(|end| end.saturating_add(CLOCK_SLACK) >= time) =>
            {
                Some(call.id.clone())
            }
            _ => None,
        });
        let only = running.next()?;
        running.next().is_none().then_some(only)
    }

    /// Adds a call of the log to a tool call.
    pub(crate) fn add_run(&mut self, call: &str, run: ToolRun) {
        let Some(number) = self.calls.get(call).copied() else { return };
        if let Some(Block::Tool(block)) = self.entries.get(&number)
            && block.runs.len() < MOST_RUNS
        {
            let mut block = block.clone();
            block.runs.push(run);
            self.put(number, Block::Tool(block));
        }
    }
}

/// Calls of the log that one tool call shows.
const MOST_RUNS: usize = 50;
/// Difference between the times of log and page, in milliseconds.
const CLOCK_SLACK: u64 = 50;
