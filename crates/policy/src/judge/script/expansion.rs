//! Quotes and expansions of a word.

use std::ops::Range;

use super::known::Value;
use super::{BRACE, Current, GLOB, LOOP, PLAIN, Reader, UNKNOWN};
use crate::judge::printed::{Printed, printed};

impl Reader<'_> {
    /// Reads a byte that belongs to a word.
    pub(super) fn word_byte(&mut self, byte: u8, end: Option<u8>, current: &mut Current) {
        match byte {
            b'\'' => {
                (current.is_quoted, current.is_word_quoted) = (true, true);
                let rest = self.text.get(self.at..).unwrap_or_default();
                let length = rest.iter().position(|byte| *byte == b'\'');
                let quoted = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
                current.word.get_or_insert_default().extend_from_slice(quoted);
                self.at += quoted.len() + 1;
                self.script.is_unclear |= length.is_none();
            }
            b'"' => {
                (current.is_quoted, current.is_word_quoted) = (true, true);
                current.word.get_or_insert_default();
                self.double_quoted(current);
            }
            b'`' => self.substitution(b'`', false, current),
            b'$' => self.dollar(current, false),
            b'\\' => match self.next() {
                Some(b'\n') => {}
                // A nested substitution of the old form.
                Some(b'`') if end == Some(b'`') => self.script.is_unclear = true,
                Some(byte) => {
                    (current.is_quoted, current.is_word_quoted) = (true, true);
                    current.word.get_or_insert_default().push(byte);
                }
                None => {}
            },
            b'[' if current.word.is_none() && matches!(self.peek(), Some(b' ' | b'[' | b'\t')) => {
                // The command of that name, or the reserved word `[[`.
                current.word.get_or_insert_default().push(byte);
                if self.next_if(b'[') {
                    current.word.get_or_insert_default().push(byte);
                }
            }
            b'*' | b'?' | b'[' => {
                current.word.get_or_insert_default().push(GLOB);
            }
            b'{' => current.word.get_or_insert_default().push(BRACE),
            byte => current.word.get_or_insert_default().push(byte),
        }
    }

    /// Reads up to the closing quote, or to the end.
    pub(super) fn double_quoted(&mut self, current: &mut Current) {
        while let Some(byte) = self.next() {
            match byte {
                b'"' => return,
                b'$' => self.dollar(current, true),
                b'`' => self.substitution(b'`', true, current),
                b'\\' => match self.next() {
                    Some(b'\n') | None => {}
                    Some(byte @ (b'$' | b'`' | b'"' | b'\\')) => {
                        current.word.get_or_insert_default().push(byte);
                    }
                    Some(byte) => current.word.get_or_insert_default().extend([b'\\', byte]),
                },
                byte => current.word.get_or_insert_default().push(byte),
            }
        }
    }

    fn dollar(&mut self, current: &mut Current, is_quoted: bool) {
        let mut splits = !is_quoted;
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                if self.next_if(b'(') {
                    self.arithmetic();
                    current.word.get_or_insert_default().push(GLOB);
                } else {
                    self.substitution(b')', is_quoted, current);
                }
                return;
            }
            Some(b'{') => {
                let start = self.at;
                self.at += 1;
                self.parameter(current);
                let text = self.text.get(start..self.at).unwrap_or_default();
                let name = text.strip_prefix(b"{").and_then(|text| text.strip_suffix(b"}"));
                if name.is_some_and(|name| self.value(name, current)) {
                    return;
                }
                splits &= !name.is_some_and(|name| self.is_one_word(name, current));
                splits |= text.contains(&b'@') || text.contains(&b'*');
            }
            Some(b'\'') if !is_quoted => {
                self.at += 1;
                (current.is_quoted, current.is_word_quoted) = (true, true);
                self.ansi_quoted(current);
                return;
            }
            Some(b'"') if !is_quoted => return,
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let start = self.at;
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    self.at += 1;
                }
                let name = self.text.get(start..self.at).unwrap_or_default();
                if self.value(name, current) {
                    return;
                }
                splits &= !self.is_one_word(name, current);
            }
            Some(b'#' | b'?' | b'$') => {
                self.at += 1;
                current.word.get_or_insert_default().push(PLAIN);
                return;
            }
            Some(byte @ (b'@' | b'*' | b'!' | b'-' | b'0'..=b'9')) => {
                self.at += 1;
                splits |= byte == b'@';
            }
            _ => {
                current.word.get_or_insert_default().push(b'$');
                return;
            }
        }
        let word = current.word.get_or_insert_default();
        word.push(UNKNOWN);
        if splits {
            word.push(UNKNOWN);
        }
    }

    /// Returns whether an unquoted variable is a part of one word: the text does not set it, and text is before it.
    fn is_one_word(&self, name: &[u8], current: &Current) -> bool {
        let has_text = current.word.as_ref().is_some_and(|word| {
            word.first()
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'))
        });
        let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        has_text && is_name && !name.is_empty() && self.known.is_of_session(name)
    }

    /// Adds the value of a variable, if it is known.
    fn value(&self, name: &[u8], current: &mut Current) -> bool {
        let directory = match self.place.directories.as_slice() {
            [directory] if !directory.is_empty() => Some(directory),
            _ => None,
        };
        let value = match (name, self.known.get(name), directory) {
            (_, Some(Value::One(value)), _) => value.clone(),
            (_, Some(Value::Loop(index)), _) => vec![LOOP, *index],
            (b"PWD", None, Some(directory)) if self.known.is_free(name) => directory.clone(),
            (b"HOME", None, _) if self.known.is_free(name) => b"~".to_vec(),
            (b"TMPDIR" | b"TMPDIR:-/tmp" | b"TMPDIR:-/var/tmp", None, _)
                if self.known.is_of_session(b"TMPDIR") =>
            {
                b"/$TMPDIR".to_vec()
            }
            (b"RANDOM" | b"SECONDS" | b"UID" | b"EUID" | b"PPID", None, _)
                if self.known.is_free(name) =>
            {
                vec![PLAIN]
            }
            _ => return false,
        };
        current.word.get_or_insert_default().extend(value);
        true
    }

    /// Reads a command substitution, whose output is a part of the word.
    fn substitution(&mut self, end: u8, is_quoted: bool, current: &mut Current) {
        let inner = self.isolated(end);
        let output = self.output(&inner);
        current.inputs.push((inner, current.redirection == super::Redirection::Text));
        let word = current.word.get_or_insert_default();
        match output {
            Some(output) => word.extend(output),
            None if is_quoted => word.push(UNKNOWN),
            None => word.extend([UNKNOWN, UNKNOWN]),
        }
    }

    /// Returns the output of commands, if it is known well enough.
    fn output(&self, commands: &Range<usize>) -> Option<Vec<u8>> {
        let [only] = self.script.commands.get(commands.clone())? else { return None };
        let is_changed = !only.assignments.is_empty() || !only.writes.is_empty();
        if is_changed || self.known.may_define(&only.words) {
            return None;
        }
        match (printed(&only.words)?, only.directories.as_slice()) {
            // All its words begin with the directory.
            (Printed::Below(mut roots), _) if roots.len() == 1 => {
                Some([roots.remove(0), b"/\x03".to_vec()].concat())
            }
            (Printed::Below(_), _) => None,
            (Printed::Name, _) => Some(vec![PLAIN]),
            (Printed::Temporary(path), _) => self.known.is_of_session(b"TMPDIR").then_some(path),
            (Printed::Directory, [directory]) if !directory.is_empty() => Some(directory.clone()),
            (Printed::Directory, _) => None,
        }
    }

    /// Reads `${..}` up to its brace, and the substitutions in it.
    fn parameter(&mut self, current: &mut Current) {
        let mut depth = 1;
        while let Some(byte) = self.next() {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                b'\\' => self.at += 1,
                b'\'' => while self.next().is_some_and(|byte| byte != b'\'') {},
                b'`' => {
                    let inner = self.isolated(b'`');
                    current.inputs.push((inner, false));
                }
                b'$' if self.starts_with(b"(") => {
                    self.at += 1;
                    let inner = self.isolated(b')');
                    current.inputs.push((inner, false));
                }
                _ => {}
            }
        }
        self.script.is_unclear = true;
    }

    /// Skips `((..))` after its opening. A substitution in it is not read.
    pub(super) fn arithmetic(&mut self) {
        let mut depth = 2_usize;
        while let Some(byte) = self.next() {
            match byte {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                b'`' => self.script.is_unclear = true,
                b'$' if self.starts_with(b"(") && !self.starts_with(b"((") => {
                    self.script.is_unclear = true;
                }
                _ if depth < 2 && !byte.is_ascii_whitespace() => {
                    // Two nested subshells, `((a); b)`.
                    self.script.is_unclear = true;
                }
                _ => {}
            }
        }
        self.script.is_unclear = true;
    }

    /// Reads `$'..'` with its escapes.
    fn ansi_quoted(&mut self, current: &mut Current) {
        let mut word = current.word.take().unwrap_or_default();
        while let Some(byte) = self.next() {
            match byte {
                b'\'' => break,
                b'\\' => self.escape(&mut word),
                byte => word.push(byte),
            }
        }
        current.word = Some(word);
    }

    fn escape(&mut self, word: &mut Vec<u8>) {
        let Some(byte) = self.next() else { return };
        match byte {
            b'n' => word.push(b'\n'),
            b't' => word.push(b'\t'),
            b'r' => word.push(b'\r'),
            b'a' => word.push(7),
            b'b' => word.push(8),
            b'v' => word.push(11),
            b'f' => word.push(12),
            b'e' | b'E' => word.push(27),
            b'x' => self.code(16, 2, None, word),
            b'u' => self.code(16, 4, None, word),
            b'U' => self.code(16, 8, None, word),
            b'0'..=b'7' => self.code(8, 2, Some(byte), word),
            b'c' => {
                let control = self.next().map(|byte| byte & 0x1f);
                word.extend(control);
            }
            byte => word.push(byte),
        }
    }

    /// Reads the digits of a character or byte.
    fn code(&mut self, radix: u32, digits: usize, first: Option<u8>, word: &mut Vec<u8>) {
        let digit = |byte: u8| char::from(byte).to_digit(radix);
        let mut value = first.and_then(digit).unwrap_or_default();
        for _ in 0..digits {
            let Some(next) = self.peek().and_then(digit) else { break };
            self.at += 1;
            value = value.wrapping_mul(radix).wrapping_add(next);
        }
        match (digits, u8::try_from(value), char::from_u32(value)) {
            (2, Ok(byte), _) => word.push(byte),
            (_, _, Some(char)) => word.extend(char.to_string().bytes()),
            _ => word.push(UNKNOWN),
        }
    }
}
