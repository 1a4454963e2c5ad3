//! Reads the response of a connection.

use crate::buffer::{Buffer, Input};
use crate::chunked::Step;
use crate::exit::SidecarLimit;
use crate::head::HeadScanner;
use crate::limits::Limits;
use crate::message_error::MessageError;
use crate::response_body::ResponseBody;
use crate::response_head::{InterimCause, ResponseHead, parse_exit_code};

/// Reads the single response of a connection.
///
/// Tolerates differences between servers: names in any case, LF line ends, chunk extensions,
/// interim responses. A truncated body is always an error.
#[derive(Debug)]
pub struct ResponseReader {
    limits: Limits,
    buffer: Buffer,
    /// Bytes at the buffer's front that the last event borrowed or consumed.
    spent: usize,
    state: State,
    input: Input,
    /// The head's exit code, then the trailer's.
    exit_code: Option<u8>,
    tool_end: ToolEnd,
}

/// An event of a [`ResponseReader`].
#[derive(Debug, PartialEq, Eq)]
pub enum ResponseEvent<'a> {
    /// More bytes are needed, or [`receive_eof`](ResponseReader::receive_eof).
    NeedData,
    /// The cause of a delay: `X-Aifo-Progress` of an interim response. Other interim responses are
    /// skipped.
    Progress(String),
    /// The call waits for a user's approval: `X-Aifo-Approval` of an interim response.
    Approval(String),
    /// The final response's head.
    Head(ResponseHead),
    /// All buffered output of the tool, never empty, borrowed from the buffer.
    Data(&'a [u8]),
    /// The response is complete.
    End {
        /// `X-Exit-Code` of the trailer, otherwise of the head. `None` if it is missing or not a
        /// number from 0 to 255: the exit status is unknown.
        exit_code: Option<u8>,
        /// The meaning of that code.
        tool_end: ToolEnd,
    },
}

/// The meaning of an exit code. It distinguishes a tool's own 125 from an unknown exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    /// The tool's exit status.
    Exited,
    /// The tool's exit status; a sidecar limit was hit before (trailer `X-Aifo-Limit`).
    Limited(SidecarLimit),
    /// Unknown: the runner was lost while the tool ran (trailer `X-Aifo-Ending: unknown`).
    Unknown,
}

impl ResponseReader {
    /// Creates a reader at the start of a response.
    pub fn new(limits: Limits) -> Self {
        ResponseReader {
            limits,
            buffer: Buffer::new(),
            spent: 0,
            state: State::Head(HeadScanner::default()),
            input: Input::Open,
            exit_code: None,
            tool_end: ToolEnd::Exited,
        }
    }

    /// Returns the buffer for reads from the connection.
    pub fn buffer(&mut self) -> &mut Buffer {
        self.buffer.consume(std::mem::take(&mut self.spent));
        &mut self.buffer
    }

    /// Appends a copy of `bytes` to the buffer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer().extend(bytes);
    }

    /// Marks the end of the connection.
    pub fn receive_eof(&mut self) {
        self.input = Input::Ended;
    }

    /// Removes and returns the bytes after the response, or after its head if the server switches
    /// protocols.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let buffer = self.buffer();
        buffer.take(buffer.len())
    }

    /// Returns the next event: `End` again after [`ResponseEvent::End`], and the same error after
    /// an error.
    pub fn next_event(&mut self) -> Result<ResponseEvent<'_>, MessageError> {
        self.buffer();
        match self.state {
            State::Head(_) => self.read_head(),
            State::Body(_) => self.read_body(),
            State::Done => Ok(self.end()),
            State::Failed(ref error) => Err(error.clone()),
        }
    }

    fn read_head(&mut self) -> Result<ResponseEvent<'_>, MessageError> {
        match self.parse_head() {
            Ok(Some(ParsedHead::Interim(cause))) => Ok(match cause {
                InterimCause::Progress(text) => ResponseEvent::Progress(text),
                InterimCause::Approval(text) => ResponseEvent::Approval(text),
            }),
            Ok(Some(ParsedHead::Final(head, body))) => {
                self.exit_code = head.exit_code;
                self.state = State::Body(body);
                Ok(ResponseEvent::Head(head))
            }
            Ok(None) if self.input == Input::Open => Ok(ResponseEvent::NeedData),
            Ok(None) => Err(self.fail(MessageError::Truncated)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Returns the next head except interim ones without a cause.
    fn parse_head(&mut self) -> Result<Option<ParsedHead>, MessageError> {
        while let State::Head(scanner) = &mut self.state {
            let Some(span) = scanner.scan(&mut self.buffer, &self.limits)? else { break };
            let bytes = self.buffer.as_slice().get(..span.len).unwrap_or_default();
            let (head, cause) = ResponseHead::parse(bytes, span.headers)?;
            self.buffer.consume(span.len);
            // 101 is final: another protocol follows.
            if !matches!(head.status, 100 | 102..=199) {
                let body = ResponseBody::new(head.body, &self.limits);
                return Ok(Some(ParsedHead::Final(head, body)));
            }
            *scanner = HeadScanner::default();
            if let Some(cause) = cause {
                return Ok(Some(ParsedHead::Interim(cause)));
            }
        }
        Ok(None)
    }

    fn read_body(&mut self) -> Result<ResponseEvent<'_>, MessageError> {
        let State::Body(body) = &mut self.state else { return Ok(ResponseEvent::NeedData) };
        let mut bytes = self.buffer.as_slice();
        let step = body.decode(&mut bytes, self.input);
        // Consumed by the next call: the event borrows these bytes.
        self.spent = self.buffer.len() - bytes.len();
        match step {
            Ok(Step::Data(data)) => Ok(ResponseEvent::Data(data)),
            Ok(Step::NeedData) if self.input == Input::Open => Ok(ResponseEvent::NeedData),
            Ok(Step::NeedData) => {
                self.state = State::Failed(MessageError::Truncated);
                Err(MessageError::Truncated)
            }
            Ok(Step::End) => {
                if let Some(code) = body.trailer("x-exit-code") {
                    self.exit_code = parse_exit_code(code);
                }
                if let Some(limit) = body.trailer("x-aifo-limit").and_then(SidecarLimit::from_name)
                {
                    self.tool_end = ToolEnd::Limited(limit);
                }
                if body.trailer("x-aifo-ending") == Some(b"unknown") {
                    self.tool_end = ToolEnd::Unknown;
                }
                self.state = State::Done;
                Ok(self.end())
            }
            Err(error) => {
                self.state = State::Failed(error.into());
                Err(error.into())
            }
        }
    }

    fn end(&self) -> ResponseEvent<'static> {
        ResponseEvent::End { exit_code: self.exit_code, tool_end: self.tool_end }
    }

    fn fail(&mut self, error: MessageError) -> MessageError {
        self.state = State::Failed(error.clone());
        error
    }
}

