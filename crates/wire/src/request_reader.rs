//! Reads a connection request.

use crate::buffer::{Buffer, Input};
use crate::framing::Framing;
use crate::head::HeadScanner;
use crate::limits::Limits;
use crate::message_error::MessageError;
use crate::request_body::{BodyMode, RequestBody};
use crate::request_head::RequestHead;

/// Reads the single request of a connection.
///
/// [`buffer`](RequestReader::buffer) and [`receive`](RequestReader::receive) take bytes;
/// [`next_event`](RequestReader::next_event) returns events until it needs more. After
/// [`RequestEvent::Head`] the caller may set the body's limit or discard the body.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    buffer: Buffer,
    state: State,
    mode: BodyMode,
    input: Input,
}

/// An event of a [`RequestReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// More bytes are needed, or [`receive_eof`](RequestReader::receive_eof).
    NeedData,
    /// The head is complete and valid.
    Head(RequestHead),
    /// The decoded body, empty if there is none. The request is complete.
    Body(Vec<u8>),
}

impl RequestReader {
    /// Creates a reader at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        RequestReader {
            limits,
            buffer: Buffer::new(),
            state: State::Head(HeadScanner::default()),
            mode: BodyMode::Collect,
            input: Input::Open,
        }
    }

    /// Returns the buffer for reads from the connection.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Appends a copy of `bytes` to the buffer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Returns the memory that the reader uses at most after a read with `min` bytes of spare space
    /// and the events of what it read.
    pub fn memory_after(&self, min: usize) -> usize {
        let buffer = self.buffer.size_with_spare(min);
        let body = match &self.state {
            State::Body(body) => body.memory_after(buffer),
            State::Head(_) | State::Done | State::Failed(_) => 0,
        };
        buffer.saturating_add(body)
    }

    /// Marks the end of the connection. An incomplete request is then [`MessageError::Truncated`].
    pub fn receive_eof(&mut self) {
        self.input = Input::Ended;
    }

    /// Sets the maximum of the decoded body in bytes, instead of [`Limits::max_body`].
    pub fn set_body_limit(&mut self, max_body: usize) {
        self.limits.max_body = max_body;
    }

    /// Returns the limits, for [`MessageError::refusal`].
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Discards the body of a refused request, so that the client can finish writing and read the
    /// response. An empty [`RequestEvent::Body`] follows at the body's end, after
    /// [`Limits::max_drain`] bytes, or at the first malformed byte.
    pub fn discard_body(&mut self) {
        self.mode = BodyMode::Discard;
    }

    /// Returns the bytes after the request.
    pub fn rest(&self) -> &[u8] {
        match self.state {
            State::Done => self.buffer.as_slice(),
            _ => &[],
        }
    }

    /// Removes and returns the bytes after the request.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let len = self.rest().len();
        self.buffer.take(len)
    }

    /// Returns the next event: only `NeedData` after [`RequestEvent::Body`], and the same error
    /// after an error.
    pub fn next_event(&mut self) -> Result<RequestEvent, MessageError> {
        let event = match &mut self.state {
            State::Head(_) => self.read_head(),
            State::Body(_) => self.read_body(),
            State::Done => return Ok(RequestEvent::NeedData),
            State::Failed(error) => return Err(error.clone()),
        };
        match &event {
            Ok(RequestEvent::Body(_)) => self.state = State::Done,
            Ok(_) => {}
            Err(error) => self.state = State::Failed(error.clone()),
        }
        event
    }

    fn read_head(&mut self) -> Result<RequestEvent, MessageError> {
        let State::Head(scanner) = &mut self.state else { return Ok(RequestEvent::NeedData) };
        let Some(span) = scanner.scan(&mut self.buffer, &self.limits)? else {
            self.input.check_open()?;
            return Ok(RequestEvent::NeedData);
        };
        let bytes = self.buffer.as_slice().get(..span.len).unwrap_or_default();
        let head = RequestHead::parse(bytes, span.headers).map_err(MessageError::BadHead)?;
        self.buffer.consume(span.len);
        let framing = Framing::of(&head.headers)?;
        self.state = State::Body(RequestBody::new(framing, &self.limits));
        Ok(RequestEvent::Head(head))
    }

    fn read_body(&mut self) -> Result<RequestEvent, MessageError> {
        let State::Body(body) = &mut self.state else { return Ok(RequestEvent::NeedData) };
        let body = body.read(&mut self.buffer, &mut self.limits, self.input, self.mode)?;
        Ok(body.map_or(RequestEvent::NeedData, RequestEvent::Body))
    }
}

