//! Escapes untrusted text for terminals: `spec/cli.md#untrusted-text`.
//!
//! Each character is judged alone, so escaping of partial text needs no state.

use std::borrow::Cow;

/// Escapes text for one line: line ends, control characters, and invisible or reordering characters.
pub fn escape_line(text: &str) -> String {
    escape(text, |_| false, escape_char).into_owned()
}

/// Escapes as [`escape_line`], but keeps line ends, tabs and joiners within words.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    escape(text, passes_in_text, escape_char)
}

/// Replaces the characters that [`escape_text`] escapes by U+FFFD.
pub fn replace_hidden(text: &str) -> Cow<'_, str> {
    escape(text, passes_in_text, |_, replaced| replaced.push(char::REPLACEMENT_CHARACTER))
}

/// Escapes these characters in JSON strings; the JSON's value stays the same.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    // JSON contains such characters only in strings, except white space between values.
    let passes = |char| matches!(char, '\n' | '\t' | '\r');
    escape(json, passes, |char, escaped| {
        let mut units = [0; 2];
        let units = char.encode_utf16(&mut units).iter();
        escaped.extend(units.map(|unit| format!("\\u{unit:04x}")));
    })
}

/// Formats bytes as one word of a log line: unchanged if all characters are plain, else as an escaped
/// string.
pub fn quote_word(word: &[u8]) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=+,@%".contains(b);
    if !word.is_empty() && word.iter().all(is_plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    // Escapes line breaks and terminal control sequences.
    format!("\"{}\"", word.escape_ascii())
}

fn escape_char(char: char, escaped: &mut String) {
    escaped.extend(char.escape_default());
}

/// Replaces hidden characters, except those that pass, by `escape_char`.
fn escape(
    text: &str,
    passes: impl Fn(char) -> bool,
    escape_char: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let stays = |char: char| !is_hidden(char) || passes(char);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if stays(char) {
            escaped.push(char);
        } else {
            escape_char(char, &mut escaped);
        }
    }
    Cow::Owned(escaped)
}

fn passes_in_text(char: char) -> bool {
    matches!(char, '\n' | '\t' | JOINER | NON_JOINER)
}

const NON_JOINER: char = '\u{200c}';
const JOINER: char = '\u{200d}';

/// Returns whether a terminal interprets or hides a character: control characters, and Unicode's
/// ignorable and format characters.
fn is_hidden(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_control();
    }
    matches!(char,
        // C1 controls, which terminals may interpret as escapes.
        '\u{80}'..='\u{9f}'
        // Soft hyphen and combining grapheme joiner.
        | '\u{ad}' | '\u{34f}'
        // Directions: marks, embeddings, overrides, isolates; ends of lines and paragraphs.
        | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Fillers and variation selectors of scripts.
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Tags and more variation selectors, which can hide text.
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_speaks_to_the_terminal_hides_or_reorders() {
        let rows = [
            ("a b é 日本 \u{1f600}\u{fe0f} \\n", "a b é 日本 \u{1f600}\u{fe0f} \\n"),
            ("\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}"),
            ("\u{9b}2J\u{7f}\0", r"\u{9b}2J\u{7f}\u{0}"),
            ("a\rb", r"a\rb"),
            ("a\u{202e}b\u{2066}c\u{2069}", r"a\u{202e}b\u{2066}c\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}", r"\u{200e}\u{200f}\u{61c}"),
            ("\u{200b}\u{2060}\u{feff}\u{ad}", r"\u{200b}\u{2060}\u{feff}\u{ad}"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("\u{e0041}\u{e007f}", r"\u{e0041}\u{e007f}"),
        ];
        for (text, expected) in rows {
            assert_eq!(escape_line(text), expected);
            assert_eq!(escape_text(text), expected);
        }
    }

    #[test]
    fn a_line_stays_a_line_and_a_text_keeps_its_lines() {
        let text = "a\n\tb \u{1f469}\u{200d}\u{1f467}";
        assert_eq!(escape_line(text), "a\\n\\tb \u{1f469}\\u{200d}\u{1f467}");
        assert_eq!(escape_text(text), text);
        assert_eq!(replace_hidden(text), text);
        assert_eq!(
            replace_hidden("a\u{202e}\u{200b}\u{1b}\r"),
            "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn a_text_that_is_cut_anywhere_is_the_same() {
        let text = "x\u{1b}[31m\u{1b}]0;t\u{1b}\\\u{202e}y\u{e0041}\n";
        let cut = |at| {
            text.split_at_checked(at).map(|(a, b)| escape_text(a).into_owned() + &escape_text(b))
        };
        for cut in (0..text.len()).filter_map(cut) {
            assert_eq!(cut, escape_text(text));
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let json = "{\n  \"a\": \"\u{9b}x\u{202e}\u{e0041}é\\u001b\"\n}";
        let expected = "{\n  \"a\": \"\\u009bx\\u202e\\udb40\\udc41é\\u001b\"\n}";
        assert_eq!(escape_json(json), expected);
        assert_eq!(escape_json("{\"a\":1}"), "{\"a\":1}");
    }
}
