//! The chunked transfer coding, both ways.

use crate::limits::Limits;

/// Decodes the chunked coding.
///
/// It stores only incomplete lines and returns data as slices of the input. Lines end in CRLF or
/// LF, extensions are ignored, trailers are collected.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    line: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
    max_line: usize,
    /// Bytes still allowed in trailer lines.
    trailer_room: usize,
}

/// The result of a decoding step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// All input is consumed.
    NeedData,
    /// Data, never empty.
    Data(&'a [u8]),
    /// The end of the body. The remaining input is not part of it.
    End,
}

/// A violation of the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A size line does not start with a hexadecimal number.
    #[error("malformed chunk size")]
    BadSize,
    /// A chunk of more than 2^53 bytes.
    #[error("chunk size too large")]
    SizeTooLarge,
    /// A size line exceeds [`Limits::max_chunk_line`].
    #[error("chunk size line too long")]
    LineTooLong,
    /// A chunk's data is longer than its size.
    #[error("chunk data not followed by a line end")]
    MissingLineEnd,
    /// A trailer line is not `name: value`.
    #[error("malformed trailer")]
    BadTrailer,
    /// The trailers exceed [`Limits::max_trailer`].
    #[error("trailers too long")]
    TrailersTooLong,
}

impl ChunkedDecoder {
    /// Creates a decoder at the start of a body.
    pub fn new(limits: &Limits) -> Self {
        ChunkedDecoder {
            state: State::Size,
            line: Vec::new(),
            trailers: Vec::new(),
            max_line: limits.max_chunk_line,
            trailer_room: limits.max_trailer,
        }
    }

    /// Decodes up to the next data and advances `input`.
    ///
    /// Further calls return [`Step::End`] after the end, and are unspecified after an error.
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, ChunkError> {
        loop {
            match self.state {
                State::Size => {
                    let max = self.max_line;
                    let Some(line) =
                        read_line(&mut self.line, input, max, ChunkError::LineTooLong)?
                    else {
                        return Ok(Step::NeedData);
                    };
                    let size = parse_size(line)?;
                    self.line.clear();
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Data(0) => {
                    // The line end after the data is an empty line: at most 0 bytes.
                    match read_line(&mut self.line, input, 0, ChunkError::MissingLineEnd)? {
                        Some(_) => {
                            self.line.clear();
                            self.state = State::Size;
                        }
                        None => return Ok(Step::NeedData),
                    }
                }
                State::Data(size) => {
                    let wanted = usize::try_from(size).unwrap_or(usize::MAX).min(input.len());
                    let (data, rest) = input.split_at(wanted);
                    if data.is_empty() {
                        return Ok(Step::NeedData);
                    }
                    *input = rest;
                    self.state = State::Data(size - data.len() as u64);
                    return Ok(Step::Data(data));
                }
                State::Trailers => {
                    let max = self.trailer_room;
                    let too_long = ChunkError::TrailersTooLong;
                    let Some(line) = read_line(&mut self.line, input, max, too_long)? else {
                        return Ok(Step::NeedData);
                    };
                    if line.is_empty() {
                        self.state = State::End;
                        return Ok(Step::End);
                    }
                    self.trailers.push(parse_trailer(line)?);
                    self.trailer_room = max.saturating_sub(line.len() + LINE_END.len());
                    self.line.clear();
                }
                State::End => return Ok(Step::End),
            }
        }
    }

    /// Returns the last trailer with this lower-case name. Complete only after [`Step::End`].
    pub fn trailer(&self, name: &str) -> Option<&[u8]> {
        self.trailers.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// Returns all trailers in order, with lower-case names.
    pub fn trailers(&self) -> &[(String, Vec<u8>)] {
        &self.trailers
    }
}

/// Appends the size line of a chunk of `len` bytes. `len` must not be 0, which ends the body.
pub fn encode_chunk_head(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "an empty chunk ends the body");
    out.extend_from_slice(format!("{len:x}\r\n").as_bytes());
}

/// The line end after a chunk's data.
pub const CHUNK_END: &[u8] = LINE_END;

/// Appends `data` as one chunk. Appends nothing if it is empty: an empty chunk ends the body.
pub fn encode_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        encode_chunk_head(out, data.len());
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size,
    /// Bytes of data left in the chunk; at 0, the line end follows.
    Data(u64),
    Trailers,
    End,
}

