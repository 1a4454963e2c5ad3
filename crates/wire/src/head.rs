//! Heads of messages: finding the end, and accessing headers.

use crate::buffer::Buffer;
use crate::limits::Limits;

/// Header names as received, values without surrounding white space.
pub(crate) type Headers = Vec<(String, Vec<u8>)>;

/// Finds the end of a head incrementally.
///
/// Each byte is scanned once, however the head is split, and `httparse` runs once, on the complete
/// head.
#[derive(Debug, Default)]
pub(crate) struct HeadScanner {
    /// Offset of the first byte not yet scanned.
    scanned: usize,
    /// Offset of that byte's line.
    line_start: usize,
    /// Complete lines, including the start line.
    lines: usize,
    /// Bytes of empty lines before the start line.
    blank: usize,
}

/// The extent of a complete head at the front of the buffer.
pub(crate) struct HeadSpan {
    /// Bytes, including the final empty line.
    pub(crate) len: usize,
    /// Number of header lines.
    pub(crate) headers: usize,
}

/// The head exceeds [`Limits::max_head`] or [`Limits::max_headers`].
#[derive(Debug)]
pub(crate) struct HeadTooLarge;

impl HeadScanner {
    /// Scans new bytes; returns `None` until the head is complete. Consumes empty lines before the
    /// start line: old clients send one after a previous request's body.
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

/// Returns the value of the last header with this name, in any case.
pub(crate) fn last_header<'h>(headers: &'h Headers, name: &str) -> Option<&'h [u8]> {
    headers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| &v[..])
}

/// Returns a description of a parse error for the response.
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
