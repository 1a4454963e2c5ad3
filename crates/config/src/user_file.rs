//! Changes of the user's file that keep the rest of it.

mod call_rule;
mod net_rules;

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use aifo_network::RuleScope;
use tempfile::NamedTempFile;

pub use self::call_rule::{CallRule, add_call_rule};
use self::net_rules::{CannotEdit, add_rules, quoted, remove_rules};
use crate::error::ConfigError;
use crate::file::File;
use crate::table::Config;

/// The user's file is not changed.
#[derive(Debug, thiserror::Error)]
pub enum UserFileError {
    /// There is no home directory.
    #[error("there is no configuration file\nhint: set HOME")]
    NoHome,
    /// It cannot be read.
    #[error("cannot read '{}'", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write '{}'", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is invalid.
    #[error(transparent)]
    Invalid(#[from] ConfigError),
    /// It would be invalid with the rule for a call.
    #[error("cannot write a rule for this call")]
    InvalidRule(#[source] ConfigError),
    /// No rule can express a call.
    #[error("{0}")]
    NoRule(String),
    /// It is no longer as it was when its change was shown.
    #[error("'{}' has changed\nhint: look at the new difference, and answer again", .0.display())]
    Changed(PathBuf),
    /// Its list cannot be changed in one place.
    #[error(
        "cannot change the rules of '{}' without changing more of it\n\
         hint: change them yourself in [{table}]: allow = [{rules}]",
        path.display()
    )]
    NotExtended {
        /// Its path.
        path: PathBuf,
        /// The table.
        table: String,
        /// The rules, as TOML.
        rules: String,
    },
}

/// Adds network rules to the user's file, and returns the difference; `None` if it has them already.
pub fn add_net_rules(
    path: &Path,
    scope: &RuleScope,
    rules: &[String],
) -> Result<Option<String>, UserFileError> {
    change_net_rules(path, scope, rules, add_rules)
}

/// Removes network rules from the user's file, and returns the difference; `None` if it has none of them.
pub fn remove_net_rules(
    path: &Path,
    scope: &RuleScope,
    rules: &[String],
) -> Result<Option<String>, UserFileError> {
    change_net_rules(path, scope, rules, remove_rules)
}

/// Returns a text with the rules in the list of a table changed.
type ChangeOfRules = fn(&str, &[&str], &[String]) -> Result<String, CannotEdit>;

/// Changes the list of rules of a scope.
fn change_net_rules(
    path: &Path,
    scope: &RuleScope,
    rules: &[String],
    change: ChangeOfRules,
) -> Result<Option<String>, UserFileError> {
    let failed = |source| UserFileError::Write { path: path.to_owned(), source };
    let _lock = lock(path).map_err(failed)?;
    let text = read(path)?;
    // An invalid file is not changed.
    check(path, &text)?;
    let table: &[&str] = match scope {
        RuleScope::All => &["net"],
        RuleScope::Agent => &["net", "agent"],
        RuleScope::Kind(kind) => &["net", "kind", kind.as_str()],
    };
    let after = change(&text, table, rules).map_err(|_| {
        let list: Vec<_> = rules.iter().map(|rule| quoted(rule)).collect();
        UserFileError::NotExtended {
            path: path.to_owned(),
            table: table.join("."),
            rules: list.join(", "),
        }
    })?;
    if after == text {
        return Ok(None);
    }
    check(path, &after)?;
    replace(path, &after).map_err(failed)?;
    Ok(Some(difference(path, &text, &after)))
}

/// Returns the text of a file; nothing if it does not exist.
fn read(path: &Path) -> Result<String, UserFileError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| UserFileError::Read { path: path.to_owned(), source }),
    }
}

/// Errors: the text is not a valid configuration.
fn check(path: &Path, text: &str) -> Result<(), ConfigError> {
    Config::builtin().apply_user(&File::new(path, text.to_owned()))
}

/// Locks the directory of a file against other commands that change it, until the lock is dropped.
fn lock(path: &Path) -> io::Result<fs::File> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let directory = fs::File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

/// Replaces a file atomically. A link stays one, and owner and permissions are kept. Errors: the file is
/// read-only.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (target, old) = match path.canonicalize() {
        Ok(real) => {
            let old = real.metadata()?;
            if old.mode() & 0o222 == 0 {
                return Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"));
            }
            (real, Some(old))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let mut new = NamedTempFile::new_in(directory)?;
    new.write_all(text.as_bytes())?;
    if let Some(old) = &old {
        // Root may edit another user's file; a user cannot give one away.
        let _ = fchown(new.as_file(), Some(old.uid()), Some(old.gid()));
    }
    let mode = old.map_or(0o644, |old| old.mode() & 0o777);
    new.as_file().set_permissions(Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(&target)?;
    Ok(())
}

/// Returns the path, then the changed lines with `-` and `+`.
fn difference(path: &Path, before: &str, after: &str) -> String {
    let [old, new]: [Vec<&str>; 2] = [before, after].map(|text| text.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let [old, new] = [&old, &new].map(|lines| lines.get(same..).unwrap_or_default());
    let pairs = old.iter().rev().zip(new.iter().rev());
    let same_end = pairs.take_while(|(old, new)| old == new).count();
    let changed = |lines: &[&str], sign: char| -> String {
        let count = lines.len().saturating_sub(same_end);
        lines.iter().take(count).map(|line| format!("{sign}{line}\n")).collect()
    };
    format!("{}\n{}{}", path.display(), changed(old, '-'), changed(new, '+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_shown() {
        let path = Path::new("/u.toml");
        let rows = [
            ("", "a\nb\n", "+a\n+b\n"),
            ("a\nb\nc\n", "a\nx\nc\n", "-b\n+x\n"),
            ("a\na\n", "a\na\na\n", "+a\n"),
        ];
        for (before, after, expected) in rows {
            assert_eq!(difference(path, before, after), format!("/u.toml\n{expected}"));
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_link_and_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let [real, link] = ["real.toml", "link.toml"].map(|name| directory.path().join(name));
        fs::write(&real, "a = 1\n").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        replace(&link, "b = 2\n").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "b = 2\n");
        assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o600);
        let new = directory.path().join("aifo/config.toml");
        replace(&new, "c = 3\n").unwrap();
        assert_eq!(fs::read_to_string(new).unwrap(), "c = 3\n");
    }
}
