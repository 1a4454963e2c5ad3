//! The id of an exec.

use std::fmt;

/// The id of one exec: `[A-Za-z0-9._-]{1,64}`.
///
/// The alphabet is safe in a header, a log line, an environment variable and a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecId(String);

impl ExecId {
    /// The maximum length in characters.
    pub const MAX_LEN: usize = 64;

    /// Parses a client id.
    pub fn parse(id: &[u8]) -> Result<Self, InvalidExecId> {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if id.is_empty() || id.len() > Self::MAX_LEN || !id.iter().all(plain) {
            return Err(InvalidExecId);
        }
        String::from_utf8(id.to_vec()).map(ExecId).map_err(|_| InvalidExecId)
    }

    /// Creates an id from 128 random bits, in hex.
    pub fn from_random(bits: [u8; 16]) -> Self {
        ExecId(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id is empty, too long or contains an invalid character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidExecId;

impl fmt::Display for InvalidExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exec id is 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    }
}

impl std::error::Error for InvalidExecId {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_and_length() {
        let longest = "x".repeat(64);
        for id in ["e1", "A.b_c-9", &longest] {
            assert_eq!(ExecId::parse(id.as_bytes()).unwrap().as_str(), id);
        }
        let too_long = "x".repeat(65);
        for id in ["", "a b", "a/b", "a\n", "é", "a=b", &too_long] {
            assert_eq!(ExecId::parse(id.as_bytes()), Err(InvalidExecId), "{id:?}");
        }
        assert_eq!(ExecId::from_random([0xab; 16]).as_str(), "ab".repeat(16));
    }
}
