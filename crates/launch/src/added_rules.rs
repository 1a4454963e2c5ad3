//! Rules that the user adds to a running session (`spec/network.md#rules-of-a-running-session`).
//!
//! They are lines of a file in the session directory, which only the user can access.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aifo_sidecar::on_reactor;
use aifo_types::Kind;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;

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

/// Appends rules to the file of a session.
pub(crate) fn append(directory: &Path, scope: &RuleScope, rules: &[String]) -> io::Result<()> {
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
pub(crate) async fn apply(directory: PathBuf, network: NamedNetwork) {
    if let Err(error) = watch(&directory, &network).await {
        tracing::warn!("cannot watch for rules of 'aifo-coder net allow': {error}");
    }
}

async fn watch(directory: &Path, network: &NamedNetwork) -> io::Result<()> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(directory, AddWatchFlags::IN_CLOSE_WRITE)?;
    let watched = on_reactor(inotify.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
    let mut applied = 0;
    loop {
        applied += apply_new(directory, applied, network);
        let mut ready = watched.readable().await?;
        while inotify.read_events().is_ok() {}
        ready.clear_ready();
    }
}

/// Applies the lines after the first `applied` ones, and returns their number.
fn apply_new(directory: &Path, applied: usize, network: &NamedNetwork) -> usize {
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
        match network.allow(scope, &rule) {
            Ok(()) => tracing::info!("the network now allows {rule}"),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    lines.len()
}
