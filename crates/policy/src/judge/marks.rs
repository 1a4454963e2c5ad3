//! Marks in words: of unknown arguments, such as `{}`, of quotes, and of settings.

use super::glob::UNKNOWN;

/// Replaces `{}` with names below the directories of a search.
pub(super) fn found_below(word: &[u8], roots: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if word != b"{}" {
        return vec![without_marks(word, &[b"{}".to_vec()])];
    }
    if roots.is_empty() {
        return vec![b"./\x03".to_vec()];
    }
    roots.iter().map(|root| [root, &b"/\x03"[..]].concat()).collect()
}

/// Replaces marks of unknown arguments, such as `{}`, in a word.
pub(super) fn without_marks(word: &[u8], marks: &[Vec<u8>]) -> Vec<u8> {
    let mut replaced = Vec::new();
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let mark = marks.iter().find(|mark| !mark.is_empty() && rest.starts_with(mark));
        if let Some(mark) = mark {
            replaced.extend([UNKNOWN, UNKNOWN]);
            rest = rest.get(mark.len()..).unwrap_or_default();
        } else {
            replaced.push(*first);
            rest = after;
        }
    }
    replaced
}

/// Returns the words of a list or string of TOML; any other text is unchanged.
pub(super) fn without_quotes(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    if matches!(text.first(), Some(b'[' | b'"' | b'\'')) {
        let marks = text.iter_mut().filter(|byte| b"[],\"'".contains(byte));
        marks.for_each(|byte| *byte = b' ');
    }
    text
}

/// Returns the text after a prefix. One with `=` is a name in any case, with `=` or a blank after it.
pub(super) fn setting_of<'a>(value: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let Some(name) = prefix.strip_suffix(b"=") else { return value.strip_prefix(prefix) };
    let (start, rest) = value.trim_ascii_start().split_at_checked(name.len())?;
    let ends = rest.first().is_none_or(|byte| *byte == b'=' || byte.is_ascii_whitespace());
    let text = rest.trim_ascii_start();
    let text = text.strip_prefix(b"=").unwrap_or(text).trim_ascii_start();
    (ends && start.eq_ignore_ascii_case(name)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_unknown_text_is_replaced_once() {
        let unknown = vec![UNKNOWN, UNKNOWN];
        assert_eq!(without_marks(&unknown, std::slice::from_ref(&unknown)), unknown);
        assert_eq!(without_marks(b"a{}b", &[b"{}".to_vec()]), b"a\0\0b");
    }
}
