//! Extent of a request body: counts a length, or follows the chunked coding (RFC 9112, section 7.1).
//!
//! The bytes pass unchanged. The end of the body is the end of all bytes that reach the server.

/// The rest of a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Body(State);

/// The chunked coding is malformed, or a line or the trailer is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its request has a malformed chunked body")]
pub struct BodyError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes up to the end.
    Length(u64),
    /// In a chunk's size, with that many digits.
    Size {
        value: u64,
        digits: u8,
    },
    /// In an extension of the size's line, with that many bytes.
    Extension {
        value: u64,
        bytes: u16,
    },
    /// After CR at the end of the size's line.
    SizeEnd {
        value: u64,
    },
    /// In a chunk's data.
    Data {
        left: u64,
    },
    /// After a chunk's data.
    DataEnd,
    /// After CR at the end of a chunk's data.
    DataLineFeed,
    /// In the trailer, with that many bytes, and in the current line.
    Trailer {
        bytes: u16,
        line: u16,
    },
    /// After CR in the trailer.
    TrailerLineFeed {
        bytes: u16,
        line: u16,
    },
    Complete,
}

/// The most digits of a `Content-Length`: below 2^60.
pub(crate) const MAX_LENGTH_DIGITS: usize = 18;

/// The most digits of a chunk's size.
const MAX_SIZE_DIGITS: u8 = 15;

/// The longest extension of a chunk's size in bytes.
const MAX_EXTENSION: u16 = 1024;

/// The longest trailer in bytes.
const MAX_TRAILER: u16 = 8192;

impl Body {
    /// A body of a known length in bytes.
    pub fn of_length(length: u64) -> Body {
        Body(if length == 0 { State::Complete } else { State::Length(length) })
    }

    /// A body in the chunked coding.
    pub fn chunked() -> Body {
        Body(State::Size { value: 0, digits: 0 })
    }

    /// Returns whether the body ended.
    pub fn is_complete(&self) -> bool {
        self.0 == State::Complete
    }

    /// Returns how many of the next bytes belong to the body: fewer than all only at its end.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < bytes.len() {
            let left = bytes.len() - at;
            match &mut self.0 {
                State::Complete => break,
                State::Length(rest) => {
                    at += skip(rest, left);
                    if *rest == 0 {
                        self.0 = State::Complete;
                    }
                }
                State::Data { left: rest } => {
                    at += skip(rest, left);
                    if *rest == 0 {
                        self.0 = State::DataEnd;
                    }
                }
                state => {
                    self.0 = step(*state, bytes[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }
}

/// Reduces `rest` by at most `available`, and returns by how much.
fn skip(rest: &mut u64, available: usize) -> usize {
    let skipped = available.min(usize::try_from(*rest).unwrap_or(usize::MAX));
    *rest -= skipped as u64;
    skipped
}

/// Follows one byte outside of data.
fn step(state: State, byte: u8) -> Result<State, BodyError> {
    let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    match (state, byte) {
        (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() => {
            if digits == MAX_SIZE_DIGITS {
                return Err(BodyError);
            }
            let digit = u64::from(char::from(byte).to_digit(16).ok_or(BodyError)?);
            Ok(State::Size { value: value << 4 | digit, digits: digits + 1 })
        }
        (State::Size { digits: 0, .. }, _) => Err(BodyError),
        (State::Size { value, .. }, b'\r') => Ok(State::SizeEnd { value }),
        (State::Size { value, .. }, b';' | b' ' | b'\t') => {
            Ok(State::Extension { value, bytes: 1 })
        }
        (State::Extension { value, .. }, b'\r') => Ok(State::SizeEnd { value }),
        (State::Extension { value, bytes }, _) if is_text && bytes < MAX_EXTENSION => {
            Ok(State::Extension { value, bytes: bytes + 1 })
        }
        (State::SizeEnd { value: 0 }, b'\n') => Ok(State::Trailer { bytes: 0, line: 0 }),
        (State::SizeEnd { value }, b'\n') => Ok(State::Data { left: value }),
        (State::DataEnd, b'\r') => Ok(State::DataLineFeed),
        (State::DataLineFeed, b'\n') => Ok(State::Size { value: 0, digits: 0 }),
        (State::Trailer { bytes, line }, b'\r') => Ok(State::TrailerLineFeed { bytes, line }),
        (State::Trailer { bytes, line }, _) if is_text && bytes < MAX_TRAILER => {
            Ok(State::Trailer { bytes: bytes + 1, line: line + 1 })
        }
        (State::TrailerLineFeed { line: 0, .. }, b'\n') => Ok(State::Complete),
        (State::TrailerLineFeed { bytes, .. }, b'\n') => Ok(State::Trailer { bytes, line: 0 }),
        _ => Err(BodyError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of the bytes belong to a chunked body, and whether it ended. Splits make no
    /// difference.
    fn chunked(bytes: &[u8]) -> Result<(usize, bool), BodyError> {
        let mut body = Body::chunked();
        let whole = body.take(bytes).map(|taken| (taken, body.is_complete()));
        let mut body = Body::chunked();
        let mut taken = 0;
        for byte in bytes {
            match body.take(std::slice::from_ref(byte)) {
                Ok(count) => taken += count,
                Err(error) => {
                    assert_eq!(whole, Err(error));
                    return whole;
                }
            }
        }
        assert_eq!(whole, Ok((taken, body.is_complete())));
        whole
    }

    #[test]
    fn a_length_is_counted() {
        let mut body = Body::of_length(5);
        assert_eq!(body.take(b"abc"), Ok(3));
        assert!(!body.is_complete());
        assert_eq!(body.take(b"deGET"), Ok(2));
        assert!(body.is_complete());
        assert_eq!(body.take(b"GET"), Ok(0));
        assert!(Body::of_length(0).is_complete());
    }

    #[test]
    fn chunks_are_followed_to_their_end() {
        let rows: [(&[u8], bool); 9] = [
            (b"0\r\n\r\n", true),
            (b"5\r\nhello\r\n0\r\n\r\n", true),
            (b"000A;x=\"y\"\r\n0123456789\r\n00\r\nX: y\r\nZ: w\r\n\r\n", true),
            (b"5 \r\nhello\r\n0\r\n\r\n", true),
            (b"", false),
            (b"5\r\nhel", false),
            (b"5\r\nhello\r\n", false),
            (b"0\r\n", false),
            (b"0\r\nX: y\r\n", false),
        ];
        for (bytes, complete) in rows {
            assert_eq!(chunked(bytes), Ok((bytes.len(), complete)), "{bytes:?}");
            let more = [bytes, b"GET / HTTP/1.1\r\n"].concat();
            if complete {
                assert_eq!(chunked(&more), Ok((bytes.len(), true)), "{bytes:?}");
            }
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let extension = format!("5;{}", "x".repeat(usize::from(MAX_EXTENSION) + 1));
        let trailer = format!("0\r\n{}", "x".repeat(usize::from(MAX_TRAILER) + 1));
        let rows: [&[u8]; 15] = [
            b"\r\n",
            b";x\r\n",
            b"x\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b"+5\r\n",
            b"5\nhello",
            b"5\rhello",
            b"5\r\nhelloo",
            b"5\r\nhello\n",
            b"0000000000000000\r\n",
            b"5;x\ny\r\n",
            b"0\r\nX: y\n\r\n",
            extension.as_bytes(),
            trailer.as_bytes(),
        ];
        for bytes in rows {
            assert_eq!(chunked(bytes), Err(BodyError), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
