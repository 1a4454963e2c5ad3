//! The content and tool calls of a turn, in order.

use std::collections::HashSet;

use serde_json::Value;

use crate::answer::Answer;
use crate::content::{Channel, Piece};
use crate::json::weight;
use crate::text_run::{Streaming, TextRun};

/// Texts, blocks and tool calls of a turn in the order they began, in bounded memory
/// (`spec/acp.md#text`).
#[derive(Debug)]
pub struct Timeline {
    streaming: Streaming,
    limit: usize,
    held: usize,
    entries: Vec<TimelineEntry>,
    /// The tool calls' ids.
    tools: HashSet<String>,
}

/// An entry of a [`Timeline`].
#[derive(Clone, Debug, PartialEq)]
pub enum TimelineEntry {
    /// A run of text.
    Text(TextRun),
    /// Any other block.
    Block {
        /// Its channel.
        channel: Channel,
        /// The block, as received.
        block: Value,
    },
    /// The first mention of a tool call.
    Tool {
        /// Its id.
        id: String,
    },
}

/// A read position, see [`Timeline::read_on`]. The default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    entry: usize,
    /// Bytes into the entry's text.
    offset: usize,
}

/// A piece of the answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerPart<'a> {
    /// The text.
    pub text: &'a str,
    /// True for the start of another message: its id differs from that of the one before, or a tool
    /// call lies between them.
    pub begins_message: bool,
}

/// Selects whether an item was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// Stored.
    Stored,
    /// Dropped, as the timeline is full.
    Dropped,
}

impl Timeline {
    /// Creates a timeline of about `limit` bytes.
    pub fn new(streaming: Streaming, limit: usize) -> Self {
        Timeline { streaming, limit, held: 0, entries: Vec::new(), tools: HashSet::new() }
    }

    /// Adds a piece of a message.
    pub fn push(
        &mut self,
        channel: Channel,
        message_id: Option<&str>,
        piece: Piece<'_>,
    ) -> PushOutcome {
        match piece {
            Piece::Text(chunk) => self.push_text(channel, message_id, chunk),
            Piece::Block(block) => {
                let entry = TimelineEntry::Block { channel, block: block.clone() };
                self.push_entry(entry, weight(block))
            }
        }
    }

    /// Adds a tool call, once.
    pub fn push_tool(&mut self, id: &str) -> PushOutcome {
        if self.tools.contains(id) {
            return PushOutcome::Stored;
        }
        let outcome =
            self.push_entry(TimelineEntry::Tool { id: id.to_owned() }, id.len().saturating_mul(2));
        if outcome == PushOutcome::Stored {
            self.tools.insert(id.to_owned());
        }
        outcome
    }

    /// Returns all entries in order.
    pub fn entries(&self) -> &[TimelineEntry] {
        &self.entries
    }

