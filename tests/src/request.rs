//! HTTP requests, valid or not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A request. Nothing is validated: suites send malformed ones on purpose.
#[derive(Clone, Debug)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request line and nothing else.
    pub fn new(line: impl Into<String>) -> Self {
        Request { line: line.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Replaces the request line.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.line = line.into();
        self
    }

    /// Adds a header, even if that name exists.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Removes all headers of that name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces a header.
    #[must_use]
    pub fn with(self, name: &str, value: impl Into<String>) -> Self {
        self.without(name).header(name, value)
    }

    /// Sets the protocol version.
    #[must_use]
    pub fn proto(self, version: &str) -> Self {
        self.with("X-Aifo-Proto", version)
    }

    /// Sets the exec id.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.with("X-Aifo-Exec-Id", id)
    }

    /// Sets the body. Its length is declared unless `Content-Length` or `Transfer-Encoding` is set.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Adds a pair to a form body; the value is percent-encoded.
    #[must_use]
    pub fn field(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        if !self.body.is_empty() {
            self.body.push(b'&');
        }
        self.body.extend_from_slice(key.as_bytes());
        self.body.push(b'=');
        self.body.extend_from_slice(percent_encode(value.as_ref().as_bytes()).as_bytes());
        self
    }

    /// Head and body, with CRLF line ends.
    pub fn encode(&self) -> Vec<u8> {
        [self.encode_head().as_bytes(), &self.body].concat()
    }

    /// The head with its empty line.
    pub fn encode_head(&self) -> String {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let framed = |(name, _): &(String, String)| {
            ["Content-Length", "Transfer-Encoding"].iter().any(|f| f.eq_ignore_ascii_case(name))
        };
        if !self.body.is_empty() && !self.headers.iter().any(framed) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head + "\r\n"
    }

    /// The body.
    pub fn encode_body(&self) -> &[u8] {
        &self.body
    }
}

/// Encodes pairs as a form body.
pub fn form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let pairs = pairs.into_iter().map(|(key, value)| format!("{key}={}", percent_encode(value)));
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}

/// Escapes all but unreserved characters; a space becomes `+`.
pub fn percent_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            b' ' => text.push('+'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
