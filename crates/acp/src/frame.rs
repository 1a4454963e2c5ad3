//! Splits a byte stream into lines.

use memchr::memchr;

/// Splits a stream into lines (`spec/acp.md#lines`). Memory is bounded by the limit plus the bytes
/// of one [`receive`](FrameReader::receive).
#[derive(Debug)]
pub struct FrameReader {
    limit: usize,
    head_limit: usize,
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    /// End of the part of the buffer known to hold no `\n`.
    searched: usize,
    /// Bytes of the oversized line so far; `None` in any other line.
    skipped: Option<u64>,
    /// The first bytes of the last oversized line.
    head: Vec<u8>,
    input: Input,
    /// True if a byte order mark may still follow.
    at_beginning: bool,
}

/// One non-blank line, or what replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line without its end and surrounding white space.
    Line(&'a str),
    /// A line above the limit, skipped to its end.
    Oversize {
        /// Its length in bytes.
        len: u64,
        /// Its first bytes.
        head: &'a [u8],
    },
    /// A line that is not UTF-8.
    NotUtf8 {
        /// The whole line.
        line: &'a [u8],
    },
    /// The stream has ended. Repeats.
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Ended,
}

impl FrameReader {
    /// Creates a reader for lines of at most `limit` bytes without their `\n`. Of longer ones the
    /// first `head_limit` bytes are kept.
    pub fn new(limit: usize, head_limit: usize) -> Self {
        FrameReader {
            limit,
            head_limit: head_limit.min(limit),
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            skipped: None,
            head: Vec::new(),
            input: Input::Open,
            at_beginning: true,
        }
    }

    /// Passes in bytes. Call [`next_frame`](FrameReader::next_frame) until it returns `None` before
    /// the next call.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.forget_lines();
        self.buffer.extend_from_slice(bytes);
    }

    /// Frees the memory of a long line. Until then, a value parsed from it is held twice.
    pub fn give_back(&mut self) {
        if self.start > KEPT {
            self.forget_lines();
        }
    }

    /// Passes in the end of the stream. Bytes after the last `\n` are a line.
    pub fn receive_eof(&mut self) {
        self.input = Input::Ended;
    }

    /// Returns the number of buffered bytes.
    pub fn held(&self) -> usize {
        self.buffer.len().saturating_sub(self.start).saturating_add(self.head.len())
    }

    /// Returns the next line, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.at_beginning && !self.skip_byte_order_mark() {
            return None;
        }
        loop {
            let end = self.line_end();
            let (begin, stop) = (self.start, end.unwrap_or(self.buffer.len()));
            let next = end.map_or(stop, |end| end.saturating_add(1));
            let is_whole = end.is_some() || self.input == Input::Ended;
            if self.skipped.is_some() || stop.saturating_sub(begin) > self.limit {
                // Skipped as it arrives, so that an endless line takes no memory.
                self.skip(begin, stop);
                self.go_to(next);
                return if is_whole { self.oversize() } else { None };
            }
            if !is_whole {
                self.searched = stop;
                return None;
            }
            self.go_to(next);
            if !self.is_blank(begin, stop) {
                return Some(self.line(begin, stop));
            }
            if end.is_none() {
                return Some(Frame::Eof);
            }
        }
    }

    /// Skips a byte order mark. Returns false until enough bytes have arrived to decide.
    fn skip_byte_order_mark(&mut self) -> bool {
        let begins = BYTE_ORDER_MARK.starts_with(&self.buffer);
        if begins && self.buffer.len() < BYTE_ORDER_MARK.len() && self.input == Input::Open {
            return false;
        }
        self.at_beginning = false;
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.go_to(BYTE_ORDER_MARK.len());
        }
        true
    }

    /// Drops consumed lines from the buffer.
    fn forget_lines(&mut self) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.buffer.capacity() > KEPT && self.buffer.len() < KEPT {
            self.buffer.shrink_to(KEPT);
        }
    }

    /// Returns the offset of the `\n` of the line at `start`.
    fn line_end(&self) -> Option<usize> {
        let found = memchr(b'\n', self.buffer.get(self.searched..)?)?;
        self.searched.checked_add(found)
    }

    fn go_to(&mut self, next: usize) {
        self.start = next;
        self.searched = next;
    }

    fn skip(&mut self, begin: usize, stop: usize) {
        let part = self.buffer.get(begin..stop).unwrap_or_default();
        if self.skipped.is_none() {
            self.head.clear();
        }
        let len = self.skipped.get_or_insert_default();
        *len = len.saturating_add(part.len() as u64);
        let room = self.head_limit.saturating_sub(self.head.len());
        self.head.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    fn oversize(&mut self) -> Option<Frame<'_>> {
        let len = self.skipped.take()?;
        Some(Frame::Oversize { len, head: &self.head })
    }

    fn is_blank(&self, begin: usize, stop: usize) -> bool {
        let line = self.buffer.get(begin..stop).unwrap_or_default();
        line.iter().all(|byte| BLANK.contains(&char::from(*byte)))
    }

    fn line(&self, begin: usize, stop: usize) -> Frame<'_> {
        let line = self.buffer.get(begin..stop).unwrap_or_default();
        match std::str::from_utf8(line) {
            Ok(text) => Frame::Line(text.trim_matches(BLANK)),
            Err(_) => Frame::NotUtf8 { line },
        }
    }
}

