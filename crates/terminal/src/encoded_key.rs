//! Keys with Ctrl, in the encodings in which terminals send them.

/// The beginning of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputStart {
    /// A key press, and the number of its bytes.
    Key { key: Key, length: usize },
    /// The release of a key, in the kitty keyboard protocol.
    Release { length: usize },
    /// Anything else, and the number of its bytes.
    Other { length: usize },
}

/// A key that matters for [detaching](crate::detach_keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Ctrl and this character, in lower case.
    Ctrl(u8),
    /// This character alone.
    Plain(u8),
}

/// Splits the first key off `input`, which is not empty.
pub(crate) fn split_key(input: &[u8]) -> InputStart {
    match input {
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            let Some(end) = end else { return InputStart::Other { length: input.len() } };
            let length = end + 3;
            let parameters = rest.get(..end).unwrap_or_default();
            match rest.get(end) {
                Some(b'u') => kitty_key(parameters, length),
                Some(b'~') => xterm_key(parameters, length),
                _ => None,
            }
            .unwrap_or(InputStart::Other { length })
        }
        [byte @ 0x1c..=0x1f, ..] => key(Key::Ctrl(byte + 0x40), 1),
        [byte @ 1..=26, ..] => key(Key::Ctrl(byte + 0x60), 1),
        [byte @ 0x20..=0x7e, ..] => key(Key::Plain(*byte), 1),
        _ => InputStart::Other { length: 1 },
    }
}

/// `CSI code[:alternates] [; modifiers[:event] [; text]] u`
fn kitty_key(parameters: &[u8], length: usize) -> Option<InputStart> {
    let text = str::from_utf8(parameters).ok()?;
    let mut parameters = text.split(';');
    let code = parameters.next()?.split(':').next()?.parse().ok()?;
    let mut modifiers = parameters.next().unwrap_or("1").split(':');
    let bits = modifiers.next()?.parse().unwrap_or(1u16);
    match modifiers.next().unwrap_or("1") {
        "3" => Some(InputStart::Release { length }),
        _ => with_modifiers(code, bits, length),
    }
}

/// `CSI 27 ; modifiers ; code ~`
fn xterm_key(parameters: &[u8], length: usize) -> Option<InputStart> {
    let mut parameters = str::from_utf8(parameters).ok()?.split(';');
    if parameters.next() != Some("27") {
        return None;
    }
    let bits = parameters.next()?.parse().ok()?;
    with_modifiers(parameters.next()?.parse().ok()?, bits, length)
}

fn with_modifiers(code: u32, bits: u16, length: usize) -> Option<InputStart> {
    let character = u8::try_from(code).ok().filter(|code| (0x20..=0x7e).contains(code))?;
    match bits.checked_sub(1)? & !LOCKS {
        0 => Some(key(Key::Plain(character), length)),
        CTRL => Some(key(Key::Ctrl(character.to_ascii_lowercase()), length)),
        _ => None,
    }
}

const CTRL: u16 = 4;
/// Caps lock and num lock.
const LOCKS: u16 = 64 | 128;

fn key(key: Key, length: usize) -> InputStart {
    InputStart::Key { key, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_every_encoding() {
        let ctrl = |character, length| key(Key::Ctrl(character), length);
        let rows: [(&[u8], InputStart); 16] = [
            (b"\x1c", ctrl(b'\\', 1)),
            (b"\x04x", ctrl(b'd', 1)),
            (b"d", key(Key::Plain(b'd'), 1)),
            (b"\x1b[92;5u", ctrl(b'\\', 7)),
            (b"\x1b[92;5:1urest", ctrl(b'\\', 9)),
            (b"\x1b[92:124:92;69u", ctrl(b'\\', 15)),
            (b"\x1b[100;133u", ctrl(b'd', 10)),
            (b"\x1b[100u", key(Key::Plain(b'd'), 6)),
            (b"\x1b[92;5:3u", InputStart::Release { length: 9 }),
            (b"\x1b[57442;5:3u", InputStart::Release { length: 12 }),
            (b"\x1b[27;5;92~", ctrl(b'\\', 10)),
            (b"\x1b[92;6u", InputStart::Other { length: 7 }),
            (b"\x1b[3~", InputStart::Other { length: 4 }),
            (b"\x1b[A\x1c", InputStart::Other { length: 3 }),
            (b"\x1b[92;5", InputStart::Other { length: 6 }),
            (b"\xc3\xa4", InputStart::Other { length: 1 }),
        ];
        for (input, expected) in rows {
            assert_eq!(split_key(input), expected, "{}", input.escape_ascii());
        }
    }
}
