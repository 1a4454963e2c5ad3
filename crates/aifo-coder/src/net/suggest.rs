//! `aifo-coder net suggest`: the rules that a session lacked.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use aifo_network::LoggedConnection;
use aifo_terminal::{console, paint};
use serde::Serialize;

use super::list::open;
use crate::session_log;

pub(super) fn suggest(session: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let log = session_log::with_connections(session, false)?;
    let lines = open(&log)?.read()?;
    let suggestions = suggestions(lines.iter().map(|(_, logged)| logged));
    if json {
        paint::print_json(&suggestions)?;
    } else if suggestions.is_empty() {
        console::say(format_args!("session '{}' lacked no rule", log.id));
    } else {
        paint::print(&table(&suggestions))?;
        let rules = suggestions.iter().map(|suggestion| quoted(&suggestion.rule));
        let rules = rules.collect::<Vec<_>>().join(" ");
        console::say(format_args!("to add them to your file: aifo-coder net allow {rules}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A rule, with the connections that lacked it.
#[derive(Debug, Default, Serialize)]
struct Suggestion {
    rule: String,
    /// The tools of the calls that connected, and `agent`.
    callers: BTreeSet<String>,
    connections: u64,
}

/// The ports of a rule without ports.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Merges the ports of each name with the same options, sorted.
fn suggestions<'a>(lines: impl Iterator<Item = &'a LoggedConnection>) -> Vec<Suggestion> {
    let mut merged: BTreeMap<(&str, &str), (BTreeSet<u16>, Suggestion)> = BTreeMap::new();
    for logged in lines {
        let Some(text) = &logged.suggestion else { continue };
        let options = text.split_once(' ').map_or("", |(_, options)| options);
        let (ports, suggestion) = merged.entry((&logged.name, options)).or_default();
        match logged.port {
            Some(port) => drop(ports.insert(port)),
            None => ports.extend(DEFAULT_PORTS),
        }
        let caller = match logged.stack.as_str() {
            "agent" => Some("agent".to_owned()),
            _ => logged.tool.clone(),
        };
        suggestion.callers.extend(caller);
        suggestion.connections += 1;
    }
    let merged = merged.into_iter().map(|((name, options), (ports, suggestion))| {
        let mut rule = name.to_owned();
        if !ports.iter().eq(&DEFAULT_PORTS) {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            rule += &format!(":{}", ports.join(","));
        }
        if !options.is_empty() {
            rule += &format!(" {options}");
        }
        Suggestion { rule, ..suggestion }
    });
    merged.collect()
}

fn table(suggestions: &[Suggestion]) -> String {
    let rows: Vec<_> = suggestions
        .iter()
        .map(|Suggestion { rule, callers, connections }| {
            let callers: Vec<&str> = callers.iter().map(String::as_str).collect();
            let callers = if callers.is_empty() { "-".to_owned() } else { callers.join(", ") };
            [format!("  \"{rule}\","), format!("# {callers}: {connections}")]
        })
        .collect();
    format!("[net]\nallow = [\n{}]\n", paint::columns(&rows))
}

/// Quotes a rule with options or a wildcard for a shell.
fn quoted(rule: &str) -> String {
    if rule.contains([' ', '*']) { format!("'{rule}'") } else { rule.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(name: &str, suggestion: Option<&str>, tool: Option<&str>) -> LoggedConnection {
        LoggedConnection {
            stack: "tools".to_owned(),
            name: name.to_owned(),
            port: suggestion.and_then(|rule| rule.split([':', ' ']).nth(1)?.parse().ok()),
            suggestion: suggestion.map(str::to_owned),
            tool: tool.map(str::to_owned),
            ..LoggedConnection::default()
        }
    }

    #[test]
    fn the_ports_of_a_name_are_merged() {
        let agent = LoggedConnection {
            stack: "agent".to_owned(),
            ..connection("b.example", Some("b.example"), None)
        };
        let lines = [
            connection("b.example", Some("b.example:22"), Some("git")),
            connection("a.example", Some("a.example:443"), None),
            connection("b.example", Some("b.example:443"), Some("cargo")),
            agent,
            connection("c.example", Some("c.example:443 private"), Some("pip")),
            connection("c.example", Some("c.example:80"), Some("pip")),
            connection("d.example", None, Some("pip")),
            connection("e.example", Some("e.example"), Some("x\n\"]")),
        ];
        let text = table(&suggestions(lines.iter()));
        let expected = "[net]\nallow = [\n\
                        \x20 \"a.example:443\",          # -: 1\n\
                        \x20 \"b.example:22,80,443\",    # agent, cargo, git: 3\n\
                        \x20 \"c.example:80\",           # pip: 1\n\
                        \x20 \"c.example:443 private\",  # pip: 1\n\
                        \x20 \"e.example\",              # x\\n\"]: 1\n]\n";
        assert_eq!(text, expected);
    }
}