    /// Returns the tool calls' ids.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(String::as_str)
    }

    /// Returns about how many bytes are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the answer's text so far.
    pub fn draft(&self) -> String {
        let texts = self.entries.iter().filter_map(|entry| match entry {
            TimelineEntry::Text(run) if run.channel == Channel::Answer => {
                Some(run.text(self.streaming))
            }
            _ => None,
        });
        texts.collect()
    }

    /// Returns the answer's text after `from` that can no longer change, and advances `from`.
    pub fn read_on(&self, from: &mut Position) -> Vec<AnswerPart<'_>> {
        let certain = match self.streaming {
            Streaming::Delta => self.entries.len(),
            // The last run's mode is not decided yet.
            Streaming::Auto => self.entries.len().saturating_sub(1),
            // Any message may still be replaced.
            Streaming::Snapshot => 0,
        };
        let mut read = Vec::new();
        while let Some(entry) = self.entries.get(from.entry).filter(|_| from.entry < certain) {
            if let TimelineEntry::Text(run) = entry
                && run.channel == Channel::Answer
            {
                let text = run.text(self.streaming);
                let begins_message = run.begins_message && from.offset == 0;
                let unread = text.get(from.offset..).filter(|text| !text.is_empty());
                read.extend(unread.map(|text| AnswerPart { text, begins_message }));
                from.offset = text.len();
            }
            if from.entry.saturating_add(1) == self.entries.len() {
                break;
            }
            *from = Position { entry: from.entry.saturating_add(1), offset: 0 };
        }
        read
    }

    /// Returns the answer: blocks in order, adjacent texts joined. It has all of the agent messages,
    /// since some agents call a tool in mid-sentence.
    pub fn into_answer(mut self) -> Answer {
        self.settle();
        let mut answer = Answer::default();
        let mut text = String::new();
        for entry in self.entries {
            match entry {
                TimelineEntry::Text(run) if run.channel == Channel::Answer => {
                    if run.begins_message {
                        answer.messages.push(answer.text.len().saturating_add(text.len()));
                    }
                    // Avoids a copy, as the text may be long.
                    if text.is_empty() {
                        text = run.into_text();
                    } else {
                        text.push_str(&run.into_text());
                    }
                }
                TimelineEntry::Block { channel: Channel::Answer, block } => {
                    answer.push_text(&mut text);
                    answer.blocks.push(block);
                }
                _ => {}
            }
        }
        answer.push_text(&mut text);
        answer
    }

    fn push_text(
        &mut self,
        channel: Channel,
        message_id: Option<&str>,
        chunk: &str,
    ) -> PushOutcome {
        let is_full = self.held.saturating_add(chunk.len()) > self.limit;
        let snapshot = self.earlier_snapshot(channel, message_id);
        let last = self.entries.len().checked_sub(1);
        let streaming = self.streaming;
        if let Some(TimelineEntry::Text(run)) =
            snapshot.or(last).and_then(|at| self.entries.get_mut(at))
        {
            if run.is_copied_by(channel, message_id, chunk) {
                return PushOutcome::Stored;
            }
            if run.is_continued_by(channel, message_id) {
                if is_full {
                    return PushOutcome::Dropped;
                }
                let before = run.held();
                run.push(streaming, message_id, chunk);
                let now = self.held.saturating_add(run.held());
                self.held = now.saturating_sub(before);
                return PushOutcome::Stored;
            }
        }
        let mut run = TextRun::new(channel, message_id, chunk);
        run.begins_message = self.is_other_message(channel, message_id);
        self.push_entry(TimelineEntry::Text(run), chunk.len())
    }

    /// Returns whether a new run starts another message than the last run of its channel: after a tool
    /// call, or with another id.
    fn is_other_message(&self, channel: Channel, message_id: Option<&str>) -> bool {
        let is_run = |entry: &TimelineEntry| matches!(entry, TimelineEntry::Text(run) if run.channel == channel);
        let is_tool = |entry: &TimelineEntry| matches!(entry, TimelineEntry::Tool { .. });
        let begin = self.entries.len().saturating_sub(LOOK_BACK);
        let recent = self.entries.get(begin..).unwrap_or_default();
        let Some(at) = recent.iter().rposition(is_run) else { return false };
        let after = recent.get(at..).unwrap_or_default();
        let continues = matches!(after.first(), Some(TimelineEntry::Text(run))
            if run.is_continued_by(channel, message_id));
        !continues || after.iter().any(is_tool)
    }

    /// Returns the index of the run that a cumulative chunk continues after an interruption.
    fn earlier_snapshot(&self, channel: Channel, message_id: Option<&str>) -> Option<usize> {
        let id = message_id.filter(|_| self.streaming == Streaming::Snapshot)?;
        let is_it = |entry: &TimelineEntry| match entry {
            TimelineEntry::Text(run) => {
                run.channel == channel && run.message_id.as_deref() == Some(id)
            }
            _ => false,
        };
        let begin = self.entries.len().saturating_sub(LOOK_BACK);
        let found = self.entries.get(begin..)?.iter().rposition(is_it)?;
        begin.checked_add(found)
    }

    fn push_entry(&mut self, entry: TimelineEntry, weight: usize) -> PushOutcome {
        let held = self.held.saturating_add(ENTRY).saturating_add(weight);
        if held > self.limit {
            return PushOutcome::Dropped;
        }
        self.settle();
        self.held = held;
        self.entries.push(entry);
        PushOutcome::Stored
    }

    /// Ends the last entry.
    fn settle(&mut self) {
        let streaming = self.streaming;
        if let Some(TimelineEntry::Text(run)) = self.entries.last_mut() {
            let before = run.held();
            run.settle(streaming);
            let gone = before.saturating_sub(run.held());
            self.held = self.held.saturating_sub(gone);
        }
    }
}

