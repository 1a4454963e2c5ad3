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
    let mut word = word.to_vec();
    for mark in marks.iter().filter(|mark| !mark.is_empty()) {
        while let Some(at) = word.windows(mark.len()).position(|part| part == mark.as_slice()) {
            word.splice(at..at + mark.len(), [UNKNOWN, UNKNOWN]);
        }
    }
    word
}
