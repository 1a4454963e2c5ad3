//! The rule that *always* writes to the user's file.

use std::fs;
use std::path::PathBuf;

use aifo_policy::{FORGE, PUSH};
use aifo_types::quote_word;

use super::{UserFileError, check, difference, lock, read, replace};
use crate::paths::user_file_path;

/// The change of the user's file that allows exactly one call.
#[derive(Debug)]
pub struct CallRule {
    path: PathBuf,
    before: String,
    after: String,
}

/// Adds the rule for this call, and returns the difference.
pub fn add_call_rule(argv: &[String]) -> Result<String, UserFileError> {
    let path = path()?;
    let failed = |source| UserFileError::Write { path: path.clone(), source };
    let _lock = lock(&path).map_err(failed)?;
    let change = CallRule::new(argv)?;
    replace(&path, &change.after).map_err(failed)?;
    Ok(change.difference())
}

fn path() -> Result<PathBuf, UserFileError> {
    user_file_path().ok_or(UserFileError::NoHome)
}

impl CallRule {
    /// Errors: no rule can express the call, or the file cannot be extended.
    pub fn new(argv: &[String]) -> Result<Self, UserFileError> {
        let path = path()?;
        let before = read(&path)?;
        let after = extended(&before, &rule(argv)?);
        check(&path, &after).map_err(UserFileError::InvalidRule)?;
        Ok(CallRule { path, before, after })
    }

    /// Returns the file's path, then the new lines.
    pub fn difference(&self) -> String {
        difference(&self.path, &self.before, &self.after)
    }

    /// Writes the file. Errors: it has changed since, or cannot be written.
    pub fn write(&self) -> Result<(), UserFileError> {
        let path = &self.path;
        let failed = |source| UserFileError::Write { path: path.clone(), source };
        let _lock = lock(path).map_err(failed)?;
        if fs::read_to_string(path).unwrap_or_default() != self.before {
            return Err(UserFileError::Changed(path.clone()));
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
fn rule(argv: &[String]) -> Result<String, UserFileError> {
    let no_rule = |why: String| Err(UserFileError::NoRule(why));
    if argv.first().is_some_and(|word| [PUSH, FORGE].contains(&word.as_str())) {
        return no_rule(
            "a change at a forge has no rule of its own\nhint: allow it for this session; for pushes write a rule with push"
                .to_owned(),
        );
    }
    let is_pattern =
        |word: &&String| word.chars().any(|it| it.is_control() || "*?[]{}\\!~\"".contains(it));
    if let Some(word) = argv.iter().find(is_pattern) {
        let word = quote_word(word.as_bytes());
        return no_rule(format!(
            "no rule matches exactly {word}\nhint: allow the call for this session"
        ));
    }
    let (words, rest) = argv.split_at(argv.iter().take_while(|word| is_plain(word)).count());
    if words.is_empty() {
        let tool = argv.first().map_or("", String::as_str);
        return no_rule(format!("the tool '{tool}' has no name for a rule"));
    }
    let Ok(line) = shlex::try_join(argv.iter().map(String::as_str)) else {
        return no_rule("no rule matches a NUL byte".to_owned());
    };
    // A JSON string without control characters is a TOML string.
    let list = |words: &[String]| serde_json::json!(words).to_string();
    let all = match rest {
        [] => String::new(),
        rest => format!("all = {}\n", list(rest)),
    };
    let (run, yes) = (list(words), list(&[line]));
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
