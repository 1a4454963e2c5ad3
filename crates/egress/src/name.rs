//! Host names in normal form.
//!
//! In scope: the limits and characters of names, and lower case. Out of scope: whether a rule
//! permits a name (`rules.rs`).

use std::fmt;

/// A host name: lower case, without a trailing dot, and never an IP address.
///
/// A label has letters, digits, `-` and `_`, and at most 63 bytes; a name has at most 253 bytes
/// (RFC 1035, section 2.3.4) and does not begin with `-`. Internationalised names are written in punycode, `xn--..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// Why a text is not a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no text.
    #[error("the name is empty")]
    Empty,
    /// The name is longer than 253 bytes.
    #[error("the name is longer than 253 bytes")]
    TooLong,
    /// A label is empty or longer than 63 bytes.
    #[error("a label of the name is empty or longer than 63 bytes")]
    Label,
    /// A byte is not allowed.
    #[error("the name has a character other than a-z, 0-9, '-', '_' and '.'")]
    Character,
    /// The first byte is `-`.
    #[error("the name begins with '-'")]
    Option,
    /// The text is an IP address, possibly in a short or hexadecimal form.
    #[error("it is an IP address, not a name")]
    Address,
}

impl Name {
    /// The maximum length in bytes, without the trailing dot.
    pub const MAX_LENGTH: usize = 253;

    /// The maximum length of a label in bytes.
    pub const MAX_LABEL: usize = 63;

    /// Parses a name in any case, with or without a trailing dot.
    ///
    /// ```
    /// use aifo_egress::{Name, NameError};
    ///
    /// assert_eq!(Name::parse(b"Registry.Example.").unwrap().as_str(), "registry.example");
    /// assert_eq!(Name::parse(b"127.1"), Err(NameError::Address));
    /// ```
    pub fn parse(text: &[u8]) -> Result<Name, NameError> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Name::MAX_LENGTH {
            return Err(NameError::TooLong);
        }
        for label in text.split(|byte| *byte == b'.') {
            if label.is_empty() || label.len() > Name::MAX_LABEL {
                return Err(NameError::Label);
            }
        }
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let Some(name) = std::str::from_utf8(text).ok().filter(|_| text.iter().all(is_allowed))
        else {
            return Err(NameError::Character);
        };
        let name = name.to_ascii_lowercase();
        // A program would read it as an option: hints are commands with names of untrusted clients.
        if name.starts_with('-') {
            return Err(NameError::Option);
        }
        if ends_in_number(&name) {
            return Err(NameError::Address);
        }
        Ok(Name(name))
    }

    /// Returns the name in lower case, without a trailing dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is a name below `parent`. A name is not below itself.
    pub fn is_below(&self, parent: &Name) -> bool {
        let rest = self.0.strip_suffix(parent.as_str());
        rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// Returns whether the name is `localhost` or below it (RFC 6761, section 6.3).
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether the last label is a number, as in every form of an IPv4 address that `inet_aton`
/// reads (WHATWG URL, "ends in a number").
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalised() {
        let rows = [
            ("registry.example", "registry.example"),
            ("Registry.EXAMPLE.", "registry.example"),
            ("_http._tcp.deb.example", "_http._tcp.deb.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("db", "db"),
            ("1.2.3.4.example", "1.2.3.4.example"),
            ("0x.example", "0x.example"),
        ];
        for (text, name) in rows {
            assert_eq!(Name::parse(text.as_bytes()).unwrap().as_str(), name, "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_names() {
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = format!("{}example", "a.".repeat(124));
        let rows = [
            ("", NameError::Empty),
            (".", NameError::Empty),
            ("a..b", NameError::Label),
            (".a", NameError::Label),
            ("a..", NameError::Label),
            (long_label.as_str(), NameError::Label),
            (long_name.as_str(), NameError::TooLong),
            ("bücher.example", NameError::Character),
            ("a b", NameError::Character),
            ("a\0b", NameError::Character),
            ("a/b", NameError::Character),
            ("user@host", NameError::Character),
            ("[::1]", NameError::Character),
            ("fe80::1", NameError::Character),
            ("--agent", NameError::Option),
            ("-rf.example", NameError::Option),
            ("127.0.0.1", NameError::Address),
            ("127.1", NameError::Address),
            ("2130706433", NameError::Address),
            ("0x7f000001", NameError::Address),
            ("0x7F.1", NameError::Address),
            ("0177.0.0.01", NameError::Address),
            ("127.0.0.1.", NameError::Address),
            ("example.0x", NameError::Address),
        ];
        for (text, error) in rows {
            assert_eq!(Name::parse(text.as_bytes()), Err(error), "{text}");
        }
    }

    #[test]
    fn the_longest_names_are_accepted() {
        let label = "a".repeat(63);
        let name = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(name.len(), Name::MAX_LENGTH);
        assert_eq!(Name::parse(name.as_bytes()).unwrap().as_str(), name);
        assert_eq!(Name::parse(format!("{name}a").as_bytes()), Err(NameError::TooLong));
    }

    #[test]
    fn subdomains_are_below() {
        let name = |text: &str| Name::parse(text.as_bytes()).unwrap();
        let rows = [
            ("a.example", "example", true),
            ("a.b.example", "example", true),
            ("example", "example", false),
            ("badexample", "example", false),
            ("example.com", "example", false),
        ];
        for (below, parent, expected) in rows {
            assert_eq!(name(below).is_below(&name(parent)), expected, "{below} {parent}");
        }
    }
}