#[derive(Debug)]
enum State {
    Head(HeadScanner),
    Body(ResponseBody),
    Done,
    Failed(MessageError),
}

/// A head that is reported as an event.
enum ParsedHead {
    /// The progress of an interim response.
    Interim(InterimCause),
    Final(ResponseHead, ResponseBody),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::ChunkError;
    use crate::decode;
    use crate::framing::FramingError;
    use crate::response_body::BodyKind;

    /// Status, body and exit code.
    type Response = (u16, Vec<u8>, Option<u8>);

    fn read<'a>(
        reader: &mut ResponseReader,
        mut pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Response, MessageError> {
        let (status, body, exit_code, _) = decode::response(reader, &mut pieces)?;
        pieces.for_each(|piece| reader.receive(piece));
        Ok((status, body, exit_code))
    }

    /// Reads `wire` whole, byte by byte and, unless it ends with the connection, with trailing
    /// bytes.
    #[track_caller]
    fn check(wire: &str, expected: Result<(u16, &str, Option<u8>), MessageError>) {
        let expected =
            expected.map(|(status, body, code)| (status, body.as_bytes().to_vec(), code));
        let bytes = wire.as_bytes();
        let reader = || ResponseReader::new(Limits::default());
        let mut whole = reader();
        assert_eq!(read(&mut whole, [bytes].into_iter()), expected, "whole: {wire}");
        match &expected {
            Ok((.., code)) => {
                assert_eq!(
                    whole.next_event(),
                    Ok(ResponseEvent::End { exit_code: *code, tool_end: ToolEnd::Exited }),
                    "{wire}"
                );
            }
            Err(error) => assert_eq!(whole.next_event(), Err(error.clone()), "stays: {wire}"),
        }
        assert_eq!(read(&mut reader(), bytes.chunks(1)), expected, "byte by byte: {wire}");
        let lower = wire.to_ascii_lowercase();
        if expected.is_ok() && (lower.contains("content-length") || lower.contains("chunked")) {
            let mut trailing = reader();
            let pieces = [bytes, b"0\r\n"];
            assert_eq!(read(&mut trailing, pieces.into_iter()), expected, "trailing: {wire}");
            assert_eq!(trailing.take_rest(), b"0\r\n", "untouched: {wire}");
        }
    }

