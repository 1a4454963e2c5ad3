//! The path in a `file:` URI (RFC 8089).

use std::borrow::Cow;

/// The parts of a local `file:` URI, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileUri<'a> {
    /// `file://`, also with `localhost`, or `file:`.
    pub(super) head: &'a str,
    /// From its first `/`, percent-encoded.
    pub(super) path: &'a str,
    /// `?..` and `#..`, which editors use for symbols and lines.
    pub(super) tail: &'a str,
}

impl<'a> FileUri<'a> {
    /// Returns `None` for any other URI, and for other hosts.
    pub(super) fn parse(uri: &'a str) -> Option<Self> {
        let (scheme, rest) = uri.split_once(':')?;
        if !scheme.eq_ignore_ascii_case("file") {
            return None;
        }
        let path = match rest.strip_prefix("//") {
            Some(rest) => {
                let (host, _) = rest.split_once('/')?;
                let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
                is_here.then(|| rest.get(host.len()..)).flatten()?
            }
            None => rest,
        };
        let head = uri.get(..uri.len().checked_sub(path.len())?)?;
        let end = path.find(['?', '#']).unwrap_or(path.len());
        let (path, tail) = path.split_at_checked(end)?;
        path.starts_with('/').then_some(FileUri { head, path, tail })
    }
}

/// Decodes one path component; `None` if invalid.
pub(super) fn decode(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains('%') {
        return Some(Cow::Borrowed(part));
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let [high, low] = *digits;
        let byte = digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?;
        bytes.push(u8::try_from(byte).ok()?);
        rest = after;
    }
    let text = String::from_utf8(bytes).ok()?;
    // A file name cannot contain these.
    (!text.contains(['/', '\0'])).then_some(Cow::Owned(text))
}

/// Percent-encodes a path.
pub(super) fn encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