const LINE_END: &[u8] = b"\r\n";

/// The largest integer that a double represents exactly: the limit of JavaScript peers.
const MAX_SIZE: u64 = 1 << 53;

/// Moves input into `line` until it is complete, and returns it without its line end.
///
/// Stores at most `max` bytes and a line end.
fn read_line<'l>(
    line: &'l mut Vec<u8>,
    input: &mut &[u8],
    max: usize,
    too_long: ChunkError,
) -> Result<Option<&'l [u8]>, ChunkError> {
    let room = (max + LINE_END.len()).saturating_sub(line.len()).min(input.len());
    let end = input.iter().take(room).position(|&byte| byte == b'\n');
    let (part, rest) = input.split_at(end.map_or(room, |at| at + 1));
    line.extend_from_slice(part);
    *input = rest;
    let content = line.strip_suffix(b"\n").unwrap_or(line);
    // A trailing CR may be part of a line end whose LF has not arrived.
    let content = content.strip_suffix(b"\r").unwrap_or(content);
    if content.len() > max { Err(too_long) } else { Ok(end.map(|_| content)) }
}

/// Parses a size line: digits, then nothing, blanks or an extension.
///
/// Requires a leading digit. An empty line or a bare `;ext` must not parse as 0, which would end
/// the body early and run a truncated argument list. `from_str_radix` would also accept `+5`.
fn parse_size(line: &[u8]) -> Result<u64, ChunkError> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, after) = line.split_at(digits);
    if digits.is_empty() || !matches!(after.trim_ascii_start().first(), None | Some(b';')) {
        return Err(ChunkError::BadSize);
    }
    digits.iter().try_fold(0u64, |size, &digit| {
        let digit = char::from(digit).to_digit(16).ok_or(ChunkError::BadSize)?;
        let size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
        size.filter(|size| *size <= MAX_SIZE).ok_or(ChunkError::SizeTooLarge)
    })
}