/// Memory of an entry besides its text, in bytes.
const ENTRY: usize = 160;
/// How many entries back a new run looks for its message.
const LOOK_BACK: usize = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn timeline(streaming: Streaming) -> Timeline {
        Timeline::new(streaming, 1 << 20)
    }

    fn say(timeline: &mut Timeline, message_id: Option<&str>, chunk: &str) {
        let outcome = timeline.push(Channel::Answer, message_id, Piece::Text(chunk));
        assert_eq!(outcome, PushOutcome::Stored);
    }

    /// The entries as text: messages, `[id]` for a tool, `(type)` for a block.
    fn described(timeline: &Timeline) -> Vec<String> {
        let describe = |entry: &TimelineEntry| match entry {
            TimelineEntry::Text(run) => run.text(timeline.streaming).to_owned(),
            TimelineEntry::Block { block, .. } => format!("({})", block["type"].as_str().unwrap()),
            TimelineEntry::Tool { id } => format!("[{id}]"),
        };
        timeline.entries().iter().map(describe).collect()
    }

    #[test]
    fn final_text_is_read_once() {
        use Streaming::{Auto, Delta, Snapshot};
        // After each chunk, the new text; `None` stands for a tool call.
        let chunks = [Some("a"), Some("ab"), Some("abc"), None, Some("x"), Some("y")];
        let rows = [
            (Delta, ["a", "ab", "abc", "", "x", "y"]),
            (Auto, ["", "", "", "abc", "", ""]),
            (Snapshot, ["", "", "", "", "", ""]),
        ];
        for (streaming, expected) in rows {
            let mut timeline = timeline(streaming);
            let mut position = Position::default();
            let mut all = String::new();
            for (chunk, expected) in chunks.iter().zip(expected) {
                match chunk {
                    Some(chunk) => say(&mut timeline, None, chunk),
                    None => assert_eq!(timeline.push_tool("t"), PushOutcome::Stored),
                }
                let read = timeline.read_on(&mut position);
                let read: String = read.iter().map(|part| part.text).collect();
                assert_eq!(read, expected, "{streaming:?} {chunk:?}");
                all.push_str(&read);
                assert!(timeline.read_on(&mut position).is_empty(), "nothing is read twice");
            }
            assert!(timeline.into_answer().text.starts_with(&all));
        }
    }

    #[test]
    fn messages_are_distinguished_by_id_and_by_tool_calls() {
        let mut timeline = timeline(Streaming::Delta);
        say(&mut timeline, Some("m"), "one");
        assert_eq!(timeline.push(Channel::Thought, None, Piece::Text("hm")), PushOutcome::Stored);
        say(&mut timeline, Some("m"), ", still one");
        say(&mut timeline, Some("n"), "two");
        let _ = timeline.push_tool("t");
        say(&mut timeline, Some("n"), "three");
        let read = timeline.read_on(&mut Position::default());
        let begins: Vec<_> = read.iter().map(|part| (part.text, part.begins_message)).collect();
        let expected = [("one", false), (", still one", false), ("two", true), ("three", true)];
        assert_eq!(begins, expected);
        assert_eq!(timeline.into_answer().messages, [14, 17]);
    }

    #[test]
    fn a_tool_call_between_two_texts_stays_between_them() {
        let mut timeline = timeline(Streaming::Delta);
        say(&mut timeline, None, "a");
        assert_eq!(timeline.push_tool("t"), PushOutcome::Stored);
        say(&mut timeline, None, "b");
        assert_eq!(timeline.push_tool("t"), PushOutcome::Stored);
        assert_eq!(described(&timeline), ["a", "[t]", "b"]);
        assert_eq!(timeline.draft(), "ab");
        assert_eq!(timeline.into_answer().text, "ab");
    }

    #[test]
    fn the_answer_has_images_but_no_thoughts_and_echoes() {
        let mut timeline = timeline(Streaming::Delta);
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        for (channel, piece) in [
            (Channel::Thought, Piece::Text("hm")),
            (Channel::Answer, Piece::Text("see ")),
            (Channel::User, Piece::Text("echo")),
            (Channel::Answer, Piece::Block(&image)),
            (Channel::Thought, Piece::Block(&image)),
            (Channel::Answer, Piece::Text("this")),
        ] {
            assert_eq!(timeline.push(channel, None, piece), PushOutcome::Stored);
        }
        assert_eq!(described(&timeline), ["hm", "see ", "echo", "(image)", "(image)", "this"]);
        let answer = timeline.into_answer();
        assert_eq!(answer.text, "see this");
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(answer.blocks, [text("see "), image, text("this")]);
    }

    #[test]
    fn an_adjacent_copy_with_another_message_id_is_dropped() {
        let mut timeline = timeline(Streaming::Delta);
        ["Hel", "lo"].iter().for_each(|chunk| say(&mut timeline, Some("a"), chunk));
        say(&mut timeline, Some("b"), "Hello");
        assert_eq!(described(&timeline), ["Hello"]);
        say(&mut timeline, Some("c"), "!");
        let _ = timeline.push_tool("t");
        say(&mut timeline, Some("d"), "!");
        assert_eq!(described(&timeline), ["Hello", "!", "[t]", "!"]);
        // Without message ids, a copy cannot be recognised.
        let mut timeline = Timeline::new(Streaming::Delta, 1 << 20);
        ["ha", "ha"].iter().for_each(|chunk| say(&mut timeline, None, chunk));
        assert_eq!(described(&timeline), ["haha"]);
    }

    #[test]
    fn a_snapshot_continues_its_interrupted_message() {
        let mut timeline = timeline(Streaming::Snapshot);
        say(&mut timeline, Some("a"), "H");
        let _ = timeline.push_tool("t");
        say(&mut timeline, Some("a"), "Hello");
        say(&mut timeline, Some("b"), "x");
        assert_eq!(described(&timeline), ["Hello", "[t]", "x"]);
    }

    #[test]
    fn each_message_is_detected_separately() {
        let mut timeline = timeline(Streaming::Auto);
        ["H", "He", "Hel"].iter().for_each(|chunk| say(&mut timeline, Some("a"), chunk));
        ["x", "y"].iter().for_each(|chunk| say(&mut timeline, Some("b"), chunk));
        assert_eq!(timeline.draft(), "Helxy");
        assert_eq!(timeline.into_answer().text, "Helxy");
    }

    #[test]
    fn entries_above_the_limit_are_dropped_whole() {
        let mut timeline = Timeline::new(Streaming::Delta, 2 * ENTRY + 10);
        say(&mut timeline, Some("a"), "12345");
        assert_eq!(
            timeline.push(Channel::Answer, Some("b"), Piece::Text("123456")),
            PushOutcome::Dropped
        );
        say(&mut timeline, Some("b"), "54321");
        assert_eq!(
            timeline.push(Channel::Answer, Some("b"), Piece::Text("6")),
            PushOutcome::Dropped
        );
        assert_eq!(timeline.push_tool("t"), PushOutcome::Dropped);
        assert_eq!(timeline.tools().count(), 0);
        assert_eq!((timeline.held(), timeline.draft().as_str()), (2 * ENTRY + 10, "1234554321"));
    }
}
