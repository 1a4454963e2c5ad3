//! Removes a key from the bytes of a response, as they pass.

use hyper::HeaderMap;
use hyper::body::Bytes;
use memchr::memmem;

use crate::key::Key;

/// Shorter keys are placeholders, as for servers on localhost, and may be words of any text.
const MIN_SECRET: usize = 16;

/// Overwrites a key with `*`. The length does not change. It holds back only bytes that may be the beginning
/// of the key.
#[derive(Clone, Debug)]
pub(crate) struct Redactor {
    key: Key,
    /// The last bytes were the key's first ones; they are held back.
    held: usize,
}

impl Redactor {
    /// Returns `None` for a key that is too short for a secret.
    pub(crate) fn of(key: &Key) -> Option<Self> {
        (key.expose().len() >= MIN_SECRET).then(|| Redactor { key: key.clone(), held: 0 })
    }

    /// Returns the bytes that may pass.
    pub(crate) fn read(&mut self, bytes: Bytes) -> Bytes {
        let key = self.key.expose().as_bytes();
        let (held, _) = key.split_at(self.held);
        let mut all = match held {
            [] => bytes,
            held => Bytes::from([held, &bytes].concat()),
        };
        let mut end = 0;
        if memmem::find(&all, key).is_some() {
            let mut redacted = all.to_vec();
            while let Some(at) = redacted.get(end..).and_then(|rest| memmem::find(rest, key)) {
                let start = end + at;
                end = start + key.len();
                redacted.splice(start..end, std::iter::repeat_n(b'*', key.len()));
            }
            all = Bytes::from(redacted);
        }
        let rest = all.get(end..).unwrap_or_default();
        let longest = rest.len().min(key.len() - 1);
        let is_held = |count: &usize| rest.ends_with(key.split_at(*count).0);
        self.held = (1..=longest).rev().find(is_held).unwrap_or(0);
        all.truncate(all.len() - self.held);
        all
    }

    /// Returns the bytes that were held back, after the last ones were read.
    pub(crate) fn finish(&mut self) -> Bytes {
        let (held, _) = self.key.expose().as_bytes().split_at(std::mem::take(&mut self.held));
        // A response that was cut in the key has a part of it.
        if held.len() < MIN_SECRET {
            return Bytes::copy_from_slice(held);
        }
        Bytes::from(vec![b'*'; held.len()])
    }

    /// Number of bytes that are held back.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Removes headers that have the key.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        let key = self.key.expose().as_bytes();
        let has_key =
            headers.iter().filter(|(_, value)| memmem::find(value.as_bytes(), key).is_some());
        let names: Vec<_> = has_key.map(|(name, _)| name.clone()).collect();
        for name in names {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-0123456789abcdef";

    /// The text that passes, read in parts of each size.
    fn passed(text: &str) -> String {
        let read = |size: usize| {
            let mut redactor = Redactor::of(&Key::parse(KEY).unwrap()).unwrap();
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
    fn a_line_is_not_held_back() {
        let mut redactor = Redactor::of(&Key::parse(KEY).unwrap()).unwrap();
        let line = Bytes::from_static(b"data: sk-sk-012\n\n");
        assert_eq!((redactor.read(line.clone()), redactor.held()), (line, 0));
    }

    #[test]
    fn placeholders_are_not_secrets() {
        assert!(Redactor::of(&Key::parse("sk-none").unwrap()).is_none());
    }
}
