//! Formats of names in Kubernetes.

use crate::error::ConfigError;
use crate::format::{Format, plain};
use crate::item::Item;
use crate::kinds::is_engine_word;

/// The longest DNS label.
const MAX_LABEL: usize = 63;
/// The longest DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

/// The name of a namespace.
pub(crate) const NAMESPACE: Format<Option<String>> =
    Format::new(|item| checked(item, parse_label).map(Some), plain);
/// A context of a kubeconfig: any text on one line.
pub(crate) const CONTEXT: Format<Option<String>> =
    Format::new(|item| checked(item, parse_context).map(Some), plain);
/// The name of a secret.
pub(crate) const SECRET: Format<String> = Format::new(|item| checked(item, parse_subdomain), plain);
pub(crate) const SECRETS: Format<Vec<String>> = Format::new(
    |item| {
        let names = item.list()?;
        names.iter().try_for_each(|name| check(item, name, parse_subdomain))?;
        Ok(names)
    },
    plain,
);
pub(crate) const IMAGE: Format<Option<String>> =
    Format::new(|item| checked(item, parse_image).map(Some), plain);

type Parse = fn(&str) -> Result<String, &'static str>;

/// Accepts a DNS label: letters in lower case, digits and `-`, which is neither first nor last.
pub fn parse_label(word: &str) -> Result<String, &'static str> {
    match is_label(word) {
        true => Ok(word.to_owned()),
        false => Err("expected a DNS label: a-z, 0-9 and '-', at most 63 characters"),
    }
}

/// Accepts a DNS subdomain: labels with dots between them.
pub fn parse_subdomain(word: &str) -> Result<String, &'static str> {
    match word.len() <= MAX_SUBDOMAIN && word.split('.').all(is_label) {
        true => Ok(word.to_owned()),
        false => Err("expected a DNS subdomain: a-z, 0-9, '-' and '.', at most 253 characters"),
    }
}

fn is_label(word: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    let bytes = || word.bytes();
    word.len() <= MAX_LABEL
        && bytes().all(is_inner)
        && is_end(bytes().next())
        && is_end(bytes().last())
}

fn parse_context(word: &str) -> Result<String, &'static str> {
    match !word.is_empty() && !word.contains(char::is_control) {
        true => Ok(word.to_owned()),
        false => Err("expected a name without control characters"),
    }
}

fn parse_image(word: &str) -> Result<String, &'static str> {
    // A component may not be empty, so `x:` and `a//b` are no references.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/@".contains(&byte);
    let has_parts = word.split(['/', ':', '@']).all(|part| !part.is_empty());
    match is_engine_word(word) && word.bytes().all(is_plain) && has_parts {
        true => Ok(word.to_owned()),
        false => Err("expected an image's name"),
    }
}

fn checked(item: &Item<'_>, parse: Parse) -> Result<String, ConfigError> {
    let word = item.text()?;
    check(item, &word, parse)?;
    Ok(word)
}

fn check(item: &Item<'_>, word: &str, parse: Parse) -> Result<(), ConfigError> {
    let key = item.key.rsplit('.').next().unwrap_or_default();
    let failed = |why| item.error(format!("invalid {key} '{word}': {why}"));
    parse(word).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        let long = "a".repeat(64);
        for (word, is_label, is_subdomain) in [
            ("team-1", true, true),
            ("1", true, true),
            ("a.b", false, true),
            ("Team", false, false),
            ("a_b", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            ("", false, false),
            (&long, false, false),
        ] {
            assert_eq!(parse_label(word).is_ok(), is_label, "{word}");
            assert_eq!(parse_subdomain(word).is_ok(), is_subdomain, "{word}");
        }
        for (word, is_image) in [
            ("registry.example:5000/team/aifo:1.2", true),
            ("x@sha256:0123", true),
            ("a b", false),
            ("a//b", false),
            ("a:", false),
            ("-a", false),
            ("a;b", false),
        ] {
            assert_eq!(parse_image(word).is_ok(), is_image, "{word}");
        }
        assert!(parse_context("arn:aws:eks:x/y").is_ok() && parse_context("a\nb").is_err());
    }
}
