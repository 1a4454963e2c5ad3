//! Assignments of shells.

use super::glob::GLOB;

/// Matches `NAME=..` and `NAME+=..`.
pub(super) fn is_assignment(word: &[u8]) -> bool {
    let Some(at) = word.iter().position(|byte| *byte == b'=') else { return false };
    let name = word.get(..at).unwrap_or_default();
    let name = name.strip_suffix(b"+").unwrap_or(name);
    let name = name.split(|byte| matches!(*byte, b'[' | GLOB)).next().unwrap_or_default();
    !name.is_empty()
        && !name.first().is_some_and(u8::is_ascii_digit)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