fn parse_trailer(line: &[u8]) -> Result<(String, Vec<u8>), ChunkError> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(ChunkError::BadTrailer)?;
    let (name, value) = line.split_at(colon);
    if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
        return Err(ChunkError::BadTrailer);
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let value = value.strip_prefix(b":").unwrap_or(value);
    Ok((name, value.trim_ascii().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Decoded = (Vec<u8>, Vec<(String, Vec<u8>)>);

    fn limits() -> Limits {
        Limits { max_chunk_line: 12, max_trailer: 20, ..Limits::default() }
    }

    /// Decodes pieces; returns `None` if the body does not end, and the rest of the last piece.
    fn decode(pieces: &[&[u8]]) -> Result<(Option<Decoded>, Vec<u8>), ChunkError> {
        let mut decoder = ChunkedDecoder::new(&limits());
        let mut body = Vec::new();
        let mut left: &[u8] = &[];
        for piece in pieces {
            left = piece;
            loop {
                match decoder.decode(&mut left)? {
                    Step::NeedData => break,
                    Step::Data(data) => {
                        assert!(!data.is_empty());
                        body.extend_from_slice(data);
                    }
                    Step::End => {
                        return Ok((Some((body, decoder.trailers().to_vec())), left.to_vec()));
                    }
                }
            }
            assert!(left.is_empty(), "all input is consumed");
        }
        Ok((None, left.to_vec()))
    }

    /// Decodes `input` whole, byte by byte, and with trailing bytes.
    #[track_caller]
    fn check(input: &[u8], expected: Result<Option<Decoded>, ChunkError>) {
        let shown = String::from_utf8_lossy(input);
        assert_eq!(decode(&[input]).map(|end| end.0), expected, "whole: {shown}");
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(decode(&bytes).map(|end| end.0), expected, "byte by byte: {shown}");
        if let Ok(Some(decoded)) = expected {
            let more = [input, b"\r\n0\r\n"].concat();
            let untouched = (Some(decoded), b"\r\n0\r\n".to_vec());
            assert_eq!(decode(&[&more]), Ok(untouched), "with trailing bytes: {shown}");
        }
    }

    #[track_caller]
    fn check_body(input: &str, body: &str, trailers: &[(&str, &str)]) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        let trailers = trailers.iter().map(own).collect();
        check(input.as_bytes(), Ok(Some((body.as_bytes().to_vec(), trailers))));
    }

    #[test]
    fn bodies() {
        check_body("0\r\n\r\n", "", &[]);
        check_body("5\r\nhello\r\n0\r\n\r\n", "hello", &[]);
        check_body("5\nhello\n0\n\n", "hello", &[]);
        check_body("5\nhello\r\n1\r\n!\n0\r\n\n", "hello!", &[]);
        check_body("00A;ext=\"v\"\r\n0123456789\r\n0;x\r\n\r\n", "0123456789", &[]);
        check_body("2 \r\nok\r\n0\t;x\r\n\r\n", "ok", &[]);
        check_body("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", &[]);
    }

    #[test]
    fn trailers() {
        check_body("0\r\nX-Exit-Code: 7\r\n\r\n", "", &[("x-exit-code", "7")]);
        check_body("0\nx-EXIT-code:7\n\n", "", &[("x-exit-code", "7")]);
        check_body("0\r\na:1\r\nb:\r\na: 2 \r\n\r\n", "", &[("a", "1"), ("b", ""), ("a", "2")]);
        let mut decoder = ChunkedDecoder::new(&limits());
        let end = decoder.decode(&mut &b"0\r\nA: 1\r\na: 2\r\n\r\n"[..]);
        assert_eq!(
            (end, decoder.trailer("a")),
            (Ok(Step::End), Some(&b"2"[..])),
            "the last counts"
        );
        for line in ["novalue", ": 1", "a b: 1", "\u{e9}: 1"] {
            check(format!("0\r\n{line}\r\n").as_bytes(), Err(ChunkError::BadTrailer));
        }
        check(
            b"0\r\na: 45678901234567890\r\n\r\n",
            Ok(Some((vec![], vec![("a".to_owned(), b"45678901234567890".to_vec())]))),
        );
        check(b"0\r\na: 456789012345678901\r\n\r\n", Err(ChunkError::TrailersTooLong));
        check(b"0\r\na: 4567890\r\na: 4567890\r\n\r\n", Err(ChunkError::TrailersTooLong));
    }

    #[test]
    fn malformed_sizes() {
        for line in ["", ";ext", "+5", "-5", "0x5", "5 5", " 5", "g", "5g", "\r"] {
            check(format!("{line}\r\nhello").as_bytes(), Err(ChunkError::BadSize));
        }
        check(b"20000000000001\n", Err(ChunkError::LineTooLong));
        let mut decoder = ChunkedDecoder::new(&Limits::default());
        let too_large: [&[u8]; 3] =
            [b"20000000000001\n", b"10000000000000000\n", b"fffffffffffffffff\n"];
        for mut line in too_large {
            let result = decoder.clone().decode(&mut line);
            assert_eq!(result, Err(ChunkError::SizeTooLarge));
        }
        assert_eq!(decoder.decode(&mut &b"20000000000000\n"[..]), Ok(Step::NeedData), "2^53");
    }

    #[test]
    fn lines_are_bounded() {
        check(b"1;3456789012\r\nx\r\n0\r\n\r\n", Ok(Some((b"x".to_vec(), vec![]))));
        check(b"1;34567890123\r\nx\r\n", Err(ChunkError::LineTooLong));
        check(b"1;3456789012345", Err(ChunkError::LineTooLong));
    }

    #[test]
    fn data_ends_after_its_size() {
        for input in ["2\r\nabc\r\n0\r\n\r\n", "2\r\nab0\r\n\r\n", "2\nab\r0\n\n", "1\na\r\r\n"] {
            check(input.as_bytes(), Err(ChunkError::MissingLineEnd));
        }
    }

    #[test]
    fn truncated_bodies_do_not_end() {
        let whole = b"5\r\nhello\r\n0\r\nX: y\r\n\r\n";
        for cut in 0..whole.len() {
            check(&whole[..cut], Ok(None));
        }
    }

    #[test]
    fn encoding() {
        let mut out = Vec::new();
        encode_chunk(&mut out, b"");
        assert!(out.is_empty(), "an empty chunk would end the body");
        encode_chunk(&mut out, &[b'x'; 26]);
        assert_eq!(out, b"1a\r\nxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n");
    }
}
