//! The kind of a sidecar.

use std::fmt;

/// The kind of a sidecar: `rust`, `node`, `python`, `c-cpp`, `go`, or a user's own.
///
/// At most 32 lower-case letters, digits and `-`, which are valid in a container name. Aliases
/// (`py`, `c++`) are resolved by `aifo-policy`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(String);

impl Kind {
    /// Parses a kind's name.
    pub fn parse(name: &str) -> Result<Self, InvalidKind> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let starts_well = name.bytes().next().is_some_and(|b| b != b'-');
        if !starts_well || name.len() > 32 || !name.bytes().all(plain) {
            return Err(InvalidKind(name.to_owned()));
        }
        Ok(Kind(name.to_owned()))
    }

    /// Returns the kind for notifications and host commands, which run on the host. It is not a
    /// sidecar that a user can request.
    pub fn host() -> Self {
        Kind("host".to_owned())
    }

    /// Returns the kind for an agent that runs in a container. It is not a sidecar that a user can
    /// request, and no tool is routed to it.
    pub fn agent() -> Self {
        Kind("agent".to_owned())
    }

    /// Returns the name as text.
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

/// The text is not the name of a kind.
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
