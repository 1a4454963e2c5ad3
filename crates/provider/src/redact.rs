//! Removes a key from the bytes of a response, as they pass.

use hyper::HeaderMap;
use hyper::body::Bytes;
use memchr::memchr3_iter;
use zeroize::Zeroizing;

use crate::key::Key;

/// Shorter keys are placeholders, as for servers on localhost, and may be words of any text.
const MIN_SECRET: usize = 16;

/// Backslashes of an escape in JSON: several where a JSON text is a string of another one.
const MAX_BACKSLASHES: usize = 8;

/// Overwrites keys with `*`, each behind the one before. The length does not change.
#[derive(Clone)]
pub(crate) struct Redactor(Vec<KeyRedactor>);

/// Overwrites a key with `*`, whichever of its characters are escaped as in JSON or URLs. The length does not
/// change. It holds back only bytes that may be the beginning of the key.
#[derive(Clone)]
struct KeyRedactor {
    key: Key,
    /// The last bytes, which may be the beginning of the key.
    held: Zeroizing<Vec<u8>>,
}

/// Result of comparing bytes with the key, or with one of its characters.
enum Comparison {
    /// They begin with it, in this number of bytes.
    Equal(usize),
    /// They end within it, after this number of characters.
    Partial(usize),
    Different,
}

impl Redactor {
    /// Keys that are too short for a secret are left out.
    pub(crate) fn of(keys: &[Key]) -> Self {
        Redactor(keys.iter().filter_map(KeyRedactor::of).collect())
    }

    /// Returns the bytes that may pass.
    pub(crate) fn read(&mut self, bytes: Bytes) -> Bytes {
        self.0.iter_mut().fold(bytes, |bytes, redactor| redactor.read(bytes))
    }

    /// Returns the bytes that were held back, after the last ones were read.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.0.iter_mut().fold(Bytes::new(), |bytes, redactor| {
            Bytes::from([redactor.read(bytes), redactor.finish()].concat())
        })
    }

    /// Number of bytes that are held back.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().map(|redactor| redactor.held.len()).sum()
    }

    /// Removes headers that have a key.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        self.0.iter().for_each(|redactor| redactor.clear(headers));
    }
}

impl KeyRedactor {
    /// Returns `None` for a key that is too short for a secret.
    fn of(key: &Key) -> Option<Self> {
        (key.expose().len() >= MIN_SECRET)
            .then(|| KeyRedactor { key: key.clone(), held: Zeroizing::default() })
    }

    /// Returns the bytes that may pass.
    fn read(&mut self, bytes: Bytes) -> Bytes {
        let held = std::mem::take(&mut self.held);
        let mut all = match held.as_slice() {
            [] => bytes,
            held => Bytes::from([held, &bytes].concat()),
        };
        let mut at = 0;
        while let Some((start, comparison)) = self.find(all.get(at..).unwrap_or_default()) {
            let start = at + start;
            let Comparison::Equal(length) = comparison else {
                self.held = Zeroizing::new(all.split_off(start).to_vec());
                break;
            };
            at = start + length;
            let mut redacted = all.to_vec();
            redacted.splice(start..at, std::iter::repeat_n(b'*', length));
            all = Bytes::from(redacted);
        }
        all
    }

    /// Finds the first place that has the key, or its beginning as the last bytes.
    fn find(&self, bytes: &[u8]) -> Option<(usize, Comparison)> {
        let first = self.key.expose().bytes().next()?;
        memchr3_iter(first, b'\\', b'%', bytes).find_map(|at| {
            let comparison = self.compare(bytes.get(at..).unwrap_or_default());
            (!matches!(comparison, Comparison::Different)).then_some((at, comparison))
        })
    }

