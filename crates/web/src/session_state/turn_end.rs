//! The end of a turn.

use aifo_acp::{CancelCause, ToolCalls, TurnEnd};

use super::{Activity, SessionState, StoreImage, usage_text};
use crate::block::Block;

impl SessionState {
    /// Ends the turn.
    pub(crate) fn end_turn(
        &mut self,
        end: &TurnEnd,
        tools: Option<&ToolCalls>,
        time: u64,
        store: StoreImage<'_>,
    ) {
        let (outcome, error) = match &end.outcome {
            Ok(reason) => (reason.word().replace('_', " "), None),
            Err(failure) => ("failed".to_owned(), Some(failure.to_string())),
        };
        let outcome = match end.cancelled {
            Some(CancelCause::Requested) => "cancelled".to_owned(),
            Some(cause) => format!("cancelled: {}", cause.word().replace('_', " ")),
            None => outcome,
        };
        let usage = end.response.get("usage").map(usage_text).filter(|text| !text.is_empty());
        self.finish_turn(tools, store, time, |millis| Block::TurnEnd {
            outcome,
            error: error.filter(|_| end.cancelled.is_none()),
            usage,
            time,
            millis,
        });
    }

    /// Ends the turn for a reason that is not the agent's.
    pub(crate) fn fail_turn(&mut self, error: &str, time: u64, store: StoreImage<'_>) {
        let error = Some(error.to_owned());
        self.finish_turn(None, store, time, |millis| Block::TurnEnd {
            outcome: "failed".to_owned(),
            error,
            usage: None,
            time,
            millis,
        });
    }

    fn finish_turn(
        &mut self,
        tools: Option<&ToolCalls>,
        store: StoreImage<'_>,
        time: u64,
        block: impl FnOnce(u64) -> Block,
    ) {
        let tools_of_turn = self.turn.iter().flat_map(|turn| turn.tools());
        for call in tools_of_turn.map(str::to_owned).collect::<Vec<_>>() {
            self.note_change(&call);
        }
        self.sync(tools, &mut *store);
        let started = self.turn.as_ref().map_or(time, |turn| turn.started);
        if let Some(mut turn) = self.turn.take() {
            turn.finish(self, store);
        }
        for number in self.calls.values().copied().collect::<Vec<_>>() {
            if let Some(block @ Block::Tool(_)) = self.entries.get(&number) {
                let mut block = block.clone();
                if block.interrupt("", time) {
                    self.put(number, block);
                }
            }
        }
        self.push(block(time.saturating_sub(started)));
        self.set_facts(|facts| facts.changed = time);
        self.set_activity(Activity::Idle);
    }
}
