//! The rule that *always* writes to the user's file.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use aifo_config::user_file_path;
use aifo_types::quote_word;
use anyhow::{Context, bail};

use crate::net::{check, difference, lock, replace};

/// A change of the user's file.
#[derive(Debug)]
pub(crate) struct Plan {
    path: PathBuf,
    before: String,
    after: String,
}

/// Returns the change that allows exactly this call. Errors: no rule can express it, or the file cannot
/// be extended.
pub(crate) fn plan(argv: &[String]) -> anyhow::Result<Plan> {
    let path = path()?;
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
    };
    let after = extended(&before, &rule(argv)?);
    check(&path, &after).context("cannot write a rule for this call")?;
    Ok(Plan { path, before, after })
}

/// Why a shown change was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    /// The change is no longer the shown one.
    #[error("'{}' has changed\nhint: look at the new difference, and answer again", .0.display())]
    Changed(PathBuf),
    /// The file cannot be written.
    #[error("{0}")]
    Failed(String),
}

/// Writes the rule for this call and returns the difference.
pub(super) fn write(argv: &[String]) -> anyhow::Result<String> {
    let path = path()?;
    let failed = || format!("cannot write '{}'", path.display());
    let _lock = lock(&path).with_context(failed)?;
    let plan = plan(argv)?;
    replace(&path, &plan.after).with_context(failed)?;
    Ok(plan.difference())
}

fn path() -> anyhow::Result<PathBuf> {
    user_file_path().context("there is no configuration file\nhint: set HOME")
}

impl Plan {
    pub(crate) fn difference(&self) -> String {
        difference(&self.path, &self.before, &self.after)
    }

    /// Writes the file, unless it has changed.
    pub(crate) fn write(&self) -> Result<(), NotWritten> {
        let path = &self.path;
        let failed =
            |error| NotWritten::Failed(format!("cannot write '{}': {error}", path.display()));
        let _lock = lock(path).map_err(failed)?;
        if fs::read_to_string(path).unwrap_or_default() != self.before {
            return Err(NotWritten::Changed(path.clone()));
        }
        replace(path, &self.after).map_err(failed)
    }
}

/// A table of an array stands at the end of the file, whatever is before it.
fn extended(text: &str, rule: &str) -> String {
    let separator = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{separator}{rule}")
}

/// Returns the rule that matches this call only.
fn rule(argv: &[String]) -> anyhow::Result<String> {
    let is_pattern =
        |word: &&String| word.chars().any(|it| it.is_control() || "*?[]{}\\!~\"".contains(it));
    if let Some(word) = argv.iter().find(is_pattern) {
        let word = quote_word(word.as_bytes());
        bail!("no rule matches exactly {word}\nhint: allow the call for this session");
    }
    let (words, rest) = argv.split_at(argv.iter().take_while(|word| is_plain(word)).count());
    if words.is_empty() {
        bail!("the tool '{}' has no name for a rule", argv.first().map_or("", String::as_str));
    }
    let line =
        shlex::try_join(argv.iter().map(String::as_str)).context("no rule matches a NUL byte")?;
    // A JSON string without control characters is a TOML string.
    let list = |words: &[String]| serde_json::to_string(words);
    let all = match rest {
        [] => String::new(),
        rest => format!("all = {}\n", list(rest)?),
    };
    let (run, yes) = (list(words)?, list(&[line])?);
    Ok(format!(
        "[[rule]]\nrun = {run}\n{all}exact = true\nthen = \"allow\"\nexamples = {{ yes = {yes} }}\n"
    ))
}

/// Returns whether a word can be a tool or subcommand of a rule.
fn is_plain(word: &str) -> bool {
    !word.starts_with('-')
        && word.chars().all(|it| it.is_ascii_alphanumeric() || "-_.+".contains(it))
}

#[cfg(test)]
mod tests {
    use toml::{Table, Value};

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_rule_has_the_call_as_its_example() {
        let text = extended("max_secs = 5", &rule(&words("git push --force origin")).unwrap());
        let table: Table = toml::from_str(&text).unwrap();
        let rule = &table["rule"][0];
        assert_eq!(rule["run"], Value::try_from(["git", "push"]).unwrap());
        assert_eq!(rule["all"], Value::try_from(["--force", "origin"]).unwrap());
        assert_eq!(rule["then"].as_str(), Some("allow"));
        let examples = Value::try_from(["git push --force origin"]).unwrap();
        assert_eq!(rule["examples"]["yes"], examples);
        assert_eq!(table["max_secs"].as_integer(), Some(5));
    }

    #[test]
    fn a_call_that_a_rule_cannot_name_exactly_gets_none() {
        for call in ["rm -r *", "rm a?b", "./x y", "-x"] {
            assert!(rule(&words(call)).is_err(), "{call}");
        }
    }
}
