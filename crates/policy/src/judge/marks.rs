//! Marks of unknown arguments in a command, such as `{}`.

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
