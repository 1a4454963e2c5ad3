//! Rules that the user adds to a running session (`spec/network.md#rules-of-a-running-session`).
//!
//! They are lines of a file in the session directory, which only the user can access.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_host::SessionInfo;
use aifo_sidecar::on_reactor;
use aifo_types::Kind;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use tokio::io::{Interest, unix::AsyncFd};

use crate::named_network::NamedNetwork;
use crate::network_rules::RuleScope;

/// The name of the file.
const FILE: &str = "net-allowed";

/// More than a user adds.
const MAX_BYTES: u64 = 1 << 20;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct AddedRule {
    /// The kind of the tools that have it.
    kind: Option<String>,
    /// Only the agent has it.
    agent: bool,
    rule: String,
}

/// Adds rules to the network by name of a running session, for later queries and connections. Errors:
/// the session has just ended, or belongs to another user.
pub fn allow_names(session: &SessionInfo, scope: &RuleScope, rules: &[String]) -> io::Result<()> {
    append(&session.directory, scope, rules)
}

/// Appends rules to a session file.
fn append(directory: &Path, scope: &RuleScope, rules: &[String]) -> io::Result<()> {
    let mut text = Vec::new();
    for rule in rules {
        let kind = match scope {
            RuleScope::Kind(kind) => Some(kind.to_string()),
            RuleScope::All | RuleScope::Agent => None,
        };
        let line = AddedRule { kind, agent: *scope == RuleScope::Agent, rule: rule.clone() };
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    let path = directory.join(FILE);
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // One write, so the launcher reads whole lines.
    file.write_all(&text)
}

/// Applies the rules of the file as they are added, until the future is dropped.
pub async fn apply(directory: PathBuf, network: NamedNetwork) {
    let changes = Changes::of(&directory);
    apply_by(&directory, changes, |scope, rule| network.allow(scope, rule)).await;
}

async fn apply_by<E: Display>(
    directory: &Path,
    mut changes: Changes,
    allow: impl Fn(RuleScope, &str) -> Result<(), E>,
) {
    let mut applied = 0;
    loop {
        applied += apply_new(directory, applied, &allow);
        changes.next().await;
    }
}

/// Writes to a directory's files.
enum Changes {
    Watched(Inotify, AsyncFd<OwnedFd>),
    /// A user has a number of inotify instances, which a container of that user can use up.
    Polled,
}

/// The interval of polling.
const POLL: Duration = Duration::from_secs(1);

impl Changes {
    fn of(directory: &Path) -> Self {
        Changes::watch(directory).unwrap_or_else(|error| {
            tracing::debug!("cannot watch for rules of 'aifo-coder net allow': {error}");
            Changes::Polled
        })
    }

    fn watch(directory: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(directory, AddWatchFlags::IN_CLOSE_WRITE)?;
        let watched = on_reactor(inotify.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(Changes::Watched(inotify, watched))
    }

    /// Waits for a write, or until it is time to look.
    async fn next(&mut self) {
        let failed = match self {
            Changes::Watched(inotify, watched) => match watched.readable().await {
                Ok(mut ready) => {
                    while inotify.read_events().is_ok() {}
                    ready.clear_ready();
                    false
                }
                Err(_) => true,
            },
            Changes::Polled => {
                tokio::time::sleep(POLL).await;
                false
            }
        };
        if failed {
            *self = Changes::Polled;
        }
    }
}

/// Applies the lines after the first `applied` ones by `allow`, and returns their number.
fn apply_new<E: Display>(
    directory: &Path,
    applied: usize,
    allow: impl Fn(RuleScope, &str) -> Result<(), E>,
) -> usize {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(directory.join(FILE));
    // There is no file before the first rule.
    if file.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)).is_err() {
        return 0;
    }
    let lines: Vec<&str> = text.lines().skip(applied).collect();
    for AddedRule { kind, agent, rule } in
        lines.iter().filter_map(|line| serde_json::from_str(line).ok())
    {
        let scope = match kind.map(|kind| Kind::parse(&kind)) {
            Some(Ok(kind)) => RuleScope::Kind(kind),
            Some(Err(_)) => continue,
            None if agent => RuleScope::Agent,
            None => RuleScope::All,
        };
        match allow(scope, &rule) {
            Ok(()) => tracing::info!("the network now allows {rule}"),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn rules_are_applied_once_each_with_and_without_inotify() {
        for is_watched in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            let changes =
                if is_watched { Changes::watch(directory).unwrap() } else { Changes::Polled };
            let (sender, mut applied) = mpsc::unbounded_channel();
            let allow = |_, rule: &str| {
                sender.send(rule.to_owned()).unwrap();
                Ok::<(), Infallible>(())
            };
            let adding = async {
                for rule in ["a.example", "b.example"] {
                    append(directory, &RuleScope::All, &[rule.to_owned()]).unwrap();
                    assert_eq!(applied.recv().await.as_deref(), Some(rule));
                }
            };
            let both = async {
                tokio::select! {
                    () = apply_by(directory, changes, allow) => {}
                    () = adding => {}
                }
            };
            tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        }
    }
}
