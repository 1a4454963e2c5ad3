//! Owners of caches (`spec/containers.md#caches`).

use std::fmt;

/// A project key in the names of its caches: 16 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectKey(String);

impl ProjectKey {
    /// Number of digits.
    const LEN: usize = 16;

    /// Parses a key; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_key = text.len() == ProjectKey::LEN && text.bytes().all(is_digit);
        is_key.then(|| ProjectKey(text.to_owned()))
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner of a cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheOwner {
    /// The sessions of one project.
    Project(ProjectKey),
    /// All sessions of the user that share caches.
    User,
}

/// The scope of a session's caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Caches outlive the session.
    Of(CacheOwner),
    /// Caches are removed with the session.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_16_hexadecimal_digits() {
        let key = ProjectKey::parse("0123456789abcdef").unwrap();
        assert_eq!(key.to_string(), "0123456789abcdef");
        for other in
            ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "../3456789abcdef"]
        {
            assert_eq!(ProjectKey::parse(other), None, "{other}");
        }
    }
}
