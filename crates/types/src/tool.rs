//! A tool name.

use std::fmt;

/// A tool name: one path component, looked up in PATH. Names are case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(String);

impl ToolName {
    /// Parses a name: 1 to 255 bytes of UTF-8 without `/`, NUL or control characters, and neither
    /// `.` nor `..`.
    pub fn parse(name: &[u8]) -> Result<Self, InvalidToolName> {
        let text = std::str::from_utf8(name).map_err(|_| InvalidToolName)?;
        let dots = matches!(text, "" | "." | "..");
        if dots || text.len() > 255 || text.chars().any(|c| c == '/' || c.is_control()) {
            return Err(InvalidToolName);
        }
        Ok(ToolName(text.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes are not a tool name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToolName;

impl fmt::Display for InvalidToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tool is a plain name without '/'")
    }
}

impl std::error::Error for InvalidToolName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["cargo", "g++", "python3.12", "pkg-config"] {
            assert_eq!(ToolName::parse(name.as_bytes()).unwrap().as_str(), name);
        }
        let long = vec![b'a'; 256];
        for name in [&b""[..], b".", b"..", b"a/b", b"/bin/sh", b"a\0b", b"a\n", b"\xff", &long] {
            assert_eq!(ToolName::parse(name), Err(InvalidToolName), "{name:?}");
        }
    }
}
