//! Restores a session from its journal.

use super::{INTERRUPTED, SessionState};
use crate::block::Block;
use crate::history::{Op, SessionFacts};
use crate::page_state::Seq;

impl SessionState {
    /// Restores a session from its journal. Ends the entries that an earlier server left open.
    pub(crate) fn restore(
        ops: impl IntoIterator<Item = Op>,
        max_weight: usize,
        now: Seq,
        time: u64,
    ) -> Self {
        let mut state = SessionState::empty(SessionFacts::default(), max_weight, now);
        let mut was_in_turn = false;
        for op in ops {
            if let Op::Put(_, block) = &op {
                match block {
                    Block::Prompt { .. } => was_in_turn = true,
                    Block::TurnEnd { .. } => was_in_turn = false,
                    _ => {}
                }
            }
            state.replay(op);
        }
        let mut changed = Vec::new();
        for (number, block) in &mut state.entries {
            if block.interrupt(INTERRUPTED, time) {
                changed.push((*number, block.clone()));
            }
        }
        state.ops.extend(changed.into_iter().map(|(number, block)| Op::Put(number, block)));
        if was_in_turn {
            let text = "the turn was interrupted: aifo-coder web was stopped".to_owned();
            state.push(Block::TurnEnd {
                outcome: "interrupted".to_owned(),
                error: Some(text),
                usage: None,
                time,
                millis: 0,
            });
        }
        state.dirty = state.entries.keys().copied().collect();
        state
    }

    /// Applies an operation of the journal.
    pub(super) fn replay(&mut self, op: Op) {
        match op {
            Op::Facts(facts) => self.facts = facts,
            Op::Put(number, block) => {
                self.next = self.next.max(number.saturating_add(1));
                match &block {
                    Block::Question(question) => {
                        _ = self.questions.insert(question.id.clone(), number);
                    }
                    Block::Tool(call) => _ = self.calls.insert(call.id.clone(), number),
                    _ => {}
                }
                self.weight = self.weight.saturating_add(block.weight());
                if let Some(old) = self.entries.insert(number, block) {
                    self.weight = self.weight.saturating_sub(old.weight());
                }
            }
            Op::Text(number, at, more) => {
                if let Some(Block::Text { text, .. }) = self.entries.get_mut(&number) {
                    self.weight = self.weight.saturating_sub(text.len());
                    text.truncate(text.floor_char_boundary(at));
                    text.push_str(&more);
                    self.weight = self.weight.saturating_add(text.len());
                }
            }
            Op::Remove(number) => {
                if let Some(old) = self.entries.remove(&number) {
                    self.weight = self.weight.saturating_sub(old.weight());
                }
            }
            Op::Plan(plan) => self.plan = plan,
            Op::Usage(usage) => self.usage = usage,
        }
    }
}
