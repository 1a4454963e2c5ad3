//! `aifo-coder net allow`: adds rules to the user's file and to running sessions.

use std::process::ExitCode;

use aifo_config::{Source, UsageError, add_net_rules, remove_net_rules};
use aifo_egress::NetRules;
use aifo_host::{SessionInfo, running_sessions};
use aifo_network::{NetworkRules, RuleScope, allow_names};
use aifo_terminal::{console, paint};
use aifo_types::Kind;
use anyhow::{Context, bail};

use crate::cli::NetAllow;

pub(super) fn allow(flags: &NetAllow) -> anyhow::Result<ExitCode> {
    let mut parsed = NetworkRules::default();
    for rule in &flags.rules {
        let added = parsed.allow(RuleScope::All, rule, "");
        added.map_err(|error| UsageError(error.to_string()))?;
    }
    let parsed = parsed.of_all();
    let rules: Vec<String> = flags.rules.iter().map(|rule| blanks_once(rule)).collect();
    let scope = scope(flags)?;
    let path = aifo_config::user_file_path().context(NO_HOME)?;
    match add_net_rules(&path, &scope, &rules)? {
        Some(difference) => paint::print(&difference)?,
        None => console::say(format_args!("'{}' has these rules already", path.display())),
    }
    for session in running_sessions() {
        add_to_session(&session, &scope, &rules, &parsed);
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes rules from the user's file.
pub(super) fn forget(flags: &NetAllow) -> anyhow::Result<ExitCode> {
    let path = aifo_config::user_file_path().context(NO_HOME)?;
    let rules: Vec<String> = flags.rules.iter().map(|rule| blanks_once(rule)).collect();
    match remove_net_rules(&path, &scope(flags)?, &rules)? {
        Some(difference) => paint::print(&difference)?,
        None => bail!("'{}' has no such rule\nhint: see: aifo-coder net list", path.display()),
    }
    if running_sessions().iter().any(|session| session.name_ports.is_some()) {
        console::say("running sessions keep the rules that they have");
    }
    Ok(ExitCode::SUCCESS)
}

/// A rule as the file has it.
fn blanks_once(rule: &str) -> String {
    rule.split_whitespace().collect::<Vec<_>>().join(" ")
}

const NO_HOME: &str = "no configuration directory: neither XDG_CONFIG_HOME nor HOME is set";

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

/// Adds the rules to a session with a network by name. A failure is a message, as the file has them.
fn add_to_session(session: &SessionInfo, scope: &RuleScope, rules: &[String], parsed: &NetRules) {
    let Some(ports) = &session.name_ports else { return };
    let (name, of) = match scope {
        RuleScope::All => (&session.name, String::new()),
        RuleScope::Agent => (&session.name, " for its agent".to_owned()),
        RuleScope::Kind(kind) if session.kinds.contains(kind) => {
            (&session.name, format!(" for tools of {kind}"))
        }
        RuleScope::Kind(_) => return,
    };
    if session.backend == LOCAL {
        console::say(format_args!(
            "session {name} has local sidecars: new sessions have the rules"
        ));
        return;
    }
    if let RuleScope::Kind(kind) = scope {
        let others = others_in_stack(session, kind);
        if !others.is_empty() {
            console::say(format_args!(
                "session {name} has no further rules{of}, which share a network stack with those of \
                 {others}\nhint: new sessions have the rules; to add them for all tools, omit --kind"
            ));
            return;
        }
    }
    if let Err(error) = allow_names(session, scope, rules) {
        console::say(format_args!("cannot add the rules to session {name}: {error}"));
        return;
    }
    // A rule without a port is mostly meant for TLS.
    let is_meant = |port: &u16| *port != HTTP || rules.iter().any(|rule| rule.contains(':'));
    let missing = parsed.ports().into_iter().filter(|port| !ports.contains(port) && is_meant(port));
    let missing: Vec<String> = missing.map(|port| port.to_string()).collect();
    if missing.is_empty() {
        console::say(format_args!("session {name} has the rules{of} from now on"));
    } else {
        console::say(format_args!(
            "session {name} has the rules{of} from now on, but no listener at port {}\n\
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

const HTTP: u16 = 80;

/// The name of the local backend.
const LOCAL: &str = "local";