    #[test]
    fn plain_responses() {
        let head = "HTTP/1.1 200 OK\r\nX-Exit-Code: 3\r\n";
        check(&format!("{head}Content-Length: 3\r\n\r\nout"), Ok((200, "out", Some(3))));
        check(&format!("{head}Content-Length: 0\r\n\r\n"), Ok((200, "", Some(3))));
        check(&format!("{head}\r\nout"), Ok((200, "out", Some(3))));
        check("HTTP/1.1 200\nx-exit-CODE:3\ncontent-length:3\n\nout", Ok((200, "out", Some(3))));
        check("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Ok((204, "", None)));
    }

    #[test]
    fn chunked_responses() {
        let chunked =
            |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let with_trailer = chunked("6\r\nhello\n\r\n0\r\nX-Exit-Code: 7\r\n\r\n");
        check(&with_trailer, Ok((200, "hello\n", Some(7))));
        check(&chunked("3;x=y\nout\n0;z\nx-exit-code:0\n\n"), Ok((200, "out", Some(0))));
        check(&chunked("3\r\nout\r\n0\r\n\r\n"), Ok((200, "out", None)));
        let bad_size = MessageError::BadChunk(ChunkError::BadSize);
        check(&chunked("3\r\nout\r\n\r\n"), Err(bad_size));
    }

    #[test]
    fn the_trailer_overrides_the_head() {
        let answer = |trailer: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nX-Exit-Code: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailer}\r\n"
            )
        };
        check(&answer("X-Exit-Code: 2\r\n"), Ok((200, "", Some(2))));
        check(&answer(""), Ok((200, "", Some(1))));
        for bad in ["256", "-1", "+1", "", "0x1", "1 1"] {
            check(&answer(&format!("X-Exit-Code: {bad}\r\n")), Ok((200, "", None)));
        }
    }

    #[test]
    fn interim_responses_are_skipped() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Exit-Code: 0\r\n\r\nok";
        check(&format!("{interim}{last}"), Ok((200, "ok", Some(0))));
        check(interim, Err(MessageError::Truncated));
    }

    #[test]
    fn interim_responses_report_the_cause_of_a_delay() {
        let interim = "HTTP/1.1 102 Processing\r\nX-Aifo-Progress: starting it\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Exit-Code: 0\r\n\r\nok";
        check(&format!("{interim}{interim}{last}"), Ok((200, "ok", Some(0))));
        check(&format!("HTTP/1.1 102 Processing\r\n\r\n{last}"), Ok((200, "ok", Some(0))));
        let mut reader = ResponseReader::new(Limits::default());
        reader.receive(format!("{interim}{last}").as_bytes());
        let progress = ResponseEvent::Progress("starting it".to_owned());
        assert_eq!(reader.next_event(), Ok(progress));
        let mut waiting = Vec::new();
        crate::encode_approval(&mut waiting, "rm -r x");
        reader = ResponseReader::new(Limits::default());
        reader.receive(&[&waiting[..], last.as_bytes()].concat());
        assert_eq!(reader.next_event(), Ok(ResponseEvent::Approval("rm -r x".to_owned())));
        assert!(matches!(reader.next_event(), Ok(ResponseEvent::Head(head)) if head.status == 200));
    }

    #[test]
    fn response_heads() {
        let mut reader = ResponseReader::new(Limits::default());
        reader.receive(b"HTTP/1.1 409 Conflict\r\nX-Exec-Id: e1\r\nX-Exit-Code: 86\r\n\r\nwhy");
        let head = ResponseHead {
            status: 409,
            exit_code: Some(86),
            exec_id: Some("e1".to_owned()),
            run: None,
            directory: None,
            body: BodyKind::UntilClose,
        };
        assert_eq!(reader.next_event(), Ok(ResponseEvent::Head(head)));
        assert_eq!(reader.next_event(), Ok(ResponseEvent::Data(b"why")));
        assert_eq!(reader.next_event(), Ok(ResponseEvent::NeedData));
    }

    #[test]
    fn data_is_the_whole_buffer_without_a_copy() {
        let mut reader = ResponseReader::new(Limits::default());
        reader.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n");
        assert!(matches!(reader.next_event(), Ok(ResponseEvent::Head(_))));
        assert_eq!(reader.next_event(), Ok(ResponseEvent::NeedData));
        let spare = reader.buffer().spare(40_000);
        spare[..40_000].fill(b'x');
        let address = spare.as_ptr();
        reader.buffer().commit(40_000);
        let Ok(ResponseEvent::Data(data)) = reader.next_event() else { panic!("no data") };
        assert_eq!((data.len(), data.as_ptr()), (40_000, address));
    }

    #[test]
    fn truncated_responses() {
        for wire in [
            "HTTP/1.1 200 OK\r\nX-Exit-Code: 0\r\nContent-Length: 3\r\n\r\nout",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nout\r\n0\r\nX-Exit-Code: 0\r\n\r\n",
        ] {
            for cut in 0..wire.len() {
                check(&wire[..cut], Err(MessageError::Truncated));
            }
        }
    }

    #[test]
    fn malformed_responses() {
        check("SSH-2.0-x\n\n", Err(MessageError::BadHead("unsupported HTTP version")));
        check("HTTP/1.1 abc\r\n\r\n", Err(MessageError::BadHead("malformed status")));
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            Err(MessageError::BadFraming(FramingError::BadContentLength)),
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            Err(MessageError::BadFraming(FramingError::UnsupportedCoding)),
        );
        check(&"x".repeat(65_537), Err(MessageError::HeadTooLarge));
    }
}
