//! Lines with a length, as git sends them (gitprotocol-common(5)).

/// The longest line with its length.
const MAX_LINE: usize = 65_520;

/// The most data of a side band in a line, whose first byte is the band.
pub(crate) const MAX_BAND: usize = MAX_LINE - 5;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// The end of a list, `0000`.
    Flush,
    Data(&'a [u8]),
}

/// The bytes are no line: a length that is not four lower-case hexadecimal digits, special, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPacket;

/// Takes the first line. `None` if it is not whole.
pub(crate) fn take(bytes: &[u8]) -> Result<Option<(Packet<'_>, &[u8])>, InvalidPacket> {
    let Some((digits, rest)) = bytes.split_at_checked(4) else { return Ok(None) };
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(is_digit));
    let length = text.and_then(|text| usize::from_str_radix(text, 16).ok());
    match length.ok_or(InvalidPacket)? {
        0 => Ok(Some((Packet::Flush, rest))),
        // A delimiter, the end of a response, a reserved one, and an empty line.
        1..=4 => Err(InvalidPacket),
        length if length > MAX_LINE => Err(InvalidPacket),
        length => {
            let split = rest.split_at_checked(length - 4);
            Ok(split.map(|(data, rest)| (Packet::Data(data), rest)))
        }
    }
}

/// Adds a line. The data is shorter than a line may be.
pub(crate) fn put(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    bytes.extend_from_slice(format!("{:04x}", length + 4).as_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

/// Ends a list.
pub(crate) fn flush(bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b"0000");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_length() {
        let mut bytes = Vec::new();
        put(&mut bytes, &[b"a", b"bc"]);
        flush(&mut bytes);
        assert_eq!(bytes, b"0007abc0000");
        let (packet, rest) = take(&bytes).unwrap().unwrap();
        assert_eq!(packet, Packet::Data(b"abc"));
        assert_eq!(take(rest), Ok(Some((Packet::Flush, &b""[..]))));
        for part in [&b""[..], b"000", b"0007", b"0007ab"] {
            assert_eq!(take(part), Ok(None));
        }
        for invalid in ["0001", "0002", "0003", "0004", "00 7", "+007", "000A", "fff1", "zzzz"] {
            assert_eq!(
                take(format!("{invalid}abcdef").as_bytes()),
                Err(InvalidPacket),
                "{invalid}"
            );
        }
    }
}