#[derive(Debug)]
enum State {
    Head(HeadScanner),
    Body(RequestBody),
    Done,
    Failed(MessageError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::ChunkError;
    use crate::decode;
    use crate::framing::FramingError;

    type Outcome<'a> = Result<(&'a str, &'a [u8]), MessageError>;

    /// Creates a reader with small limits: 3 headers, 128 bytes of head, 8 of body, 40 discarded.
    fn reader() -> RequestReader {
        let limits = Limits {
            max_headers: 3,
            max_head: 128,
            max_body: 8,
            max_drain: 40,
            ..Limits::default()
        };
        RequestReader::new(limits)
    }

    /// Returns method and target with the body, or the error.
    fn read<'a>(
        reader: &mut RequestReader,
        mut pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(String, Vec<u8>), MessageError> {
        let (head, body) = decode::request(reader, &mut pieces)?;
        pieces.for_each(|piece| reader.receive(piece));
        Ok((format!("{} {}", head.method, head.target), body))
    }

    /// Reads `wire` whole, byte by byte, and with trailing bytes.
    #[track_caller]
    fn check(wire: &[u8], expected: Outcome<'_>) {
        let shown = String::from_utf8_lossy(wire);
        let expected = expected.map(|(start, body)| (start.to_owned(), body.to_vec()));
        let mut whole = reader();
        assert_eq!(read(&mut whole, [wire].into_iter()), expected, "whole: {shown}");
        match &expected {
            Ok(_) => {
                assert_eq!(whole.next_event(), Ok(RequestEvent::NeedData), "nothing more: {shown}");
            }
            Err(error) => assert_eq!(whole.next_event(), Err(error.clone()), "stays: {shown}"),
        }
        assert_eq!(read(&mut reader(), wire.chunks(1)), expected, "byte by byte: {shown}");
        if expected.is_ok() {
            let mut trailing = reader();
            let pieces = [wire, b"POST /"];
            assert_eq!(read(&mut trailing, pieces.into_iter()), expected, "trailing: {shown}");
            assert_eq!(trailing.rest(), b"POST /", "{shown}");
            assert_eq!(trailing.take_rest(), b"POST /", "{shown}");
            assert!(trailing.rest().is_empty());
        }
    }

    #[test]
    fn line_ends_and_empty_lines() {
        for wire in [
            "POST /exec HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b",
            "POST /exec HTTP/1.1\nContent-Length: 3\n\na=b",
            "POST /exec HTTP/1.0\r\nContent-Length: 3\n\r\na=b",
            "\r\n\n\r\nPOST /exec HTTP/1.1\ncontent-length:3\r\n\na=b",
        ] {
            check(wire.as_bytes(), Ok(("POST /exec", b"a=b")));
        }
        check(b"GET / HTTP/1.1\r\n\r\n", Ok(("GET /", b"")));
    }

    #[test]
    fn bodies() {
        let chunked = |body: &str| {
            format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n{body}"
            )
        };
        check(chunked("3;x\r\na=b\r\n0\r\nX: y\r\n\r\n").as_bytes(), Ok(("POST /", b"a=b")));
        check(chunked("4\n1234\n4\r\n5678\n0\n\n").as_bytes(), Ok(("POST /", b"12345678")));
        check(chunked("0\r\n\r\n").as_bytes(), Ok(("POST /", b"")));
        check(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Ok(("POST /", b"")));
        let full = b"POST / HTTP/1.1\r\nContent-Length: 8\r\nContent-Length: 8\r\n\r\n12345678";
        check(full, Ok(("POST /", b"12345678")));

        for body in ["+3\r\na=b\r\n0\r\n\r\n", "\r\n", ";x\r\n\r\n", "zz\r\n"] {
            let bad_size = MessageError::BadChunk(ChunkError::BadSize);
            check(chunked(body).as_bytes(), Err(bad_size));
        }
    }

