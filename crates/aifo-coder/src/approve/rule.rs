//! The rule that *always* writes to the user's file.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::config::user_file_path;
use crate::net::{check, difference, replace};

/// A change of the user's file.
#[derive(Debug)]
pub(super) struct Plan {
    path: PathBuf,
    before: String,
    after: String,
}

/// Returns the change that allows exactly this call. Errors: no rule can express it, or the file cannot
/// be extended.
pub(super) fn plan(argv: &[String]) -> anyhow::Result<Plan> {
    let path = user_file_path().context("there is no configuration file\nhint: set HOME")?;
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
    };
    let after = extended(&before, &rule(argv)?);
    check(&path, &after).context("cannot write a rule for this call")?;
    Ok(Plan { path, before, after })
}

impl Plan {
    pub(super) fn difference(&self) -> String {
        difference(&self.path, &self.before, &self.after)
    }

    /// Writes the file, unless it has changed, and returns the difference.
    pub(super) fn write(&self) -> anyhow::Result<String> {
        let path = &self.path;
        if fs::read_to_string(path).unwrap_or_default() != self.before {
            bail!("'{}' has changed\nhint: answer again", path.display());
        }
        replace(path, &self.after).with_context(|| format!("cannot write '{}'", path.display()))?;
        Ok(self.difference())
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
        bail!("no rule matches exactly '{word}'\nhint: allow the call for this session");
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
