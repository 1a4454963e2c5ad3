//! The kind of a sidecar.

use std::fmt;

/// The kind of a sidecar: `rust`, `node`, `python`, `c-cpp`, `go`, or one a user named.
///
/// Lower-case letters, digits and `-`, at most 32, so that it can stand in a container's name.
/// Aliases (`py`, `c++`) are `aifo-policy`'s to resolve.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(String);

impl Kind {
    /// Checks a kind's name.
    pub fn parse(name: &str) -> Result<Self, InvalidKind> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let starts_well = name.bytes().next().is_some_and(|b| b != b'-');
        if !starts_well || name.len() > 32 || !name.bytes().all(plain) {
            return Err(InvalidKind(name.to_owned()));
        }
        Ok(Kind(name.to_owned()))
    }

    /// What runs beside the session on the host itself: notifications and host commands. Not to be
    /// asked for as a sidecar.
    pub fn host() -> Self {
        Kind("host".to_owned())
    }

    /// What the agent itself runs in, where that is a container. Not to be asked for as a sidecar, and
    /// no tool is ever routed there.
    pub fn agent() -> Self {
        Kind("agent".to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The word cannot name a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKind(String);

impl fmt::Display for InvalidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' cannot name a toolchain: use a-z, 0-9 and -, at most 32 characters", self.0)
    }
}

impl std::error::Error for InvalidKind {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["rust", "c-cpp", "java17"] {
            assert_eq!(Kind::parse(name).unwrap().as_str(), name);
        }
        let long = "k".repeat(33);
        for name in ["", "-x", "C", "c++", "a b", "a/b", &long] {
            assert!(Kind::parse(name).is_err(), "{name}");
        }
    }
}
