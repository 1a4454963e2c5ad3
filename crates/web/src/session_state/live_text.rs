//! A text of the agent while it grows.

use aifo_acp::Streaming;

use super::{SessionState, StoreImage, hide_from, piece_key};
use crate::block::Block;
use crate::history::Op;
use crate::markdown::{self, RenderedBlock};
use crate::page_state::{PageState, Seq};
use crate::view;

/// A growing text. Its finished blocks are rendered once; only the rest is rendered again.
#[derive(Debug)]
pub(super) struct LiveText {
    number: u64,
    thought: bool,
    /// Bytes of the received text that belong to finished blocks.
    finished: usize,
    /// Bytes of the entry's text that belong to them: images are replaced there.
    kept: usize,
    /// Finished blocks that are not shown yet.
    new: Vec<String>,
    /// Finished blocks that are shown.
    shown: usize,
    /// The rest.
    rest: Vec<RenderedBlock>,
    /// The length of the rest.
    rest_len: usize,
    /// The length of the received text when it was rendered.
    seen: usize,
    is_changed: bool,
}

impl LiveText {
    pub(super) fn new(number: u64, thought: bool) -> Self {
        LiveText {
            number,
            thought,
            finished: 0,
            kept: 0,
            new: Vec::new(),
            shown: 0,
            rest: Vec::new(),
            rest_len: 0,
            seen: 0,
            is_changed: false,
        }
    }

    /// Takes the text so far.
    pub(super) fn update(
        &mut self,
        text: &str,
        streaming: Streaming,
        state: &mut SessionState,
        store: StoreImage<'_>,
    ) {
        if streaming == Streaming::Delta && text.len() == self.seen {
            return;
        }
        if streaming != Streaming::Delta && self.seen > 0 && state.text(self.number) == text {
            return;
        }
        self.seen = text.len();
        let Some(tail) = text.get(self.finished..) else { return };
        let blocks = match self.thought {
            true => Vec::new(),
            false => markdown::render(tail),
        };
        // A snapshot may replace all of it.
        let done = match streaming {
            Streaming::Delta => markdown::finished(tail, &blocks),
            Streaming::Snapshot | Streaming::Auto => 0,
        };
        let end = blocks.iter().take(done).next_back().map_or(0, |block| block.end);
        let (source, rest) = tail.split_at(end);
        let mut written = String::new();
        let mut at = 0;
        for block in blocks.iter().take(done) {
            let piece = source.get(at..block.end).unwrap_or_default();
            at = block.end;
            match markdown::extract_images(piece, super::IMAGE, &mut *store) {
                None => {
                    written.push_str(piece);
                    self.new.push(block.html.clone());
                }
                Some(piece) => {
                    let html = markdown::render(&piece).into_iter().map(|block| block.html);
                    self.new.push(html.collect());
                    written.push_str(&piece);
                }
            }
        }
        self.finished = self.finished.saturating_add(end);
        self.rest = blocks.into_iter().skip(done).collect();
        self.rest_len = rest.len();
        self.is_changed = true;
        let kept = self.kept;
        self.kept = kept.saturating_add(written.len());
        written.push_str(rest);
        write(state, self.number, kept, &written);
    }

    /// Shows what has changed. `text` is the entry's.
    pub(super) fn show(&mut self, text: &str, page: &mut PageState, seq: &mut Seq) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        if self.thought {
            let end = text.ceil_char_boundary(text.len().saturating_sub(LIVE_THOUGHT));
            let blocks = markdown::render(text.get(end..).unwrap_or_default());
            let html: String = blocks.into_iter().map(|block| block.html).collect();
            let words = text.split_whitespace().count();
            page.put(seq, &piece_key(self.number, 0), view::thought(&html, words, true));
            return;
        }
        for html in self.new.drain(..) {
            page.put(seq, &piece_key(self.number, self.shown), view::text(false, &html));
            self.shown = self.shown.saturating_add(1);
        }
        for (index, block) in self.rest.iter().enumerate() {
            let key = piece_key(self.number, self.shown.saturating_add(index));
            page.put(seq, &key, view::text(false, &block.html));
        }
        hide_from(page, seq, self.number, self.shown.saturating_add(self.rest.len()));
    }

    /// Replaces images in the rest, and has the whole text rendered once more: a link's target may
    /// follow its use.
    pub(super) fn finish(self, state: &mut SessionState, store: StoreImage<'_>) {
        let rest = state.text(self.number).get(self.kept..).unwrap_or_default();
        if let Some(rest) = markdown::extract_images(rest, super::IMAGE, store) {
            write(state, self.number, self.kept, &rest);
        }
        state.dirty.insert(self.number);
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes that the next update renders.
    pub(super) fn live_len(&self) -> usize {
        self.rest_len
    }
}

/// Bytes of a growing thought that are shown.
const LIVE_THOUGHT: usize = 16 * 1024;

/// Replaces an entry's text from `kept` on.
fn write(state: &mut SessionState, number: u64, kept: usize, rest: &str) {
    let Some(Block::Text { text, .. }) = state.entries.get(&number) else { return };
    let old = text.get(kept..).unwrap_or_default();
    let same = old.bytes().zip(rest.bytes()).take_while(|(old, new)| old == new).count();
    let same = rest.floor_char_boundary(same.min(rest.len()));
    let same = old.floor_char_boundary(same);
    if same == old.len() && same == rest.len() {
        return;
    }
    let more = rest.get(same..).unwrap_or_default().to_owned();
    let op = Op::Text(number, kept.saturating_add(same), more);
    state.ops.push(op.clone());
    state.replay(op);
    state.is_dirty = true;
}
