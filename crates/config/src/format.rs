//! Formats of values: how each is parsed and shown.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::ConfigError;
use crate::item::Item;

/// The format of a value.
pub(crate) struct Format<T: 'static> {
    pub(crate) parse: fn(&Item<'_>) -> Result<T, ConfigError>,
    /// Returns the value for `config show`; null if it is not set.
    pub(crate) show: fn(&T) -> Value,
    /// Returns the words of an enumeration.
    pub(crate) words: fn() -> Vec<&'static str>,
}

impl<T> Format<T> {
    pub(crate) const fn new(
        parse: fn(&Item<'_>) -> Result<T, ConfigError>,
        show: fn(&T) -> Value,
    ) -> Self {
        Format { parse, show, words: Vec::new }
    }
}

/// Shows a value as it is serialised.
pub(crate) fn plain<T: Serialize>(value: &T) -> Value {
    json!(value)
}

/// Shows a list of words.
pub(crate) fn displayed<T: fmt::Display>(list: &[T]) -> Value {
    list.iter().map(|item| Value::from(item.to_string())).collect()
}

/// Returns the word for a value of an enumeration.
pub(crate) fn word_of<T: PartialEq>(words: &[(T, &'static str)], value: &T) -> &'static str {
    words.iter().find(|(known, _)| known == value).map(|(_, word)| *word).unwrap_or_default()
}

/// Returns all words of an enumeration.
pub(crate) fn names<T>(words: &[(T, &'static str)]) -> Vec<&'static str> {
    words.iter().map(|(_, word)| *word).collect()
}

/// Defines the format of an enumeration by its words.
macro_rules! enumeration {
    ($name:ident: $type:ty = $words:expr) => {
        pub(crate) const $name: $crate::format::Format<$type> = $crate::format::Format {
            parse: |item| item.word(&$words),
            show: |value| serde_json::Value::from($crate::format::word_of(&$words, value)),
            words: || $crate::format::names(&$words),
        };
    };
}
pub(crate) use enumeration;

pub(crate) const SWITCH: Format<bool> = Format::new(|item| item.switch(), plain);
pub(crate) const OPTIONAL_SWITCH: Format<Option<bool>> =
    Format::new(|item| item.switch().map(Some), plain);
pub(crate) const TEXT: Format<String> = Format::new(|item| item.text(), plain);
pub(crate) const TEXTS: Format<Vec<String>> = Format::new(|item| item.list(), plain);
pub(crate) const PATHS: Format<Vec<PathBuf>> =
    Format::new(|item| Ok(item.list()?.into_iter().map(PathBuf::from).collect()), plain);
pub(crate) const SECONDS: Format<Option<u64>> =
    Format::new(|item| item.number(WHOLE).map(Some), plain);
/// Seconds; 0 is no limit.
pub(crate) const LIMIT: Format<Option<u64>> =
    Format::new(|item| Ok(Some(item.number(WHOLE)?).filter(|seconds| *seconds > 0)), plain);
pub(crate) const COUNT: Format<Option<u32>> =
    Format::new(|item| item.number(WHOLE).map(Some), plain);
/// A number greater than 0.
pub(crate) const AT_LEAST_ONE: Format<usize> = Format::new(
    |item| match item.number(WHOLE)? {
        0 => Err(item.error(format!("{} must be at least 1", item.key))),
        number => Ok(number),
    },
    plain,
);
pub(crate) const ABSOLUTE_PATH: Format<Option<PathBuf>> =
    Format::new(|item| absolute_path(item).map(Some), plain);

pub(crate) fn absolute_path(item: &Item<'_>) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(item.text()?);
    if path.is_absolute() {
        return Ok(path);
    }
    let key = item.key.rsplit('.').next().unwrap_or_default();
    Err(item.error(format!("{key} '{}' is not an absolute path", path.display())))
}

pub(crate) const WHOLE: &str = "a whole number";
