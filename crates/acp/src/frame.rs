//! Lines off a stream of bytes.

use memchr::memchr;

/// Takes lines off a stream (`spec/acp.md#lines`). What it holds is bounded by the limit and by
/// what one [`receive`](FrameReader::receive) brings.
#[derive(Debug)]
pub struct FrameReader {
    limit: usize,
    head_limit: usize,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// Up to where the buffer is known to hold no line end.
    searched: usize,
    /// Bytes so far of a line that is too long; `None` within any other.
    skipped: Option<u64>,
    /// The first bytes of the last line that was too long.
    head: Vec<u8>,
    input: Input,
    /// Whether a byte order mark may still begin the stream.
    at_beginning: bool,
}

/// One line, or what stood in its place. Blank lines are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line without its end and without white space around it.
    Line(&'a str),
    /// A line above the limit, all of which has passed.
    Oversize {
        /// Its length in bytes.
        len: u64,
        /// Its first bytes.
        head: &'a [u8],
    },
    /// A line that is no UTF-8.
    NotUtf8 {
        /// All of it.
        line: &'a [u8],
    },
    /// The stream has ended; the same from now on.
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Ended,
}

impl FrameReader {
    /// A reader at the start of a stream whose lines have at most `limit` bytes without their `\n`.
    /// Of longer ones the first `head_limit` bytes are kept.
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

    /// Takes a copy of bytes that were read. Between two of these, ask
    /// [`next_frame`](FrameReader::next_frame) until there is none.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.forget_lines();
        self.buffer.extend_from_slice(bytes);
    }

    /// Gives back the room of a long line that was taken. Whoever made something of it holds it twice
    /// until then.
    pub fn give_back(&mut self) {
        if self.start > KEPT {
            self.forget_lines();
        }
    }

    /// Tells that no more bytes come: what stands behind the last line end is a line, too.
    pub fn receive_eof(&mut self) {
        self.input = Input::Ended;
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.buffer.len().saturating_sub(self.start).saturating_add(self.head.len())
    }

    /// The next line, or `None` until more bytes have come.
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
                // Every part goes as it comes, so that a line without an end takes no room.
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

    /// Skips a byte order mark. Returns false until enough bytes have come to decide.
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

    /// Lets go of what was taken.
    fn forget_lines(&mut self) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.buffer.capacity() > KEPT && self.buffer.len() < KEPT {
            self.buffer.shrink_to(KEPT);
        }
    }

    /// Where the line that begins at `start` has its `\n`.
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

/// U+FEFF, which some programs write before their first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// What is no part of a line: the white space of JSON.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];
/// Room that a buffer keeps when a long line has gone, in bytes.
const KEPT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames as text: a line, `!LEN HEAD` of one too long, `?LEN` of one that is no text, `.` at
    /// the end.
    fn tell(frame: Frame<'_>) -> String {
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
                story.push(tell(frame));
            }
            assert!(reader.held() <= 8 + 4, "{}", reader.held());
        }
        reader.receive_eof();
        while let Some(frame) = reader.next_frame() {
            let is_end = frame == Frame::Eof;
            story.push(tell(frame));
            if is_end {
                break;
            }
        }
        assert_eq!(reader.next_frame(), Some(Frame::Eof), "the end stays");
        story
    }

    /// Reads `wire` whole, byte by byte, and cut once at every place.
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
    fn lines_end_in_lf_or_crlf_and_blank_ones_are_none() {
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
    fn a_byte_order_mark_is_skipped_at_the_beginning_only() {
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
    fn a_line_above_the_limit_is_told_once_and_the_next_one_is_read() {
        check(b"12345678\nx\n", &["12345678", "x", "."]);
        check(b"123456789\nx\n", &["!9 1234", "x", "."]);
        check(b"123456789abcdef", &["!15 1234", "."]);
        check(b"123456789\n\n987654321\n", &["!9 1234", "!9 9876", "."]);
        check(b"         \nx\n", &["!9     ", "x", "."]);
    }

    #[test]
    fn a_line_that_is_no_text_is_told_and_the_next_one_is_read() {
        check(b"\"\xff\"\nx\n", &["?3", "x", "."]);
        check("é\n".as_bytes(), &["é", "."]);
        check(b"\xc3", &["?1", "."]);
    }

    #[test]
    fn a_line_without_an_end_takes_no_room() {
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
    fn the_room_of_a_long_line_is_given_back() {
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
