//! Calls of the session log, beside the tool calls that caused them.

use super::SessionState;
use crate::block::{Block, ToolBlock, ToolRun};

impl SessionState {
    /// Returns the tool call that ran at a time, if it was the only one. If none did, the only one
    /// that was reported soon after: some agents report a call late.
    pub(crate) fn only_call_at(&self, time: u64) -> Option<String> {
        let ran = |call: &ToolBlock| {
            call.started <= time.saturating_add(CLOCK_SLACK)
                && call.ended.is_none_or(|end| end.saturating_add(CLOCK_SLACK) >= time)
        };
        let began_later =
            |call: &ToolBlock| (time..time.saturating_add(REPORT_DELAY)).contains(&call.started);
        match &*self.calls_where(ran) {
            [only] => Some(only.id.clone()),
            [] => match &*self.calls_where(began_later) {
                [only] => Some(only.id.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    fn calls_where(&self, condition: impl Fn(&ToolBlock) -> bool) -> Vec<&ToolBlock> {
        let calls = self.entries.values().filter_map(|block| match block {
            Block::Tool(call) => Some(&**call),
            _ => None,
        });
        calls.filter(|call| condition(call)).collect()
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
/// How much later than its run an agent may report a call, in milliseconds.
const REPORT_DELAY: u64 = 1_000;
