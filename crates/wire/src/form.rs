//! `application/x-www-form-urlencoded`, for arbitrary bytes.
//!
//! Arguments are bytes, not necessarily UTF-8. As an argument list may be most of a MiB, both
//! directions copy runs of plain bytes and look up the others in a table.

/// A decoded form: pairs of byte strings in order, possibly with repeated keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// All keys and values, concatenated.
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
}

/// The ends of a pair in [`Form::bytes`]; it starts at the end of the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    key_end: usize,
    value_end: usize,
}

impl Form {
    /// Returns the last value of `key` (`spec/toolexec.md#form`).
    pub fn last(&self, key: &str) -> Option<&[u8]> {
        self.all(key).last()
    }

    /// Returns all values of `key` in order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(name, _)| *name == key.as_bytes()).map(|(_, value)| value)
    }

    /// Returns all pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.pairs.iter().map(move |pair| {
            let key = self.bytes.get(start..pair.key_end).unwrap_or_default();
            let value = self.bytes.get(pair.key_end..pair.value_end).unwrap_or_default();
            start = pair.value_end;
            (key, value)
        })
    }
}

/// Decodes a body. Never fails: invalid escapes (`%zz`) are kept, a pair without `=` is a key with
/// an empty value, and empty pairs (`&&`) are ignored.
pub fn decode_form(body: &[u8]) -> Form {
    let mut form = Form { bytes: Vec::with_capacity(body.len()), pairs: Vec::new() };
    for pair in body.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|&byte| byte == b'=');
        let (key, value) = match equals {
            Some(at) => (pair.get(..at), pair.get(at + 1..)),
            None => (Some(pair), None),
        };
        unescape(key.unwrap_or_default(), &mut form.bytes);
        let key_end = form.bytes.len();
        unescape(value.unwrap_or_default(), &mut form.bytes);
        form.pairs.push(Pair { key_end, value_end: form.bytes.len() });
    }
    form
}

/// Encodes pairs in order. `A-Z a-z 0-9 - _ . ~` are kept, a space becomes `+`, all others `%XX`.
pub fn encode_form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in pairs {
        if !body.is_empty() {
            body.push(b'&');
        }
        body.reserve(key.len() + value.len() + 1);
        escape(key.as_bytes(), &mut body);
        body.push(b'=');
        escape(value, &mut body);
    }
    body
}

fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = text.iter().position(|&byte| matches!(byte, b'%' | b'+')) {
        let (plain, special) = text.split_at(at);
        out.extend_from_slice(plain);
        text = match special {
            [b'%', high, low, rest @ ..] => match (hex_value(*high), hex_value(*low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest
                }
                // Consume only the percent sign: in `%%41` the second escape is valid.
                _ => keep_percent(special, out),
            },
            [b'+', rest @ ..] => {
                out.push(b' ');
                rest
            }
            _ => keep_percent(special, out),
        };
    }
    out.extend_from_slice(text);
}

fn keep_percent<'a>(special: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    out.push(b'%');
    special.strip_prefix(b"%").unwrap_or_default()
}

fn escape(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = bytes.iter().position(|&byte| !IS_PLAIN[usize::from(byte)]) {
        let (plain, special) = bytes.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, rest)) = special.split_first() else { break };
        match byte {
            b' ' => out.push(b'+'),
            _ => out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
        bytes = rest;
    }
    out.extend_from_slice(bytes);
}

fn hex_value(digit: u8) -> Option<u8> {
    let value = HEX_VALUE[usize::from(digit)];
    (value < 16).then_some(value)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Bytes that need no escape.
const IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let plain = (byte as u8).is_ascii_alphanumeric();
        table[byte] = plain || matches!(byte as u8, b'-' | b'_' | b'.' | b'~');
        byte += 1;
    }
    table
};

/// The value of a hexadecimal digit; 255 for every other byte.
const HEX_VALUE: [u8; 256] = {
    let mut table = [255; 256];
    let mut value = 0;
    while value < 16 {
        let digit = HEX[value];
        table[digit as usize] = value as u8;
        table[digit.to_ascii_lowercase() as usize] = value as u8;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[(&str, &[u8])]) {
        let form = decode_form(body.as_bytes());
        let pairs: Vec<_> = form.iter().collect();
        let expected: Vec<_> = expected.iter().map(|(k, v)| (k.as_bytes(), *v)).collect();
        assert_eq!(pairs, expected, "{body}");
    }

    #[test]
    fn pairs() {
        check("", &[]);
        check("tool=make&arg=a&arg=b", &[("tool", b"make"), ("arg", b"a"), ("arg", b"b")]);
        check("arg=&arg", &[("arg", b""), ("arg", b"")]);
        check("&&a=1&&b=2&", &[("a", b"1"), ("b", b"2")]);
        check("=v&=", &[("", b"v"), ("", b"")]);
        check("a=b=c", &[("a", b"b=c")]);
        check("a;b=1", &[("a;b", b"1")]);
    }

    #[test]
    fn escapes() {
        check("a%3D=%26+%2B", &[("a=", b"& +")]);
        check("a=%ff%FF%00%0a", &[("a", b"\xff\xff\0\n")]);
        check(
            "a=%zz&b=%&c=%4&d=%%41&e=%4%41",
            &[("a", b"%zz"), ("b", b"%"), ("c", b"%4"), ("d", b"%A"), ("e", b"%4A")],
        );
        check("a=caf\u{e9}", &[("a", "caf\u{e9}".as_bytes())]);
    }

    #[test]
    fn lookup_by_key() {
        let form = decode_form(b"arg=1&tool=a&arg=&tool=b&arg=3");
        assert_eq!(form.last("tool"), Some(&b"b"[..]));
        assert_eq!(form.last("cwd"), None);
        assert_eq!(form.all("arg").collect::<Vec<_>>(), [&b"1"[..], b"", b"3"]);
    }

    #[test]
    fn encoding() {
        let pairs: [(&str, &[u8]); 3] = [("tool", b"g++"), ("arg", b"a b/~-_.9"), ("arg", b"")];
        assert_eq!(encode_form(pairs), b"tool=g%2B%2B&arg=a+b%2F~-_.9&arg=");
    }

    #[test]
    fn every_byte_round_trips() {
        let bytes: Vec<u8> = (0..=255).collect();
        let body = encode_form([("arg", &bytes[..])]);
        assert!(body.iter().all(|b| IS_PLAIN[usize::from(*b)] || b"%+=".contains(b)));
        assert_eq!(decode_form(&body).last("arg"), Some(&bytes[..]));
    }
}
