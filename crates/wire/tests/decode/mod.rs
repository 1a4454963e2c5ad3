//! Reads whole messages in pieces, for tests of the readers in and outside of the crate.

use aifo_wire::{
    MessageError, RequestEvent, RequestHead, RequestReader, ResponseEvent, ResponseReader, ToolEnd,
};

/// Status, body, exit code and its meaning.
pub(crate) type Response = (u16, Vec<u8>, Option<u8>, ToolEnd);

/// Reads a request from pieces, then the end.
pub(crate) fn request<'a>(
    reader: &mut RequestReader,
    pieces: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<(RequestHead, Vec<u8>), MessageError> {
    let mut head = None;
    loop {
        match reader.next_event()? {
            RequestEvent::NeedData => match pieces.next() {
                Some(piece) => reader.receive(piece),
                None => reader.receive_eof(),
            },
            RequestEvent::Head(read) => head = Some(read),
            RequestEvent::Body(body) => return Ok((head.expect("a head before the body"), body)),
        }
    }
}

/// Reads a response from pieces, then the end.
pub(crate) fn response<'a>(
    reader: &mut ResponseReader,
    pieces: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<Response, MessageError> {
    let (mut status, mut body) = (0, Vec::new());
    loop {
        match reader.next_event()? {
            ResponseEvent::NeedData => match pieces.next() {
                Some(piece) => reader.receive(piece),
                None => reader.receive_eof(),
            },
            ResponseEvent::Progress(_) | ResponseEvent::Approval(_) => {}
            ResponseEvent::Head(head) => status = head.status,
            ResponseEvent::Data(data) => body.extend_from_slice(data),
            ResponseEvent::End { exit_code, tool_end } => {
                return Ok((status, body, exit_code, tool_end));
            }
        }
    }
}
