//! Parses a request head.

use std::fmt;

use crate::head::{last_header, owned_headers, parse_failure};

/// A request head.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method as sent: methods are case-sensitive.
    pub method: String,
    /// The request target as sent, with its query.
    pub target: String,
    /// The protocol version.
    pub version: Version,
    /// Names as sent, values without surrounding white space.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// The supported HTTP versions. A 1.0 client cannot read a chunked response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl RequestHead {
    /// Returns the target without its query, which this protocol ignores.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the value of the last header with this name, in any case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        last_header(&self.headers, name)
    }

    /// Returns whether the client waits for [`CONTINUE`](crate::CONTINUE) before it sends the body.
    /// HTTP/1.0 has no interim responses.
    pub fn expects_continue(&self) -> bool {
        let expects = |value: &[u8]| value.eq_ignore_ascii_case(b"100-continue");
        self.version == Version::Http11 && self.header("expect").is_some_and(expects)
    }

    /// Parses a complete head with `header_lines` header lines. Errors: the reason as text.
    pub(crate) fn parse(head: &[u8], header_lines: usize) -> Result<Self, &'static str> {
        let mut headers = vec![httparse::EMPTY_HEADER; header_lines];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            // httparse and the scanner must agree on the head's end, or one would read as a body
            // what the other reads as a request.
            Ok(httparse::Status::Complete(len)) if len == head.len() => {}
            Ok(_) => return Err("malformed head"),
            Err(error) => return Err(parse_failure(error)),
        }
        Ok(RequestHead {
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or_default().to_owned(),
            version: match request.version {
                Some(0) => Version::Http10,
                _ => Version::Http11,
            },
            headers: owned_headers(request.headers),
        })
    }
}

impl fmt::Debug for RequestHead {
    /// Omits header values: one of them is the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "{} {} {:?} {names:?}", self.method, self.target, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[&str]) -> RequestHead {
        let text = format!("{}\r\n\r\n", lines.join("\r\n"));
        RequestHead::parse(text.as_bytes(), lines.len() - 1).unwrap()
    }

    #[test]
    fn targets_lose_their_query() {
        for (target, path) in
            [("/exec", "/exec"), ("/exec?a=b", "/exec"), ("/?x?y", "/"), ("*", "*")]
        {
            assert_eq!(head(&[&format!("POST {target} HTTP/1.1")]).path(), path);
        }
    }

    #[test]
    fn the_last_header_counts() {
        let head = head(&["POST / HTTP/1.1", "X-A: 1", "x-a: \t2 ", "b:", "c: \u{e9}"]);
        assert_eq!(head.header("X-a"), Some(&b"2"[..]));
        assert_eq!(head.header("B"), Some(&b""[..]));
        assert_eq!(head.header("c"), Some("\u{e9}".as_bytes()));
        assert_eq!(head.header("d"), None);
    }

    #[test]
    fn only_http_1_1_clients_expect_continue() {
        assert!(head(&["POST / HTTP/1.1", "expect: 100-Continue"]).expects_continue());
        assert!(!head(&["POST / HTTP/1.0", "expect: 100-continue"]).expects_continue());
        assert!(!head(&["POST / HTTP/1.1", "expect: else"]).expects_continue());
        assert!(!head(&["POST / HTTP/1.1"]).expects_continue());
    }

    #[test]
    fn debug_output_omits_the_token() {
        let shown = format!("{:?}", head(&["POST /exec HTTP/1.1", "Authorization: Bearer s3cret"]));
        assert_eq!(shown, r#"POST /exec Http11 ["Authorization"]"#);
    }
}
