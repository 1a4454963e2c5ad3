//! Names of git objects.

use std::fmt;

/// The name of an object: 40 hexadecimal digits of SHA-1, or 64 of SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(String);

/// The hash of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObjectFormat {
    #[default]
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [ObjectFormat::Sha1, ObjectFormat::Sha256].into_iter().find(|it| it.name() == name)
    }
}

impl ObjectId {
    /// Parses lower-case digits; `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = matches!(text.len(), 40 | 64) && text.iter().all(is_digit);
        is_id.then(|| ObjectId(String::from_utf8_lossy(text).into_owned()))
    }

    /// Returns its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        match self.0.len() {
            64 => ObjectFormat::Sha256,
            _ => ObjectFormat::Sha1,
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
