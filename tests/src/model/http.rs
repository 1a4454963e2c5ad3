//! The part of HTTP/1.1 that agents use with models: one request per connection.

use std::io::{self, ErrorKind, Read, Write};

use serde_json::Value;

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// With the query.
    pub(super) target: String,
    /// The key that it has, in any of the headers for one.
    pub(super) key: Option<String>,
    pub(super) body: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// A document with its status.
    Whole(u16, Value),
    /// Server-sent events, one per chunk.
    Stream(Vec<Event>),
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The name, in dialects with several kinds of events.
    pub(super) name: Option<String>,
    pub(super) data: String,
}

impl Request {
    /// Reads a request, chunked or by its length. Fails with `UnexpectedEof` if the client
    /// disconnects, with `InvalidData` if it is malformed.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let (mut request, framing, start) = loop {
            if let Some(head) = head(&bytes)? {
                break head;
            }
            more(from, &mut bytes)?;
        };
        bytes.drain(..start);
        request.body = match framing {
            Framing::Length(length) => {
                while bytes.len() < length {
                    more(from, &mut bytes)?;
                }
                bytes.truncate(length);
                bytes
            }
            Framing::Chunked => loop {
                if let Some(body) = unchunked(&bytes)? {
                    break body;
                }
                more(from, &mut bytes)?;
            },
        };
        Ok(request)
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

impl Answer {
    /// The status code.
    pub(super) fn status(&self) -> u16 {
        match self {
            Answer::Whole(status, _) => *status,
            Answer::Stream(_) => 200,
        }
    }

    /// Sends the response, which ends the connection.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Answer::Whole(status, document) => {
                let body = document.to_string();
                let length = body.len();
                write!(
                    to,
                    "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
                    reason(*status),
                )?;
            }
            Answer::Stream(events) => {
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                     Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\
                     Connection: close\r\n\r\n"
                )?;
                for event in events {
                    let name = event.name.as_ref().map(|name| format!("event: {name}\n"));
                    let event = format!("{}data: {}\n\n", name.unwrap_or_default(), event.data);
                    write!(to, "{:x}\r\n{event}\r\n", event.len())?;
                }
                // An agent may leave after the last event.
                let _ = to.write_all(b"0\r\n\r\n");
            }
        }
        Ok(())
    }
}

impl Event {
    /// An event without a name.
    pub(super) fn data(data: impl ToString) -> Self {
        Event { name: None, data: data.to_string() }
    }

    /// An event named by the `type` of its document.
    pub(super) fn typed(document: &Value) -> Self {
        let name = document.get("type").and_then(Value::as_str).map(str::to_owned);
        Event { name, data: document.to_string() }
    }
}

enum Framing {
    Length(usize),
    Chunked,
}

/// The head and the offset of the body; `None` if incomplete.
fn head(bytes: &[u8]) -> io::Result<Option<(Request, Framing, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut parsed = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(start) = parsed.parse(bytes).map_err(invalid)? else {
        return Ok(None);
    };
    let field = |name: &str| {
        let field = parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| String::from_utf8_lossy(field.value).trim().to_ascii_lowercase())
    };
    let framing = match field("transfer-encoding") {
        Some(_) => Framing::Chunked,
        None => match field("content-length") {
            Some(length) => Framing::Length(length.parse().map_err(invalid)?),
            None => Framing::Length(0),
        },
    };
    let key = ["authorization", "x-api-key", "x-goog-api-key"].into_iter().find_map(field);
    let key = key.map(|key| key.strip_prefix("bearer ").unwrap_or(&key).to_owned());
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let (method, target) = (text(parsed.method), text(parsed.path));
    Ok(Some((Request { method, target, key, body: Vec::new() }, framing, start)))
}

/// Decodes a chunked body; `None` if incomplete. Ignores bytes after the last chunk, as the
/// connection ends there.
fn unchunked(mut bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let size = httparse::parse_chunk_size(bytes);
        let Ok(httparse::Status::Complete((start, size))) = size else {
            return size.map(|_| None).map_err(|_| invalid("an odd chunk size"));
        };
        if size == 0 {
            return Ok(Some(body));
        }
        let chunk = usize::try_from(size).ok().and_then(|size| {
            let rest = bytes.get(start..)?;
            Some((rest.get(..size)?, rest.get(size.checked_add(2)?..)?))
        });
        let Some((chunk, rest)) = chunk else { return Ok(None) };
        body.extend_from_slice(chunk);
        bytes = rest;
    }
}

fn more(from: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    let count = from.read(&mut piece)?;
    if count == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    bytes.extend_from_slice(&piece[..count]);
    Ok(())
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_string())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        _ => "Not Found",
    }
}
