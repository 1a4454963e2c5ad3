//! The session's bearer token.

use std::fmt;

/// A session's bearer token.
///
/// It has no `Display`, `Debug` hides it, and the time of a comparison depends only on the length
/// of the presented value.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token from 128 random bits, in hex.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Token(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Parses a token. `None` if it cannot be the last word of an `Authorization` header: empty, or
    /// with white space, `=`, a control or a non-ASCII character.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_graphic() && b != b'=';
        (!text.is_empty() && text.bytes().all(plain)).then(|| Token(text.to_owned()))
    }

    /// Returns the secret, to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the last word of an `Authorization` value is this token.
    ///
    /// White space and `=` separate words, and any scheme is accepted (`Bearer x`, `token=x`, `x`).
    pub fn authorizes(&self, header: &[u8]) -> bool {
        let separates = |b: &u8| b.is_ascii_whitespace() || *b == b'=';
        let presented = header.rsplit(separates).next().unwrap_or_default();
        constant_time_eq(presented, self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Compares without an early exit: the time depends only on the length of `presented`.
fn constant_time_eq(presented: &[u8], secret: &[u8]) -> bool {
    let mut difference = u8::from(presented.len() != secret.len());
    for (index, byte) in presented.iter().enumerate() {
        // A secret is never empty; the modulo keeps the work per presented byte constant.
        difference |= byte ^ secret[index % secret.len()];
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let token = Token::parse("s3cret").unwrap();
        for header in ["Bearer s3cret", "bearer  s3cret", "Token=s3cret", "s3cret", "a b=c s3cret"]
        {
            assert!(token.authorizes(header.as_bytes()), "{header}");
        }
        for header in [
            "",
            "Bearer",
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer s3cret ",
            "S3CRET",
            "s3crets3cret",
        ] {
            assert!(!token.authorizes(header.as_bytes()), "{header}");
        }
    }

    #[test]
    fn valid_tokens() {
        for text in ["", "a b", "a=b", "é", "a\n"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
        assert_eq!(format!("{:?}", Token::from_random([7; 16])), "Token(..)");
    }
}