/// U+FEFF, which some programs write first.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// JSON white space, trimmed from lines.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];
/// Capacity that the buffer keeps after a long line, in bytes.
const KEPT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as text: a line, `!LEN HEAD` if oversized, `?LEN` if not UTF-8, `.` at the end.
    fn describe(frame: Frame<'_>) -> String {
        match frame {
            Frame::Line(line) => line.to_owned(),
            Frame::Oversize { len, head } => format!("!{len} {}", String::from_utf8_lossy(head)),
            Frame::NotUtf8 { line } => format!("?{}", line.len()),
            Frame::Eof => ".".to_owned(),
        }
    }

    fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = FrameReader::new(8, 4);
        let mut story = Vec::new();
        for piece in pieces {
            reader.receive(piece);
            while let Some(frame) = reader.next_frame() {
                story.push(describe(frame));
            }
            assert!(reader.held() <= 8 + 4, "{}", reader.held());
        }
        reader.receive_eof();
        while let Some(frame) = reader.next_frame() {
            let is_end = frame == Frame::Eof;
            story.push(describe(frame));
            if is_end {
                break;
            }
        }
        assert_eq!(reader.next_frame(), Some(Frame::Eof), "the end repeats");
        story
    }

    /// Reads `wire` whole, byte by byte, and split at each offset.
    #[track_caller]
    fn check(wire: &[u8], expected: &[&str]) {
        assert_eq!(read(std::iter::once(wire)), expected, "whole");
        assert_eq!(read(wire.chunks(1)), expected, "byte by byte");
        for at in 0..=wire.len() {
            let (first, second) = wire.split_at(at);
            assert_eq!(read([first, second].into_iter()), expected, "cut at {at}");
        }
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_blank_ones_are_skipped() {
        check(b"", &["."]);
        check(b"\n\r\n  \n\t\r\n", &["."]);
        check(b"{}\n", &["{}", "."]);
        check(b" {} \r\n\n[]\n", &["{}", "[]", "."]);
    }

    #[test]
    fn the_last_line_needs_no_end() {
        check(b"a\nb", &["a", "b", "."]);
        check(b"a\n  ", &["a", "."]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_only_at_the_start() {
        check(b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n", &["{}", "\u{feff}{}", "."]);
        check(b"\xef\xbb\xbf", &["."]);
        check(b"\xef\xbb\xbf\n\xef\xbb\xbf\n", &["\u{feff}", "."]);
        check(b"\xef\xbb\xbf\xef\xbb\xbf\n", &["\u{feff}", "."]);
        check(b"\xef\xbb\xbf12345678\n", &["12345678", "."]);
        check(b"\xef\xbb\xbf123456789\n", &["!9 1234", "."]);
        check(b"\n\xef\xbb\xbf\n", &["\u{feff}", "."]);
        check(b"\xef\xbb\n\xef\xbb\xbf\n", &["?2", "\u{feff}", "."]);
        check(b"\xef\xbb", &["?2", "."]);
    }

    #[test]
    fn a_line_above_the_limit_is_reported_once_and_the_next_is_read() {
        check(b"12345678\nx\n", &["12345678", "x", "."]);
        check(b"123456789\nx\n", &["!9 1234", "x", "."]);
        check(b"123456789abcdef", &["!15 1234", "."]);
        check(b"123456789\n\n987654321\n", &["!9 1234", "!9 9876", "."]);
        check(b"         \nx\n", &["!9     ", "x", "."]);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_reported_and_the_next_is_read() {
        check(b"\"\xff\"\nx\n", &["?3", "x", "."]);
        check("é\n".as_bytes(), &["é", "."]);
        check(b"\xc3", &["?1", "."]);
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut reader = FrameReader::new(1 << 20, 4096);
        let piece = vec![b'x'; 64 << 10];
        let pieces = 24_000u64;
        for _ in 0..pieces {
            reader.receive(&piece);
            assert_eq!(reader.next_frame(), None);
            assert!(reader.held() <= 1 << 20);
            assert!(reader.buffer.capacity() <= 4 << 20, "{}", reader.buffer.capacity());
        }
        reader.receive(b"\n{}\n");
        let Some(Frame::Oversize { len, head }) = reader.next_frame() else { panic!("too long") };
        assert_eq!((len, head), (pieces << 16, &piece[..4096]));
        assert_eq!(reader.next_frame(), Some(Frame::Line("{}")));
    }

    #[test]
    fn the_memory_of_a_long_line_is_freed() {
        let mut reader = FrameReader::new(16 << 20, 4096);
        let mut line = vec![b'x'; 16 << 20];
        line.push(b'\n');
        reader.receive(&line);
        assert!(matches!(reader.next_frame(), Some(Frame::Line(_))));
        reader.receive(b"{}\n");
        assert_eq!(reader.next_frame(), Some(Frame::Line("{}")));
        assert!(reader.buffer.capacity() <= KEPT, "{}", reader.buffer.capacity());

        line.extend(b"[]\n{");
        reader.receive(&line);
        assert!(matches!(reader.next_frame(), Some(Frame::Line(_))));
        reader.give_back();
        assert!(reader.buffer.capacity() <= KEPT, "{}", reader.buffer.capacity());
        assert_eq!(reader.next_frame(), Some(Frame::Line("[]")));
        reader.receive(b"}\n");
        assert_eq!(reader.next_frame(), Some(Frame::Line("{}")));
    }
}
