//! Errors of the configuration, with source and hint.

use std::path::Path;

use crate::source::{Layer, Source};

/// An invalid configuration: where, what and how to mend it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}{}", hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
pub struct ConfigError {
    place: String,
    layer: Option<Layer>,
    what: String,
    hint: Option<String>,
}

impl ConfigError {
    /// Returns an error of a value with this source.
    pub fn new(source: &Source, what: impl Into<String>) -> Self {
        let layer = Some(source.layer());
        ConfigError { place: source.to_string(), layer, what: what.into(), hint: None }
    }

    /// `invalid value 'x' for key: expected a, b or c`, without the key if a flag is the source.
    pub fn invalid_value(source: &Source, value: &str, key: &str, words: &[&str]) -> Self {
        let expected = match words {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            words => words.concat(),
        };
        let key = match source {
            Source::Flag(_) => String::new(),
            _ => format!(" for {key}"),
        };
        ConfigError::new(source, format!("invalid value '{value}'{key}: expected {expected}"))
    }

    /// Returns an error of a whole file.
    pub fn in_file(path: &Path, what: impl Into<String>) -> Self {
        let place = path.display().to_string();
        ConfigError { place, layer: None, what: what.into(), hint: None }
    }

    /// Returns whether a flag is wrong, as opposed to a file or variable.
    pub fn is_usage(&self) -> bool {
        self.layer == Some(Layer::Flag)
    }

    /// Sets a narrower source.
    pub fn at(mut self, source: &Source) -> Self {
        self.place = source.to_string();
        self
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A wrong command line that the flags alone do not show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Returns the known word closest to `word`, if it is similar enough.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Two exchanged letters are one mistake.
    let distance = |candidate| strsim::damerau_levenshtein(word, candidate);
    let rated = known.into_iter().map(|candidate| (distance(candidate), candidate));
    // With more than half of the letters wrong, suggestions are noise.
    let near = rated.filter(|(distance, candidate)| 2 * distance <= candidate.len());
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words() {
        let known = ["toolchains", "max_secs", "max_executions", "verbose", "listen"];
        let rows = [
            ("toolchain", Some("toolchains")),
            ("max-secs", Some("max_secs")),
            ("Verbose", Some("verbose")),
            ("max_execution", Some("max_executions")),
            ("lsiten", Some("listen")),
            ("image", None),
            ("", None),
        ];
        for (word, expected) in rows {
            assert_eq!(suggestion(word, known), expected, "{word}");
        }
    }
}
