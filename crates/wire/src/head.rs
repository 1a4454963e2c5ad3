//! The head of a message: finding its end, and what its headers say.

use crate::buffer::Buffer;
use crate::limits::Limits;

/// Header names as they came, values without surrounding white space.
pub(crate) type Headers = Vec<(String, Vec<u8>)>;

/// Finds the end of a head as its bytes come in.
///
/// It looks at each byte once, so a head that arrives byte by byte costs no more than one that
/// arrives whole, and `httparse` runs only on what is complete.
#[derive(Debug, Default)]
pub(crate) struct HeadScanner {
    /// Offset of the first byte not looked at.
    scanned: usize,
    /// Offset of the line that byte is in.
    line_start: usize,
    /// Complete lines so far, the start line included.
    lines: usize,
    /// Bytes of empty lines that came before the start line.
    blank: usize,
}

/// Where a complete head stands in the buffer: at its front.
pub(crate) struct HeadSpan {
    /// Bytes, with the empty line at the end.
    pub(crate) len: usize,
    /// Header lines.
    pub(crate) headers: usize,
}

/// The head exceeds [`Limits::max_head`] or [`Limits::max_headers`].
#[derive(Debug)]
pub(crate) struct HeadTooLarge;

impl HeadScanner {
    /// Looks at the bytes that are new; `None` until the head is complete. Empty lines before the
    /// start line are consumed, as old clients send one after a previous request's body.
    pub(crate) fn scan(
        &mut self,
        buffer: &mut Buffer,
        limits: &Limits,
    ) -> Result<Option<HeadSpan>, HeadTooLarge> {
        loop {
            let bytes = buffer.as_slice();
            let new = bytes.get(self.scanned..).unwrap_or_default();
            let line_feed = new.iter().position(|&byte| byte == b'\n');
            let line_end = line_feed.map_or(bytes.len(), |at| self.scanned + at + 1);
            let line = bytes.get(self.line_start..line_end).unwrap_or_default();
            let is_empty = matches!(line, b"\n" | b"\r\n");
            self.scanned = line_end;
            if self.blank.saturating_add(line_end) > limits.max_head {
                return Err(HeadTooLarge);
            }
            if line_feed.is_none() {
                return Ok(None);
            }
            self.line_start = line_end;
            if !is_empty {
                self.lines += 1;
                if self.lines > limits.max_headers.saturating_add(1) {
                    return Err(HeadTooLarge);
                }
            } else if self.lines > 0 {
                return Ok(Some(HeadSpan { len: line_end, headers: self.lines - 1 }));
            } else {
                buffer.consume(line_end);
                *self = HeadScanner { blank: self.blank + line_end, ..HeadScanner::default() };
            }
        }
    }
}

/// Copies headers out of a parsed head.
pub(crate) fn owned_headers(parsed: &[httparse::Header<'_>]) -> Headers {
    parsed.iter().map(|h| (h.name.to_owned(), h.value.trim_ascii().to_vec())).collect()
}

/// The value of the last header of that name, in any case.
pub(crate) fn last_header<'h>(headers: &'h Headers, name: &str) -> Option<&'h [u8]> {
    headers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| &v[..])
}

/// What is wrong with a head, in words that may go into an answer.
pub(crate) fn parse_failure(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "malformed header name",
        httparse::Error::HeaderValue => "malformed header value",
        httparse::Error::NewLine => "malformed line end",
        httparse::Error::Status => "malformed status",
        httparse::Error::Version => "unsupported HTTP version",
        httparse::Error::Token | httparse::Error::TooManyHeaders => "malformed start line",
    }
}