    #[test]
    fn malformed_heads() {
        let rows: [(&[u8], &'static str); 9] = [
            (b"POST\r\n\r\n", "malformed start line"),
            (b"POST / HTTP/2.0\r\n\r\n", "unsupported HTTP version"),
            (b"PO\0ST / HTTP/1.1\r\n\r\n", "malformed start line"),
            (b"POST / HTTP/1.1\r\nno colon\r\n\r\n", "malformed header name"),
            (b"POST / HTTP/1.1\r\nname : space\r\n\r\n", "malformed header name"),
            (b"POST / HTTP/1.1\r\n: nameless\r\n\r\n", "malformed header name"),
            (b"POST / HTTP/1.1\r\na: 1\r\n folded\r\n\r\n", "malformed header name"),
            (b"POST / HTTP/1.1\r\na: \0\r\n\r\n", "malformed header value"),
            (b"POST / HTTP/1.1\r\na: 1\rb: 2\r\n\r\n", "malformed header value"),
        ];
        for (wire, reason) in rows {
            check(wire, Err(MessageError::BadHead(reason)));
        }
    }

    #[test]
    fn framing_is_checked_with_the_head() {
        let with = |headers: &str| format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n");
        check(with("Content-Length: +5").as_bytes(), Err(FramingError::BadContentLength.into()));
        check(with("Content-Length: 5, 5").as_bytes(), Err(FramingError::BadContentLength.into()));
        let different = with("Content-Length: 5\r\nContent-Length: 6");
        check(different.as_bytes(), Err(FramingError::ConflictingLengths.into()));
        check(
            with("Transfer-Encoding: gzip").as_bytes(),
            Err(FramingError::UnsupportedCoding.into()),
        );
    }

    #[test]
    fn incomplete_heads_are_limited() {
        let too_large = Err(MessageError::HeadTooLarge);
        check(b"GET / HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\n\r\n", Ok(("GET /", b"")));
        check(b"GET / HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\n", too_large.clone());
        // 15 bytes around the target, 128 in total.
        let target = "/".repeat(113);
        check(format!("GET {target} HTTP/1.1\n\n").as_bytes(), Ok((&format!("GET {target}"), b"")));
        check(format!("GET {target}/ HTTP/1.1\n\n").as_bytes(), too_large.clone());
        check(&[b'x'; 129], too_large.clone());
        check(&[b'\n'; 129], too_large);
    }

    #[test]
    fn default_limits() {
        let head = |count: usize| format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(count));
        let mut most = RequestReader::new(Limits::default());
        assert!(read(&mut most, [head(1024).as_bytes(), b"\r\n"].into_iter()).is_ok());
        let mut more = RequestReader::new(Limits::default());
        let result = read(&mut more, [head(1025).as_bytes()].into_iter());
        assert_eq!(result, Err(MessageError::HeadTooLarge));
        // Quadratic scanning of these 64 KiB would take noticeably long: 2e9 steps.
        let mut long = RequestReader::new(Limits::default());
        let wire = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(65_000));
        assert!(read(&mut long, wire.as_bytes().chunks(1)).is_ok());
    }

    #[test]
    fn oversize_bodies() {
        let too_large = Err(MessageError::BodyTooLarge);
        check(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", too_large.clone());
        let huge = b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n";
        check(huge, too_large.clone());
        let chunked =
            |body: &str| format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let bodies = [
            "9\r\n123456789\r\n0\r\n\r\n",
            "9\r\n123456789",
            "9\r\n123456789\r\nzz\r\n",
            "80\r\n1234567890123456789012345678901234567890",
            // Decoded within the limit, but encoded above `max_drain`.
            "1;4567890\r\na\r\n1;4567890\r\na\r\n1;4567890\r\na\r\n0\r\n\r\n",
        ];
        for body in bodies {
            check(chunked(body).as_bytes(), too_large.clone());
        }
    }

    #[test]
    fn oversize_chunked_bodies_are_read_to_the_end() {
        let mut reader = reader();
        reader.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789");
        assert!(matches!(reader.next_event(), Ok(RequestEvent::Head(_))));
        assert_eq!(reader.next_event(), Ok(RequestEvent::NeedData));
        reader.receive(b"\r\n0\r\n\r\n");
        assert_eq!(reader.next_event(), Err(MessageError::BodyTooLarge));
    }

    #[test]
    fn the_body_limit_can_be_set_after_the_head() {
        let mut reader = reader();
        reader.receive(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789");
        assert!(matches!(reader.next_event(), Ok(RequestEvent::Head(_))));
        reader.set_body_limit(9);
        assert_eq!(reader.next_event(), Ok(RequestEvent::Body(b"123456789".to_vec())));
    }

    #[test]
    fn truncated_requests() {
        let whole = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n";
        for wire in [whole, chunked] {
            for cut in 0..wire.len() {
                check(&wire.as_bytes()[..cut], Err(MessageError::Truncated));
            }
        }
    }

    #[test]
    fn discarded_bodies_are_read_to_the_end() {
        // Header, body, and the bytes after it.
        let rows: [(&str, &str, &str); 7] = [
            ("Content-Length: 20", "12345678901234567890", "rest"),
            ("Content-Length: 50", "1234567890123456789012345678901234567890", "1234567890"),
            ("Content-Length: 20", "cut off", ""),
            ("Host: x", "", "rest"),
            ("Transfer-Encoding: chunked", "9\r\n123456789\r\n0\r\n\r\n", "rest"),
            ("Transfer-Encoding: chunked", "zz\r\n", "rest"),
            ("Transfer-Encoding: chunked", "80\r\n123456789012345678901234567890123456", "rest"),
        ];
        for (header, body, rest) in rows {
            let wire = format!("POST / HTTP/1.1\r\n{header}\r\n\r\n{body}{rest}");
            for piece_len in [1, wire.len()] {
                let mut reader = reader();
                let mut outcome = Ok(RequestEvent::NeedData);
                for piece in wire.as_bytes().chunks(piece_len) {
                    reader.receive(piece);
                    while outcome == Ok(RequestEvent::NeedData) {
                        match reader.next_event() {
                            Ok(RequestEvent::Head(_)) => reader.discard_body(),
                            Ok(RequestEvent::NeedData) => break,
                            end => outcome = end,
                        }
                    }
                }
                if outcome == Ok(RequestEvent::NeedData) {
                    reader.receive_eof();
                    outcome = reader.next_event();
                }
                assert_eq!(outcome, Ok(RequestEvent::Body(vec![])), "{wire}");
                assert_eq!(reader.take_rest(), rest.as_bytes(), "{wire}");
            }
        }
    }
}
