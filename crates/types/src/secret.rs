//! Names of secrets, for logs and for variables: `spec/environment.md#secrets`.

/// Returns whether an option, variable or member of this name holds a secret: one of its words is a
/// secret word or ends in one, in any case, singular or plural. In camel case the last part of a
/// word counts too.
pub fn names_secret(name: &[u8]) -> bool {
    // The shell's directory, not a password.
    name != b"PWD" && words(name).any(|word| secret_word(word).is_some())
}

/// Returns whether this value is a secret. A number under a plural is a count, such as `maxTokens`
/// 4096.
pub fn is_secret(name: &[u8], value: &[u8]) -> bool {
    let counts = || {
        let all_plural = words(name).filter_map(secret_word).all(|number| number == Number::Plural);
        !value.is_empty() && value.iter().all(u8::is_ascii_digit) && all_plural
    };
    names_secret(name) && !counts()
}

/// Returns the offset of a secret in an argument: after `NAME=`, or after `NAME: ` as in a header. Paths
/// such as `token::parse` or `team/auth:1.2` contain none.
pub fn secret_in_word(word: &[u8]) -> Option<usize> {
    secret_behind(word, |sign, rest| {
        sign == b'=' || (sign == b':' && rest.first().is_some_and(u8::is_ascii_whitespace))
    })
}

/// Returns the offset of a secret in a line: after `NAME=` or `NAME:`. The rest of the line is withheld,
/// since the value's end is unknown.
pub fn secret_in_line(line: &[u8]) -> Option<usize> {
    secret_behind(line, |sign, _| matches!(sign, b'=' | b':'))
}

/// The replacement of a secret.
pub const HIDDEN: &str = "[redacted]";

/// Words that match only as a whole: `COMPAT` and `BYPASS` do not.
const SECRET_WORDS: &[&str] = &["PASS", "PWD", "PAT", "OTP", "JWT"];
/// Words that also match as a suffix, such as in `APIKEY`.
const SECRET_ENDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "KEY",
    "CREDENTIAL",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "BEARER",
];

/// The grammatical number of a secret word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Singular,
    Plural,
}

fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric())
}

fn secret_word(word: &[u8]) -> Option<Number> {
    if is_secret_word(word) {
        return Some(Number::Singular);
    }
    let singular = word.strip_suffix(b"S").or_else(|| word.strip_suffix(b"s"))?;
    is_secret_word(singular).then_some(Number::Plural)
}

fn is_secret_word(word: &[u8]) -> bool {
    let ends_so = |end: &&str| {
        let start = word.len().checked_sub(end.len());
        let tail = start.and_then(|start| word.get(start..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
    };
    let whole = |known: &&str| {
        word.eq_ignore_ascii_case(known.as_bytes())
            || last_part(word).eq_ignore_ascii_case(known.as_bytes())
    };
    SECRET_WORDS.iter().any(whole) || SECRET_ENDS.iter().any(ends_so)
}

/// `Pat` of `githubPat`; the whole word if it is not in camel case.
fn last_part(word: &[u8]) -> &[u8] {
    let is_border =
        |pair: &[u8]| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase());
    let border = word.windows(2).rposition(is_border);
    border.and_then(|at| word.get(at + 1..)).unwrap_or(word)
}

/// Returns the offset of the first secret's value after one of these signs.
fn secret_behind(text: &[u8], is_sign: impl Fn(u8, &[u8]) -> bool) -> Option<usize> {
    let mut unread = text;
    let mut read = 0;
    while let Some(at) = unread.iter().position(|byte| matches!(byte, b'=' | b':')) {
        let (before, rest) = unread.split_at(at);
        let (&sign, rest) = rest.split_first()?;
        read += at + 1;
        if is_sign(sign, rest) && is_secret(name_at_end(before), value_at_start(rest)) {
            return Some(read);
        }
        unread = rest;
    }
    None
}

/// The name before a sign, skipping quotes and spaces.
fn name_at_end(text: &[u8]) -> &[u8] {
    let between = |byte: &u8| matches!(byte, b'"' | b'\'' | b' ' | b'\\');
    let end = text.iter().rposition(|byte| !between(byte)).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let start = text.iter().rposition(|byte| !is_name(byte)).map_or(0, |other| other + 1);
    text.get(start..).unwrap_or_default()
}

/// The first word after a sign.
fn value_at_start(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = |byte: &u8| byte.is_ascii_whitespace() || b",;}])&".contains(byte);
    text.split(end).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../spec/environment.md");

    #[test]
    fn the_page_prints_the_words() {
        let list = |words: &[&str]| {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
        };
        let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [SECRET_WORDS, SECRET_ENDS] {
            assert!(page.contains(&list(words)), "{words:?}");
        }
    }

    #[test]
    fn every_name_of_the_page_is_judged_as_it_says() {
        let rows = PAGE.split("\n## Secrets\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let mut count = 0;
        for row in rows.lines().filter(|line| line.starts_with("| `")) {
            let secret = row.trim_end_matches(" |").ends_with("| yes");
            for name in row.split('`').skip(1).step_by(2) {
                assert_eq!(names_secret(name.as_bytes()), secret, "{name}");
                assert_eq!(is_secret(name.as_bytes(), b"a1"), secret, "{name}");
                count += 1;
            }
        }
        assert!(count > 30, "only {count} names found");
        assert!(!names_secret(b"PWD") && names_secret(b"--PWD") && names_secret(b"pwd"));
    }

    #[test]
    fn a_number_of_a_plural_is_a_count() {
        let rows = [
            ("maxTokens", "4096", false),
            ("--max-tokens", "4096", false),
            ("maxTokens", "4096a", true),
            ("maxTokens", "", true),
            ("token", "4096", true),
            ("PASS", "1234", true),
            ("token_secrets", "1", true),
            ("port", "80", false),
        ];
        for (name, value, expected) in rows {
            assert_eq!(is_secret(name.as_bytes(), value.as_bytes()), expected, "{name}={value}");
        }
    }

    #[test]
    fn where_a_secret_begins() {
        let rows = [
            ("a=b", None, None),
            ("--token=x", Some(8), Some(8)),
            ("GITHUB_PAT=x", Some(11), Some(11)),
            ("--config=net.token=x", Some(19), Some(19)),
            ("https://host/?q=1&access_token=x", Some(31), Some(31)),
            ("Authorization: Bearer x", Some(14), Some(14)),
            ("token::parse", None, Some(6)),
            ("team/auth:1.2", None, Some(10)),
            (r#"{"apiKey" :"x"}"#, None, Some(11)),
            ("total tokens: 7, token = x", Some(24), Some(24)),
            ("PWD=/w", None, None),
            ("=", None, None),
            ("", None, None),
            ("ü key=\u{fc}", Some(7), Some(7)),
        ];
        for (text, in_word, in_line) in rows {
            assert_eq!(secret_in_word(text.as_bytes()), in_word, "{text}");
            assert_eq!(secret_in_line(text.as_bytes()), in_line, "{text}");
        }
    }
}
