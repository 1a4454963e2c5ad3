//! Keys: the user's real ones, and the phantom keys of a session.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use base64::prelude::{BASE64_STANDARD, Engine};
use zeroize::Zeroizing;

/// A provider key, erased from memory when it is dropped. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Key(Zeroizing<String>);

/// The longest key in bytes.
pub const MAX_KEY: usize = 16 * 1024;

/// A text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing but white space.
    #[error("it is empty")]
    Empty,
    /// It has a space, `"`, a backslash, or a character that is not visible ASCII.
    #[error("it has a character that no key has")]
    Character,
    /// More than [`MAX_KEY`] bytes.
    #[error("it is longer than 16 KiB")]
    TooLong,
}

impl Key {
    /// Takes the key without white space at its ends.
    ///
    /// ```
    /// use aifo_provider::{Key, KeyError};
    ///
    /// assert_eq!(format!("{:?}", Key::parse("sk-secret\n").unwrap()), "Key(..)");
    /// assert_eq!(Key::parse("two words").unwrap_err(), KeyError::Character);
    /// ```
    pub fn parse(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        match text {
            "" => Err(KeyError::Empty),
            _ if text.len() > MAX_KEY => Err(KeyError::TooLong),
            _ if !text.bytes().all(is_of_key) => Err(KeyError::Character),
            _ => Ok(Key(Zeroizing::new(text.to_owned()))),
        }
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns it with a user, as basic authentication has them.
    pub(crate) fn with_user(&self, user: &str) -> Key {
        let pair = Zeroizing::new(format!("{user}:{}", self.expose()));
        Key(Zeroizing::new(BASE64_STANDARD.encode(pair.as_bytes())))
    }

    pub(crate) fn to_lower_case(&self) -> Key {
        Key(Zeroizing::new(self.0.to_ascii_lowercase()))
    }
}

/// JSON would escape `"` and the backslash in another way than by code.
fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The shape of a provider's keys, which some agents check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShape {
    /// The first characters.
    pub prefix: &'static str,
    /// The characters that may follow.
    pub alphabet: Alphabet,
    /// Their number.
    pub length: usize,
}

/// The characters of a key behind its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `0-9a-f`
    Hexadecimal,
    /// `A-Za-z0-9`
    Alphanumeric,
    /// `A-Za-z0-9_-`
    UrlSafe,
}

impl Alphabet {
    fn characters(self) -> &'static [u8] {
        const ALL: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
        match self {
            Alphabet::Hexadecimal => ALL.split_at(16).0,
            Alphabet::Alphanumeric => ALL.split_at(62).0,
            Alphabet::UrlSafe => ALL,
        }
    }
}

/// A key that has the shape of a provider's and is valid at one reverse proxy only.
#[derive(Clone)]
pub struct PhantomKey(String);

impl PhantomKey {
    /// Draws a key. Errors: the kernel's random numbers cannot be read.
    pub fn generate(shape: &KeyShape) -> io::Result<PhantomKey> {
        let characters = shape.alphabet.characters();
        let mut random = File::open("/dev/urandom")?;
        let mut key = shape.prefix.to_owned();
        let mut byte = [0];
        while key.len() < shape.prefix.len() + shape.length {
            random.read_exact(&mut byte)?;
            // A remainder would prefer the first characters.
            let [drawn] = byte.map(|byte| usize::from(byte) & 63);
            key.extend(characters.get(drawn).map(|&character| char::from(character)));
        }
        Ok(PhantomKey(key))
    }

    /// Returns the key for the agent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for this key. The time depends on the lengths only.
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        let differ =
            self.0.bytes().zip(other).fold(0, |differ, (own, other)| differ | (own ^ other));
        self.0.len() == other.len() && std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for PhantomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhantomKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_visible_characters() {
        assert_eq!(Key::parse(" \n sk-1 \n").unwrap().expose(), "sk-1");
        for (text, error) in [
            (" \n", KeyError::Empty),
            ("a b", KeyError::Character),
            ("a\r\nx: y", KeyError::Character),
            ("é", KeyError::Character),
            ("a\"b", KeyError::Character),
            ("a\\u0062", KeyError::Character),
            (&"a".repeat(MAX_KEY + 1), KeyError::TooLong),
        ] {
            assert_eq!(Key::parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn phantom_keys_have_the_shape_and_differ() {
        for alphabet in [Alphabet::Hexadecimal, Alphabet::Alphanumeric, Alphabet::UrlSafe] {
            let shape = KeyShape { prefix: "sk-", alphabet, length: 200 };
            let keys = [(); 2].map(|()| PhantomKey::generate(&shape).unwrap());
            for key in &keys {
                let random = key.as_str().strip_prefix("sk-").unwrap();
                assert_eq!(random.len(), 200);
                assert!(random.bytes().all(|byte| alphabet.characters().contains(&byte)));
            }
            assert!(keys[0].is(keys[0].as_str().as_bytes()));
            assert!(!keys[0].is(keys[1].as_str().as_bytes()));
            assert!(!keys[0].is(b"") && !keys[0].is(&keys[0].as_str().as_bytes()[..100]));
        }
    }
}
