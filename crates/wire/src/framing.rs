//! How a message's headers delimit its body.

use crate::head::{Headers, last_header};

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Not by headers: a request has no body, a response's ends with the connection.
    Unmarked,
    /// By a length in bytes. Larger numbers are parsed as `u64::MAX`.
    Length(u64),
    /// By the chunked coding.
    Chunked,
}

/// Headers that delimit a body ambiguously.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A `Content-Length` is not a decimal number.
    #[error("malformed content length")]
    BadContentLength,
    /// Two `Content-Length` headers differ.
    #[error("conflicting content lengths")]
    ConflictingLengths,
    /// A `Transfer-Encoding` is not exactly `chunked`.
    #[error("unsupported transfer coding")]
    UnsupportedCoding,
}

impl Framing {
    /// Evaluates the headers (`spec/toolexec.md#body`): chunked overrides a length, and the last
    /// `Transfer-Encoding` counts. Ambiguities are errors: another coding, two different lengths,
    /// or a list of lengths, even if equal.
    pub(crate) fn of(headers: &Headers) -> Result<Self, FramingError> {
        if let Some(coding) = last_header(headers, "transfer-encoding") {
            let chunked = coding.eq_ignore_ascii_case(b"chunked");
            return chunked.then_some(Framing::Chunked).ok_or(FramingError::UnsupportedCoding);
        }
        let mut framing = Framing::Unmarked;
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("content-length") {
                let length = Framing::Length(parse_length(value)?);
                if framing != Framing::Unmarked && framing != length {
                    return Err(FramingError::ConflictingLengths);
                }
                framing = length;
            }
        }
        Ok(framing)
    }
}

fn parse_length(value: &[u8]) -> Result<u64, FramingError> {
    // Digits only: `u64::from_str` would take `+5`.
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(FramingError::BadContentLength);
    }
    let append = |length: u64, digit: &u8| {
        length.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')))
    };
    Ok(value.iter().fold(0, append))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `headers` is one header a line.
    #[track_caller]
    fn check(headers: &str, expected: Result<Framing, FramingError>) {
        let split = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_owned(), value.trim().as_bytes().to_vec())
        };
        assert_eq!(Framing::of(&headers.lines().map(split).collect()), expected, "{headers}");
    }

    #[test]
    fn lengths() {
        check("Host: x", Ok(Framing::Unmarked));
        check("content-LENGTH: 007", Ok(Framing::Length(7)));
        check("Content-Length: 5\nContent-Length: 5", Ok(Framing::Length(5)));
        check("Content-Length: 99999999999999999999999", Ok(Framing::Length(u64::MAX)));
        for bad in ["", "+5", "-1", "5, 5", "5 5", "0x5", "5\u{e9}", "five"] {
            check(&format!("Content-Length: {bad}"), Err(FramingError::BadContentLength));
        }
        let different = "Content-Length: 5\nX: y\nContent-Length: 6";
        check(different, Err(FramingError::ConflictingLengths));
        check("Content-Length: 5\nContent-Length: x", Err(FramingError::BadContentLength));
    }

    #[test]
    fn codings() {
        check("Transfer-Encoding: Chunked", Ok(Framing::Chunked));
        check("Content-Length: +x\nTransfer-Encoding: chunked", Ok(Framing::Chunked));
        check("Transfer-Encoding: gzip\nTransfer-Encoding: chunked", Ok(Framing::Chunked));
        let last_is_gzip = "Transfer-Encoding: chunked\nTransfer-Encoding: gzip";
        check(last_is_gzip, Err(FramingError::UnsupportedCoding));
        for other in ["", "gzip", "identity", "gzip, chunked", "chunked, chunked", "chunked;q=1"] {
            check(&format!("Transfer-Encoding: {other}"), Err(FramingError::UnsupportedCoding));
        }
    }
}
