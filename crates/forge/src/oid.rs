//! Ids of git objects.

use std::fmt;

/// The id of an object: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid(String);

impl Oid {
    /// Parses an id. `None` for another length, or another character.
    pub fn parse(text: &[u8]) -> Option<Oid> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let is_id = matches!(text.len(), 40 | 64) && text.iter().all(is_digit);
        is_id.then(|| Oid(String::from_utf8_lossy(text).into_owned()))
    }

    /// Returns whether it stands for no object.
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'0')
    }

    /// Returns its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digits that a user is shown.
    pub fn short(&self) -> &str {
        self.0.get(..SHORT).unwrap_or_default()
    }
}

const SHORT: usize = 10;

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
