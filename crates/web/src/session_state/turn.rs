//! The content of a running turn on its way to entries.

use std::collections::BTreeMap;

use aifo_acp::{Channel, Image, Piece, PushOutcome, Streaming, Timeline, TimelineEntry};
use serde_json::Value;

use super::live_text::LiveText;
use super::{SessionState, StoreImage};
use crate::block::Block;
use crate::page_state::{PageState, Seq};

/// A turn. Its [`Timeline`] decides what a text is; this keeps what of it has become entries.
#[derive(Debug)]
pub(super) struct LiveTurn {
    timeline: Timeline,
    streaming: Streaming,
    /// Entries of the timeline that have become entries of the session.
    synced: usize,
    /// Texts that may still change, by their place in the timeline.
    texts: Vec<(usize, LiveText)>,
    pub(super) started: u64,
}

impl LiveTurn {
    pub(super) fn new(streaming: Streaming, started: u64) -> Self {
        let timeline = Timeline::new(streaming, MAX_BYTES);
        LiveTurn { timeline, streaming, synced: 0, texts: Vec::new(), started }
    }

    pub(super) fn push(&mut self, channel: Channel, message_id: Option<&str>, piece: Piece<'_>) {
        // The prompt is an entry already.
        if channel != Channel::User {
            let (PushOutcome::Stored | PushOutcome::Dropped) =
                self.timeline.push(channel, message_id, piece);
        }
    }

    pub(super) fn push_tool(&mut self, id: &str) {
        let (PushOutcome::Stored | PushOutcome::Dropped) = self.timeline.push_tool(id);
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        self.timeline.tools()
    }

    /// Adds new entries to the session and updates its texts.
    pub(super) fn sync(&mut self, state: &mut SessionState, store: StoreImage<'_>) {
        let entries = self.timeline.entries();
        for (at, entry) in entries.iter().enumerate().skip(self.synced) {
            match entry {
                TimelineEntry::Text(run) => {
                    let thought = run.channel == Channel::Thought;
                    let number = state.push(Block::Text { thought, text: String::new() });
                    self.texts.push((at, LiveText::new(number, thought)));
                }
                TimelineEntry::Block { channel: Channel::Answer, block } => {
                    state.push(other_block(block, &mut *store));
                }
                // The state adds tool calls with their content.
                TimelineEntry::Block { .. } => {}
                TimelineEntry::Tool { id } => state.add_call(id),
            }
        }
        self.synced = entries.len();
        let last = entries.len().saturating_sub(1);
        for (at, text) in &mut self.texts {
            if let Some(TimelineEntry::Text(run)) = entries.get(*at) {
                text.update(run.text(self.streaming), self.streaming, state, &mut *store);
            }
        }
        // With snapshots an earlier message may still be replaced.
        if self.streaming == Streaming::Delta {
            let (done, live) =
                std::mem::take(&mut self.texts).into_iter().partition(|(at, _)| *at < last);
            self.texts = live;
            let done: Vec<(usize, LiveText)> = done;
            done.into_iter().for_each(|(_, text)| text.finish(state, &mut *store));
        }
    }

    /// Shows the texts that have changed.
    pub(super) fn show(
        &mut self,
        entries: &BTreeMap<u64, Block>,
        page: &mut PageState,
        seq: &mut Seq,
    ) {
        for (_, live) in &mut self.texts {
            if let Some(Block::Text { text, .. }) = entries.get(&live.number()) {
                live.show(text, page, seq);
            }
        }
    }

    /// Finishes all texts.
    pub(super) fn finish(&mut self, state: &mut SessionState, store: StoreImage<'_>) {
        self.sync(state, &mut *store);
        self.texts.drain(..).for_each(|(_, text)| text.finish(state, &mut *store));
    }

    pub(super) fn flush_delay_ms(&self) -> u64 {
        let longest = self.texts.iter().map(|(_, text)| text.live_len()).max().unwrap_or_default();
        let by_length = u64::try_from(longest / 2048).unwrap_or(u64::MAX);
        by_length.saturating_add(super::MIN_DELAY_MS).min(1000)
    }
}

fn other_block(block: &Value, store: StoreImage<'_>) -> Block {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = text("type").to_owned();
    if let Some(name) = Image::of_block(block, super::IMAGE).and_then(store) {
        return Block::Image { name };
    }
    let resource = block.get("resource").unwrap_or(&Value::Null);
    let inner = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default();
    let words = [text("name"), text("uri"), inner("uri"), inner("text"), text("mimeType")];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let text = words.join(" ").chars().take(4000).collect();
    Block::Other { kind, text }
}

/// Memory of a turn's content.
const MAX_BYTES: usize = 64 * 1024 * 1024;
