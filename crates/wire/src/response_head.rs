//! Parses the head of a response.

use aifo_types::FileId;

use crate::framing::Framing;
use crate::head::{last_header, owned_headers, parse_failure};
use crate::message_error::MessageError;
use crate::response_body::BodyKind;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// `X-Exit-Code`, if it is a number from 0 to 255.
    pub exit_code: Option<u8>,
    /// `X-Exec-Id`, as echoed by the server.
    pub exec_id: Option<String>,
    /// `X-Aifo-Run`: how the client may run the call itself.
    pub run: Option<RunPermission>,
    /// `X-Aifo-Directory`: the directory in which a user allowed that.
    pub directory: Option<FileId>,
    /// How the body is delimited.
    pub body: BodyKind,
}

/// How a client may run a call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPermission {
    /// `in-place`: as it is.
    InPlace,
    /// `in-place-without-network`.
    WithoutNetwork,
}

/// Why the final response is delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InterimCause {
    /// `X-Aifo-Progress`.
    Progress(String),
    /// `X-Aifo-Approval`.
    Approval(String),
}

impl ResponseHead {
    /// Returns the head and, from an interim response, its cause.
    pub(crate) fn parse(
        head: &[u8],
        header_lines: usize,
    ) -> Result<(Self, Option<InterimCause>), MessageError> {
        let mut headers = vec![httparse::EMPTY_HEADER; header_lines];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(head) {
            Ok(httparse::Status::Complete(len)) if len == head.len() => {}
            Ok(_) => return Err(MessageError::BadHead("malformed head")),
            Err(error) => return Err(MessageError::BadHead(parse_failure(error))),
        }
        let status = response.code.unwrap_or_default();
        let headers = owned_headers(response.headers);
        let body = match Framing::of(&headers)? {
            // These never have a body, regardless of headers.
            _ if matches!(status, 204 | 304) => BodyKind::Length(0),
            Framing::Chunked => BodyKind::Chunked,
            Framing::Length(length) => BodyKind::Length(length),
            Framing::Unmarked => BodyKind::UntilClose,
        };
        let text = |name| {
            last_header(&headers, name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let head = ResponseHead {
            status,
            exit_code: last_header(&headers, "x-exit-code").and_then(parse_exit_code),
            exec_id: text("x-exec-id"),
            run: match last_header(&headers, "x-aifo-run") {
                Some(b"in-place") => Some(RunPermission::InPlace),
                Some(b"in-place-without-network") => Some(RunPermission::WithoutNetwork),
                _ => None,
            },
            directory: text("x-aifo-directory").and_then(|id| {
                let (device, inode) = id.split_once(':')?;
                Some(FileId { device: device.parse().ok()?, inode: inode.parse().ok()? })
            }),
            body,
        };
        let approval = text("x-aifo-approval").map(InterimCause::Approval);
        let cause = approval.or_else(|| text("x-aifo-progress").map(InterimCause::Progress));
        Ok((head, cause))
    }
}

pub(crate) fn parse_exit_code(value: &[u8]) -> Option<u8> {
    // `u8::from_str` would accept `+5`.
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}
