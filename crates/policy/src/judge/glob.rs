//! Patterns of words, in which `*` is any text and `?` any byte, against words with unknown parts.

/// Stands for unknown text of an expansion in a word; no argument contains it.
pub(super) const UNKNOWN: u8 = 0;
/// Stands for a pattern of file names in a word.
pub(super) const GLOB: u8 = 1;

/// Stands for text of letters, digits, `.`, `/`, `_` and `-`, which begins with a letter or digit and has no `..`.
pub(super) const PLAIN: u8 = 3;

/// Whether a rule, or a part of it, matches a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// It depends on an expansion.
    Maybe,
    Yes,
}

/// Returns whether a word matches a pattern.
pub(super) fn matches(pattern: &[u8], word: &[u8]) -> Match {
    // Most words differ early.
    let mut pairs = pattern.iter().zip(word);
    let differs = |(expected, byte): (&u8, &u8)| {
        if matches!(expected, b'*' | b'?') || is_unknown(*byte) {
            Some(false)
        } else {
            (expected != byte).then_some(true)
        }
    };
    match pairs.find_map(differs) {
        Some(true) => return Match::No,
        Some(false) => {}
        None if pattern.len() == word.len() => return Match::Yes,
        None => {}
    }
    if word.iter().any(|byte| is_unknown(*byte)) {
        return if may_match(pattern, word) { Match::Maybe } else { Match::No };
    }
    if matches_known(pattern, word) { Match::Yes } else { Match::No }
}

/// Matches a word without unknown parts.
fn matches_known(pattern: &[u8], word: &[u8]) -> bool {
    let (mut at, mut word_at) = (0, 0);
    // The pattern after its last star, and the first byte of the word that the star does not cover.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = word.get(word_at) {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, word_at));
                at += 1;
            }
            Some(expected) if *expected == b'?' || expected == byte => {
                at += 1;
                word_at += 1;
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                retry = Some((after, from + 1));
                at = after;
                word_at = from + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// Returns whether a byte of a word stands for any text.
pub(super) fn is_unknown(byte: u8) -> bool {
    byte == UNKNOWN || byte == GLOB || byte == PLAIN
}

/// Returns whether pattern and word have a text in common.
fn may_match(pattern: &[u8], word: &[u8]) -> bool {
    // `reached[i]`: the word so far matches the first `i` bytes of the pattern.
    let mut reached = vec![false; pattern.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    skip_stars(pattern, &mut reached);
    for byte in word {
        if *byte == PLAIN {
            // One byte or more, each of which may be the last.
            let mut next = vec![false; pattern.len() + 1];
            for (at, expected) in pattern.iter().enumerate() {
                let is_reached = |reached: &[bool]| reached.get(at).copied().unwrap_or_default();
                let may_be = match expected {
                    b'-' | b'.' | b'/' | b'_' => at > 0,
                    byte => byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'?'),
                };
                if !may_be || !(is_reached(&reached) || is_reached(&next)) {
                    continue;
                }
                if let Some(it) = next.get_mut(at + 1) {
                    *it = true;
                }
                if let Some(it) = next.get_mut(at) {
                    *it |= *expected == b'*';
                }
            }
            skip_stars(pattern, &mut next);
            reached = next;
            continue;
        }
        if is_unknown(*byte) {
            let from = reached.iter().position(|it| *it).unwrap_or(reached.len());
            reached.iter_mut().skip(from).for_each(|it| *it = true);
            continue;
        }
        let mut next = vec![false; pattern.len() + 1];
        for (at, expected) in pattern.iter().enumerate() {
            if !reached.get(at).copied().unwrap_or_default() {
                continue;
            }
            let to = match *expected {
                b'*' => at,
                b'?' => at + 1,
                other if other == *byte => at + 1,
                _ => continue,
            };
            if let Some(it) = next.get_mut(to) {
                *it = true;
            }
        }
        skip_stars(pattern, &mut next);
        if next.iter().all(|it| !it) {
            return false;
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

/// A star may be no text.
fn skip_stars(pattern: &[u8], reached: &mut [bool]) {
    for (at, expected) in pattern.iter().enumerate() {
        if *expected == b'*'
            && reached.get(at).copied().unwrap_or_default()
            && let Some(it) = reached.get_mut(at + 1)
        {
            *it = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let rows: [(&str, &str, Match); 20] = [
            ("+*", "\u{3}", Match::No),
            ("--force", "\u{3}", Match::No),
            ("--force", "--\u{3}", Match::Maybe),
            (":?*", "\u{3}:\u{3}", Match::No),
            ("*:*", "\u{3}:x", Match::Maybe),
            ("main", "\u{3}", Match::Maybe),
            ("+*", "+main", Match::Yes),
            ("+*", "main", Match::No),
            (":*", ":main", Match::Yes),
            ("*", "", Match::Yes),
            ("a*b*c", "axxbyyc", Match::Yes),
            ("a*b*c", "axxbyy", Match::No),
            ("main", "main", Match::Yes),
            ("+*", "\0", Match::Maybe),
            ("+*", "x\0", Match::No),
            ("--force", "--f\0", Match::Maybe),
            ("--force", "--m\0", Match::No),
            ("x*", "\0y", Match::Maybe),
            ("a\nb", "a\nb", Match::Yes),
            ("push", "pu\u{1}", Match::Maybe),
        ];
        for (pattern, word, expected) in rows {
            assert_eq!(
                matches(pattern.as_bytes(), word.as_bytes()),
                expected,
                "{pattern} {word:?}"
            );
        }
    }
}
