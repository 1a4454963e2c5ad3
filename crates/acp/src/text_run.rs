//! A run of a message's text, from incremental or cumulative chunks.

use crate::content::Channel;

/// How a message's chunks are streamed (`spec/acp.md#text`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streaming {
    /// Incremental. All tested agents send these.
    #[default]
    Delta,
    /// Cumulative: each chunk is the whole message so far.
    Snapshot,
    /// Decided at the end of each message: cumulative if there were three or more chunks and each
    /// extended the one before.
    Auto,
}

/// A run of text without interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRun {
    /// The channel.
    pub channel: Channel,
    /// The message's id, if given.
    pub message_id: Option<String>,
    /// True for another message than the run of this channel before.
    pub(crate) begins_message: bool,
    text: String,
    /// The last chunk's length. Cumulative chunks end the text with the whole message.
    last: usize,
    growth: Growth,
}

/// Selects whether the chunks could be cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// So many chunks extended the one before.
    Growing(u32),
    /// A chunk did not.
    Broken,
}

impl TextRun {
    /// Creates a run from its first chunk.
    pub(crate) fn new(channel: Channel, message_id: Option<&str>, chunk: &str) -> Self {
        TextRun {
            channel,
            message_id: message_id.map(str::to_owned),
            begins_message: false,
            text: chunk.to_owned(),
            last: chunk.len(),
            growth: Growth::Growing(0),
        }
    }

    /// Returns whether a chunk continues this run: same channel and, where given, same message id.
    pub(crate) fn is_continued_by(&self, channel: Channel, message_id: Option<&str>) -> bool {
        let is_same = match (self.message_id.as_deref(), message_id) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        self.channel == channel && is_same
    }

    /// Returns whether a chunk repeats the whole run under another message id, as some agents do
    /// after streaming.
    pub(crate) fn is_copied_by(
        &self,
        channel: Channel,
        message_id: Option<&str>,
        chunk: &str,
    ) -> bool {
        message_id.is_some()
            && self.message_id.as_deref() != message_id
            && self.channel == channel
            && self.text == chunk
    }

    /// Appends a chunk.
    pub(crate) fn push(&mut self, streaming: Streaming, message_id: Option<&str>, chunk: &str) {
        if self.message_id.is_none() {
            self.message_id = message_id.map(str::to_owned);
        }
        self.growth = match self.growth {
            Growth::Growing(count) if self.is_extended_by(chunk) => {
                Growth::Growing(count.saturating_add(1))
            }
            _ => Growth::Broken,
        };
        if streaming == Streaming::Snapshot {
            self.text.clear();
        }
        self.text.push_str(chunk);
        self.last = chunk.len();
    }

    /// Ends the run, which decides [`Streaming::Auto`].
    pub(crate) fn settle(&mut self, streaming: Streaming) {
        if streaming == Streaming::Auto && self.looks_like_snapshots() {
            self.text = self.last_chunk().to_owned();
        }
    }

    /// Returns the text so far.
    pub fn text(&self, streaming: Streaming) -> &str {
        match streaming {
            Streaming::Auto if self.looks_like_snapshots() => self.last_chunk(),
            _ => &self.text,
        }
    }

    /// Returns the number of bytes held.
    pub(crate) fn held(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn is_extended_by(&self, chunk: &str) -> bool {
        let last = self.last_chunk();
        chunk.len() > last.len() && chunk.starts_with(last)
    }

    fn looks_like_snapshots(&self) -> bool {
        matches!(self.growth, Growth::Growing(2..))
    }

    fn last_chunk(&self) -> &str {
        let from = self.text.len().saturating_sub(self.last);
        self.text.get(from..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(streaming: Streaming, chunks: &[&str]) -> String {
        let (first, rest) = chunks.split_first().unwrap();
        let mut run = TextRun::new(Channel::Answer, None, first);
        rest.iter().for_each(|chunk| run.push(streaming, None, chunk));
        let before = run.text(streaming).to_owned();
        run.settle(streaming);
        assert_eq!(run.into_text(), before, "settling keeps the text that was read");
        before
    }

    #[test]
    fn chunks_are_read_as_deltas_or_snapshots_or_by_detection() {
        let rows: [(&[&str], &str, &str, &str); 9] = [
            (&["Hello ", "World"], "Hello World", "World", "Hello World"),
            (&["H", "He", "Hel"], "HHeHel", "Hel", "Hel"),
            (&["ha", "haha!"], "hahaha!", "haha!", "hahaha!"),
            (&["1", "10", "100", "!"], "110100!", "!", "110100!"),
            (&["\n", "\n\n", "x"], "\n\n\nx", "x", "\n\n\nx"),
            (&["-", "--", "-|"], "----|", "-|", "----|"),
            (&["|", "-", "|", "\n"], "|-|\n", "\n", "|-|\n"),
            (&["a", "a", "a"], "aaa", "a", "aaa"),
            (&["é", "éé", "ééé", "éééé"], "éééééééééé", "éééé", "éééé"),
        ];
        for (chunks, delta, snapshot, auto) in rows {
            assert_eq!(text_of(Streaming::Delta, chunks), delta, "{chunks:?}");
            assert_eq!(text_of(Streaming::Snapshot, chunks), snapshot, "{chunks:?}");
            assert_eq!(text_of(Streaming::Auto, chunks), auto, "{chunks:?}");
        }
    }

    #[test]
    fn message_ids_separate_messages() {
        let channel = Channel::Answer;
        let rows = [
            (Some("a"), Some("a"), true),
            (Some("a"), Some("b"), false),
            (Some("a"), None, true),
            (None, Some("a"), true),
            (None, None, true),
        ];
        for (own, other, same) in rows {
            let run = TextRun::new(channel, own, "x");
            assert_eq!(run.is_continued_by(channel, other), same, "{own:?} {other:?}");
            assert!(!run.is_continued_by(Channel::Thought, other));
        }
        let mut run = TextRun::new(channel, None, "x");
        run.push(Streaming::Delta, Some("a"), "y");
        assert!(!run.is_continued_by(channel, Some("b")), "the first id stays");
    }

    #[test]
    fn a_copy_has_another_message_id() {
        let rows = [
            (Some("a"), Some("b"), "x", true),
            (None, Some("b"), "x", true),
            (Some("a"), Some("a"), "x", false),
            (Some("a"), None, "x", false),
            (None, None, "x", false),
            (Some("a"), Some("b"), "xy", false),
        ];
        for (own, other, chunk, copied) in rows {
            let run = TextRun::new(Channel::Answer, own, "x");
            let found = run.is_copied_by(Channel::Answer, other, chunk);
            assert_eq!(found, copied, "{own:?} {other:?} {chunk}");
        }
    }
}
