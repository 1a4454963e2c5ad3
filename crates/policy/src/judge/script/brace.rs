//! Brace expansion of a word.

use super::{BRACE, UNKNOWN};
use crate::judge::glob::PLAIN;

/// Maximum number of words of an expansion.
const MAX_WORDS: usize = 64;

/// Expands the unquoted braces of a word. `is_quoted` means that a part of it is quoted.
pub(super) fn expand(mut word: Vec<u8>, is_quoted: bool) -> Vec<Vec<u8>> {
    let Some(at) = word.iter().position(|byte| *byte == BRACE) else { return vec![word] };
    let rest = word.get(at..).unwrap_or_default();
    let expands =
        rest.contains(&b'}') && (rest.contains(&b',') || rest.windows(2).any(|two| two == b".."));
    if !expands {
        word.iter_mut().filter(|byte| **byte == BRACE).for_each(|byte| *byte = b'{');
        return vec![word];
    }
    // A quoted comma or brace is a plain one, and looks the same here.
    let words = if is_quoted { None } else { alternatives(&word, 0) };
    words.unwrap_or_else(|| {
        word.truncate(at);
        word.extend([UNKNOWN, UNKNOWN]);
        vec![word]
    })
}

/// Returns the words of an expansion, or `None` if there are too many.
fn alternatives(word: &[u8], depth: usize) -> Option<Vec<Vec<u8>>> {
    let Some(open) = word.iter().position(|byte| *byte == BRACE) else {
        return Some(vec![word.to_vec()]);
    };
    let mut commas = Vec::new();
    let mut level = 0_usize;
    let mut close = None;
    for (at, byte) in word.iter().enumerate().skip(open) {
        match *byte {
            BRACE => level += 1,
            b'}' => {
                level -= 1;
                if level == 0 {
                    close = Some(at);
                    break;
                }
            }
            b',' if level == 1 => commas.push(at),
            _ => {}
        }
    }
    let close = close.filter(|_| depth < 8)?;
    let head = word.get(..open)?;
    let inner = word.get(open + 1..close)?;
    let tails = alternatives(word.get(close + 1..)?, depth + 1)?;
    let mut parts = Vec::new();
    let mut from = open + 1;
    for at in commas.iter().copied().chain([close]) {
        parts.extend(alternatives(word.get(from..at)?, depth + 1)?);
        from = at + 1;
    }
    if commas.is_empty() {
        let is_range = inner.windows(2).any(|two| two == b"..");
        let is_number = inner.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        parts = match (is_range, is_number) {
            (true, true) => vec![vec![PLAIN]],
            (true, false) => return None,
            (false, _) => parts.iter().map(|part| [b"{", part.as_slice(), b"}"].concat()).collect(),
        };
    }
    if parts.len() * tails.len() > MAX_WORDS {
        return None;
    }
    let join = |part: &Vec<u8>| {
        let joined = |tail: &Vec<u8>| [head, part, tail].concat();
        tails.iter().map(joined).collect::<Vec<_>>()
    };
    Some(parts.iter().flat_map(join).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        let word = text.bytes().map(|byte| if byte == b'{' { BRACE } else { byte }).collect();
        let words = expand(word, false).into_iter();
        words.map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_of_an_expansion() {
        let rows: [(&str, &[&str]); 8] = [
            ("a", &["a"]),
            ("a{b,c}d", &["abd", "acd"]),
            ("{a,b}{c,d}", &["ac", "ad", "bc", "bd"]),
            ("{a,{b,c}}", &["a", "b", "c"]),
            ("x{}", &["x{}"]),
            ("{a}", &["{a}"]),
            ("x{1..3}", &["x\u{3}"]),
            ("{a..c}", &["\0\0"]),
        ];
        for (text, expected) in rows {
            assert_eq!(expanded(text), expected, "{text}");
        }
        assert_eq!(expand(b"\x02a,b}".to_vec(), true), [[UNKNOWN, UNKNOWN]]);
    }
}
