//! The variables of this environment that a tool would get.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_policy::{ForwardDecision, Forwarding, StayReason};

use super::explanation::{Fate, Variable};
use crate::{Config, EnvEffect, EnvRule};

/// Judges every variable of this process and of the configuration, sorted by name.
pub(crate) fn judge_variables(
    config: &Config,
    forwarding: &Forwarding,
    workspace: &Path,
) -> Vec<Variable> {
    let workspace = &[workspace.to_owned()];
    let mut all = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let judged = forwarding.judge(name.as_bytes(), value.as_bytes(), workspace);
        let name = name.to_string_lossy().into_owned();
        let (fate, reason, remedy) = match judged {
            ForwardDecision::Passes(why) => (Fate::Passes, why.to_string(), None),
            ForwardDecision::Stays(StayReason::Denied) => {
                (Fate::Stays, by("denied", config, EnvEffect::Deny, &name), None)
            }
            ForwardDecision::Stays(why) => (Fate::Stays, why.to_string(), remedy(&name, why)),
        };
        all.insert(name.clone(), Variable { name, fate, reason, remedy });
    }
    for name in forwarding.set_names() {
        let reason = by("set", config, EnvEffect::Set, name);
        let variable = Variable { name: name.to_owned(), fate: Fate::Set, reason, remedy: None };
        all.insert(name.to_owned(), variable);
    }
    all.into_values().collect()
}

/// How to make a variable pass, if possible.
fn remedy(name: &str, why: StayReason) -> Option<String> {
    let final_word =
        matches!(why, StayReason::NoName | StayReason::SidecarOwn | StayReason::Denied);
    (!final_word).then(|| format!("--env {name} passes it"))
}

/// `set by --env`: the action and the source of the last rule that matches.
fn by(action: &str, config: &Config, effect: EnvEffect, name: &str) -> String {
    let speaks = |rule: &&EnvRule| {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        rule.effect == effect && rule.names.value.iter().any(fits)
    };
    match config.variables.rules.iter().rev().find(speaks) {
        Some(rule) => format!("{action} by {}", rule.names.source),
        None => action.to_owned(),
    }
}