    fn compare(&self, mut bytes: &[u8]) -> Comparison {
        let all = bytes.len();
        for (count, character) in self.key.expose().bytes().enumerate() {
            match compare_character(bytes, character) {
                Comparison::Equal(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Comparison::Partial(_) => return Comparison::Partial(count),
                Comparison::Different => return Comparison::Different,
            }
        }
        Comparison::Equal(all - bytes.len())
    }

    /// Returns the bytes that were held back, after the last ones were read.
    fn finish(&mut self) -> Bytes {
        let held = std::mem::take(&mut self.held);
        // A response that was cut in the key has a part of it.
        match self.compare(&held) {
            Comparison::Partial(count) if count >= MIN_SECRET => {
                Bytes::from(vec![b'*'; held.len()])
            }
            _ => Bytes::copy_from_slice(&held),
        }
    }

    /// Removes headers that have the key, in the value or the name, which is in lower case.
    fn clear(&self, headers: &mut HeaderMap) {
        let has_key = |redactor: &KeyRedactor, text: &[u8]| {
            matches!(redactor.find(text), Some((_, Comparison::Equal(_))))
        };
        let lower = KeyRedactor { key: self.key.to_lower_case(), held: Zeroizing::default() };
        let names = headers.iter().filter(|(name, value)| {
            has_key(&lower, name.as_str().as_bytes()) || has_key(self, value.as_bytes())
        });
        let names: Vec<_> = names.map(|(name, _)| name.clone()).collect();
        for name in names {
            headers.remove(name);
        }
    }
}

/// Compares bytes with a character, or an escape of it: `\u0073`, `\/`, `%73`.
fn compare_character(bytes: &[u8], character: u8) -> Comparison {
    let backslashes = bytes.iter().take(MAX_BACKSLASHES).take_while(|&&byte| byte == b'\\').count();
    let (_, escape) = bytes.split_at(backslashes);
    let code = match (backslashes, escape) {
        (0, [first, ..]) if *first == character => return Comparison::Equal(1),
        (0, [b'%', ..]) => format!("%{character:02x}"),
        (0, [_, ..]) => return Comparison::Different,
        (_, [first, ..]) if *first == character && character == b'/' => {
            return Comparison::Equal(backslashes + 1);
        }
        (_, [] | [b'u' | b'U', ..]) => format!("u{character:04x}"),
        _ => return Comparison::Different,
    };
    let (read, code) = (escape.len().min(code.len()), code.as_bytes());
    match escape.split_at(read).0.eq_ignore_ascii_case(code.split_at(read).0) {
        true if read == code.len() => Comparison::Equal(backslashes + read),
        true => Comparison::Partial(0),
        false => Comparison::Different,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-0123456789abcdef";

    /// The text that passes, read in parts of each size.
    fn passed(text: &str) -> String {
        passed_by(KEY, text)
    }

    fn passed_by(key: &str, text: &str) -> String {
        let read = |size: usize| {
            let mut redactor = Redactor::of(&[Key::parse(key).unwrap()]);
            let mut passed = Vec::new();
            for part in text.as_bytes().chunks(size) {
                passed.extend_from_slice(&redactor.read(Bytes::copy_from_slice(part)));
            }
            passed.extend_from_slice(&redactor.finish());
            String::from_utf8(passed).unwrap()
        };
        let whole = read(text.len().max(1));
        for size in 1..KEY.len() + 2 {
            assert_eq!(read(size), whole, "parts of {size}");
        }
        whole
    }

    #[test]
    fn the_key_is_overwritten_wherever_it_is_cut() {
        let stars = "*".repeat(KEY.len());
        assert_eq!(passed(""), "");
        assert_eq!(passed("sk- no key sk-sk-0"), "sk- no key sk-sk-0");
        assert_eq!(passed(&format!("a {KEY} b {KEY}{KEY}")), format!("a {stars} b {stars}{stars}"));
        // The beginning of the key precedes it.
        assert_eq!(passed(&format!("sk-{KEY}")), format!("sk-{stars}"));
        assert_eq!(passed(&KEY[..20]), "*".repeat(20));
    }

    #[test]
    fn escapes_of_the_keys_characters_are_compared() {
        let key: String = format!("{KEY}/+");
        let json = |backslashes: &str| {
            let escape = |byte: u8| format!("{backslashes}u{byte:04X}");
            key.bytes().map(escape).collect::<String>()
        };
        let escaped = [
            json("\\"),
            json("\\\\"),
            json("\\\\\\\\"),
            json("\\").to_lowercase().replace("\\u", "\\\\u"),
            key.replace('/', "\\/").replace('-', "\\u002d"),
            key.replace("sk", "\\u0073k").replace("f/", "f\\\\/"),
            key.bytes().map(|byte| format!("%{byte:02x}")).collect(),
            key.replace('/', "%2F").replace('+', "%2b"),
        ];
        for text in escaped {
            for (before, after) in
                [("", ""), ("sk-\\u0073\\\\", "\\"), ("\\\\\\", "\"}"), ("%", "%7")]
            {
                let given = format!("{before}{text}{after}");
                let shown = passed_by(&key, &given);
                assert_eq!(shown.len(), given.len());
                assert!(shown.replace('*', "").len() <= before.len() + after.len(), "{shown}");
                let at = shown.find('*').unwrap();
                assert!(at <= before.len() && shown.starts_with(&before[..at]), "{shown}");
            }
        }
        for other in
            ["\\u0073k-\\u0073k", "\\u00", "%73", "\\\\\\\\\\\\\\\\\\\\", "\\u0074k", "sk-\\n"]
        {
            assert_eq!(passed_by(&key, other), other);
        }
    }

    #[test]
    fn a_line_is_not_held_back() {
        let mut redactor = Redactor::of(&[Key::parse(KEY).unwrap()]);
        let line = Bytes::from_static(b"data: sk-sk-012\n\n");
        assert_eq!((redactor.read(line.clone()), redactor.held()), (line, 0));
    }

    #[test]
    fn placeholders_are_not_secrets() {
        assert!(Redactor::of(&[Key::parse("sk-none").unwrap()]).0.is_empty());
    }
}
