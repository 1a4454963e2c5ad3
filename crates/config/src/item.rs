//! A configured value before it is parsed: TOML, a variable's text, or a flag's words.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use aifo_types::env;
use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeValue, ValueDeserializer},
};

use crate::error::{ConfigError, suggestion};
use crate::source::{FileLine, Source};

/// A value of the user's file or the workspace's, of a variable or of a flag.
#[derive(Debug)]
pub struct Item<'a> {
    /// The key, as in the table of keys.
    pub key: &'a str,
    /// The word in place of NAME, if the key has one.
    pub name: &'a str,
    pub source: Source,
    input: Input<'a>,
}

#[derive(Debug)]
enum Input<'a> {
    Toml(&'a Spanned<DeValue<'a>>, &'a FileText),
    Variable(String),
    Flag(&'a [String]),
}

/// A file as text, and the sources of its values.
#[derive(Debug)]
pub struct FileText {
    pub path: PathBuf,
    pub text: String,
    pub owner: FileOwner,
    /// The byte offset of each line.
    pub lines: Vec<usize>,
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    User,
    /// Any process that can write to the workspace, including the agent.
    Workspace,
}

impl<'a> Item<'a> {
    pub fn of_file(
        text: &'a FileText,
        key: &'a str,
        name: &'a str,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Self {
        Item { key, name, source: text.source(value.span()), input: Input::Toml(value, text) }
    }

    pub fn of_variable(key: &'a str, source: Source, value: String) -> Self {
        Item { key, name: "", source, input: Input::Variable(value) }
    }

    pub fn of_flag(key: &'a str, flag: &'static str, words: &'a [String]) -> Self {
        Item { key, name: "", source: Source::Flag(flag), input: Input::Flag(words) }
    }

    /// Returns the words of a flag, if it is one.
    pub fn flag_words(&self) -> Option<&'a [String]> {
        match self.input {
            Input::Flag(words) => Some(words),
            _ => None,
        }
    }

    /// Returns the table and the file of a table.
    pub fn table(&self) -> Option<(&'a Spanned<DeValue<'a>>, &'a FileText)> {
        match self.input {
            Input::Toml(value, text) if value.get_ref().is_table() => Some((value, text)),
            _ => None,
        }
    }

    /// Parses a value of a file. Errors: it has another type, or is no value of a file.
    pub fn toml<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        match &self.input {
            Input::Toml(value, text) => {
                let parsed = T::deserialize(ValueDeserializer::from((*value).clone()));
                parsed.map_err(|error| text.malformed(&error, error.span().unwrap_or(value.span())))
            }
            Input::Variable(_) | Input::Flag(_) => Err(self.error("expected a file")),
        }
    }

    pub fn text(&self) -> Result<String, ConfigError> {
        Ok(match &self.input {
            Input::Toml(..) => self.toml()?,
            Input::Variable(value) => value.clone(),
            Input::Flag(words) => words.last().cloned().unwrap_or_default(),
        })
    }

    /// Parses a list; that of a variable is separated by commas.
    pub fn list(&self) -> Result<Vec<String>, ConfigError> {
        Ok(match &self.input {
            Input::Toml(..) => self.toml()?,
            Input::Variable(value) => {
                let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(str::to_owned).collect()
            }
            Input::Flag(words) => words.to_vec(),
        })
    }

    pub fn switch(&self) -> Result<bool, ConfigError> {
        match self.input {
            Input::Toml(..) => self.toml(),
            _ => Ok(env::is_truthy(&self.text()?)),
        }
    }

    /// Parses a number; `expected` names it in errors: `a whole number`.
    pub fn number<T>(&self, expected: &str) -> Result<T, ConfigError>
    where
        T: DeserializeOwned + FromStr,
    {
        if let Input::Toml(..) = self.input {
            return self.toml();
        }
        let text = self.text()?;
        let invalid = || self.error(format!("invalid value '{text}': expected {expected}"));
        text.parse().map_err(|_| invalid())
    }

    /// Parses a word of an enumeration.
    pub fn word<T: Copy>(&self, words: &[(T, &str)]) -> Result<T, ConfigError> {
        self.choose(&self.text()?, words)
    }

    /// Returns the value of a word. Errors: it is none of `words`.
    pub fn choose<T: Copy>(&self, text: &str, words: &[(T, &str)]) -> Result<T, ConfigError> {
        let found = words.iter().find(|(_, word)| *word == text);
        found.map(|(value, _)| *value).ok_or_else(|| {
            let known: Vec<_> = words.iter().map(|(_, word)| *word).collect();
            self.invalid(text, &known)
        })
    }

    pub fn error(&self, what: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.source, what)
    }

    /// Returns the error for a word that is none of `words`.
    pub fn invalid(&self, value: &str, words: &[&str]) -> ConfigError {
        ConfigError::invalid_value(&self.source, value, self.key, words)
    }

    /// Returns the source of a span in the value.
    pub fn source_of(&self, span: Range<usize>) -> Source {
        match self.input {
            Input::Toml(_, text) => text.source(span),
            _ => self.source.clone(),
        }
    }
}

impl FileText {
    /// Returns the source of a span of the text.
    pub fn source(&self, span: Range<usize>) -> Source {
        let line = self.lines.partition_point(|start| *start <= span.start).max(1);
        let line = FileLine { path: self.path.clone(), line };
        match self.owner {
            FileOwner::User => Source::UserFile(line),
            FileOwner::Workspace => Source::WorkspaceFile(line),
        }
    }

    /// Returns the error for a key that does not exist. `section` is the table that has this key.
    pub fn unknown_key(
        &self,
        span: Range<usize>,
        unknown: &str,
        known: &[&str],
        section: Option<&str>,
    ) -> ConfigError {
        let what = format!("there is no key '{unknown}'");
        let error = ConfigError::new(&self.source(span), what);
        match (section, suggestion(unknown, known.iter().copied())) {
            (Some(section), _) => error.hint(format!("'{unknown}' belongs in [{section}]")),
            (None, Some(meant)) => error.hint(format!("did you mean '{meant}'?")),
            (None, None) => error.hint(format!("known keys: {}", known.join(", "))),
        }
    }

    pub fn malformed(&self, error: &toml::de::Error, span: Range<usize>) -> ConfigError {
        let message = error.message();
        if let Some(types) = message.strip_prefix("invalid type: ")
            && let Some((found, expected)) = types.split_once(", expected ")
        {
            let what = format!("expected {}, found {found}", type_in_toml(expected));
            let error = ConfigError::new(&self.source(span.clone()), what);
            return match (expected, self.text.get(span)) {
                ("a sequence", Some(text)) if !found.starts_with("map") => {
                    error.hint(format!("put it in brackets: [{text}]"))
                }
                ("a sequence", Some(_)) => {
                    error.hint("a list of tables has two brackets: [[NAME]]")
                }
                _ => error,
            };
        }
        let Some(rest) = message.strip_prefix("unknown field `") else {
            return ConfigError::new(&self.source(span), message.replace('\n', "; "));
        };
        // "unknown field `x`, expected one of `a`, `b`": every second part is a name.
        let names: Vec<&str> = rest.split('`').step_by(2).filter(|name| !name.is_empty()).collect();
        let (unknown, known) = names.split_first().unwrap_or((&"", &[]));
        self.unknown_key(span, unknown, known, None)
    }
}

/// Returns the words for a type of serde's in a configuration file.
fn type_in_toml(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a map" => "a table",
        "a boolean" => "true or false",
        "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        other => other,
    }
}
