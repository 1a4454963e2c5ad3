//! `aifo-coder net allow`: adds rules to the user's file and to running sessions.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::process::ExitCode;

use aifo_config::{Config, File, Source, UsageError};
use aifo_egress::NetRules;
use aifo_host::{SessionInfo, running_sessions};
use aifo_network::{NetworkRules, RuleScope, allow_names};
use aifo_terminal::{console, paint};
use aifo_types::Kind;
use anyhow::{Context, bail};
use tempfile::NamedTempFile;

use super::edit::{add_rules, quoted};
use crate::cli::NetAllow;

pub(super) fn allow(flags: &NetAllow) -> anyhow::Result<ExitCode> {
    let mut parsed = NetworkRules::default();
    for rule in &flags.rules {
        let added = parsed.allow(RuleScope::All, rule, "");
        added.map_err(|error| UsageError(error.to_string()))?;
    }
    let parsed = parsed.of_all();
    let blanks_once = |rule: &String| rule.split_whitespace().collect::<Vec<_>>().join(" ");
    let rules: Vec<String> = flags.rules.iter().map(blanks_once).collect();
    let scope = scope(flags)?;
    let path = aifo_config::user_file_path()
        .context("no configuration directory: neither XDG_CONFIG_HOME nor HOME is set")?;
    add_to_file(&path, &scope, &rules)?;
    for session in running_sessions() {
        add_to_session(&session, &scope, &rules, &parsed);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the stacks that get the rules. Errors: there is no such kind.
fn scope(flags: &NetAllow) -> anyhow::Result<RuleScope> {
    Ok(match &flags.kind {
        Some(kind) => {
            let config = aifo_config::load_user()?;
            RuleScope::Kind(config.kinds.named(kind, &Source::Flag("--kind"))?)
        }
        None if flags.agent => RuleScope::Agent,
        None => RuleScope::All,
    })
}

fn add_to_file(path: &Path, scope: &RuleScope, rules: &[String]) -> anyhow::Result<()> {
    let _lock = lock(path).with_context(|| format!("cannot write '{}'", path.display()))?;
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
    };
    // An invalid file is not changed.
    check(path, &text)?;
    let table: &[&str] = match scope {
        RuleScope::All => &["net"],
        RuleScope::Agent => &["net", "agent"],
        RuleScope::Kind(kind) => &["net", "kind", kind.as_str()],
    };
    let Ok(after) = add_rules(&text, table, rules) else {
        let list = rules.iter().map(|rule| quoted(rule));
        bail!(
            "cannot add a rule to '{}' without changing more of it\n\
             hint: add it yourself to [{}]: allow = [{}]",
            path.display(),
            table.join("."),
            list.collect::<Vec<_>>().join(", ")
        );
    };
    if after == text {
        console::say(format_args!("'{}' has these rules already", path.display()));
        return Ok(());
    }
    check(path, &after)?;
    replace(path, &after).with_context(|| format!("cannot write '{}'", path.display()))?;
    Ok(paint::print(&difference(path, &text, &after))?)
}

/// Errors: the text is not a valid configuration.
pub(crate) fn check(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(Config::builtin().apply_user(&File::new(path, text.to_owned()))?)
}

/// Locks the directory of a file against other commands that change it, until the lock is dropped.
pub(crate) fn lock(path: &Path) -> std::io::Result<fs::File> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let directory = fs::File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

/// Replaces a file atomically. A link stays one, and owner and permissions are kept. Errors: the file is
/// read-only.
pub(crate) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let (target, old) = match path.canonicalize() {
        Ok(real) => {
            let old = real.metadata()?;
            if old.mode() & 0o222 == 0 {
                return Err(std::io::Error::new(
                    ErrorKind::PermissionDenied,
                    "the file is read-only",
                ));
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
pub(crate) fn difference(path: &Path, before: &str, after: &str) -> String {
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

/// Adds the rules to a session with a network by name. A failure is a message, as the file has them.
fn add_to_session(session: &SessionInfo, scope: &RuleScope, rules: &[String], parsed: &NetRules) {
    let Some(ports) = &session.name_ports else { return };
    let (id, of) = match scope {
        RuleScope::All => (&session.id, String::new()),
        RuleScope::Agent => (&session.id, " for its agent".to_owned()),
        RuleScope::Kind(kind) if session.kinds.contains(kind) => {
            (&session.id, format!(" for tools of {kind}"))
        }
        RuleScope::Kind(_) => return,
    };
    if session.backend == LOCAL {
        console::say(format_args!("session {id} has local sidecars: new sessions have the rules"));
        return;
    }
    if let RuleScope::Kind(kind) = scope {
        let others = others_in_stack(session, kind);
        if !others.is_empty() {
            console::say(format_args!(
                "session {id} has no further rules{of}, which share a network stack with those of \
                 {others}\nhint: new sessions have the rules; to add them for all tools, omit --kind"
            ));
            return;
        }
    }
    if let Err(error) = allow_names(session, scope, rules) {
        console::say(format_args!("cannot add the rules to session {id}: {error}"));
        return;
    }
    let missing = parsed.ports().into_iter().filter(|port| !ports.contains(port));
    let missing: Vec<String> = missing.map(|port| port.to_string()).collect();
    if missing.is_empty() {
        console::say(format_args!("session {id} has the rules{of} from now on"));
    } else {
        console::say(format_args!(
            "session {id} has the rules{of} from now on, but no listener at port {}\n\
             hint: start a new session for this port",
            missing.join(", ")
        ));
    }
}

/// Returns the other kinds of a kind's network stack.
fn others_in_stack(session: &SessionInfo, kind: &Kind) -> String {
    let stack = session.tool_stacks.iter().find(|kinds| kinds.contains(kind));
    let kinds = stack.map(|kinds| kinds.iter()).into_iter().flatten();
    let others: Vec<_> = kinds.filter(|other| *other != kind).map(Kind::as_str).collect();
    others.join(" and ")
}

/// The name of the local backend.
const LOCAL: &str = "local";

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
