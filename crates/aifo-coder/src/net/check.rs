//! `aifo-coder net check`: which rules of a session decide about a name.

use std::process::ExitCode;

use aifo_launch::{Name, NetRules, NetworkVerdict, RuleScope};
use aifo_types::escape_line;
use serde::Serialize;

use crate::cli::{NetCheck, UsageError};
use crate::config;
use crate::paint;

/// The port of a name without one.
const HTTPS: u16 = 443;

pub(super) fn check(flags: &NetCheck) -> anyhow::Result<ExitCode> {
    let (name, port) = parse(&flags.name)?;
    let workspace = config::real(&flags.project.workspace.path);
    let config = config::load(&workspace, &flags.project.flags())?;
    let (mut rules, _) = config.network_rules(&workspace);
    if let Some(agent) = &flags.agent {
        let agent = config.agent_named(agent)?;
        rules.set_agent(&agent.hosts)?;
        if config.net_defaults.value {
            let ports = &config.host_ports.value;
            rules.allow_urls(agent, ports, &|name| std::env::var_os(name));
        }
    }
    let kinds = config.toolchains.value.kinds();
    let tools = rules.explain_tools(&kinds, &name, port);
    let agent = rules.explain_agent(&name, port);
    let checked = Checked {
        name: name.to_string(),
        port,
        mode: config.network_mode(),
        stacks: vec![Row::of("tools", &tools), Row::of("agent", &agent)],
    };
    match flags.json {
        true => paint::print_json(&checked)?,
        false => paint::print(&text(&checked))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses `NAME[:PORT]`. Errors: those of a rule, and a rule for more than one name and port.
fn parse(text: &str) -> Result<(Name, u16), UsageError> {
    let list = [text.to_owned()];
    NetRules::parse(&list).map_err(|error| UsageError(error.to_string()))?;
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (text, Some(HTTPS)),
    };
    match (Name::parse(name.as_bytes()), port) {
        (Ok(name), Some(port)) => Ok((name, port)),
        _ => Err(UsageError(format!(
            "'{text}' is not one name with one port\nhint: for example: registry.example:443"
        ))),
    }
}

/// The decisions about a name.
#[derive(Serialize)]
struct Checked {
    name: String,
    port: u16,
    /// The network of a session in containers.
    mode: String,
    stacks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    stack: &'static str,
    allowed: bool,
    rules: Vec<RuleRow>,
    /// The names and groups that take it away.
    denied_by: Vec<String>,
}

#[derive(Serialize)]
struct RuleRow {
    rule: String,
    source: String,
    /// The kind whose tools have it, or `agent`.
    only: Option<String>,
}

impl Row {
    fn of(stack: &'static str, verdict: &NetworkVerdict<'_>) -> Self {
        let rules = verdict.rules.iter().map(|rule| RuleRow {
            rule: rule.rule.clone(),
            source: rule.source.clone(),
            only: match &rule.scope {
                RuleScope::All => None,
                RuleScope::Kind(kind) => Some(kind.to_string()),
                RuleScope::Agent => Some("agent".to_owned()),
            },
        });
        Row {
            stack,
            allowed: verdict.is_allowed(),
            rules: rules.collect(),
            denied_by: verdict.denials.iter().map(|denial| (*denial).to_owned()).collect(),
        }
    }
}

/// Returns a line per stack, with the rules and their sources.
fn text(checked: &Checked) -> String {
    let Checked { name, port, mode, stacks } = checked;
    let mut text = match mode.as_str() {
        "names" => format!("{name}:{port}\n"),
        "learn" => format!("{name}:{port}, and --net learn allows names without a rule\n"),
        mode => format!("{name}:{port}, if --net were names; it is {mode}\n"),
    };
    for row in stacks {
        let verdict = if row.allowed { "allowed" } else { "refused" };
        let rule = |RuleRow { rule, source, only }: &RuleRow| {
            let only = only.as_ref().map(|only| format!("{only}, ")).unwrap_or_default();
            format!("'{rule}' ({only}{source})")
        };
        let rules: Vec<String> = row.rules.iter().map(rule).collect();
        let denials: Vec<String> = row.denied_by.iter().map(|it| format!("'{it}'")).collect();
        let cause = match (rules.as_slice(), denials.as_slice()) {
            (_, [_, ..]) => format!("net.deny takes it away with {}", denials.join(", ")),
            ([], []) => "no rule allows it".to_owned(),
            (rules, []) => rules.join(", "),
        };
        text += &escape_line(&format!("{:<6} {verdict}: {cause}", row.stack));
        text.push('\n');
    }
    let is_missing = |row: &Row| row.rules.is_empty() && row.denied_by.is_empty();
    if stacks.iter().all(is_missing) {
        let port = if *port == HTTPS { String::new() } else { format!(":{port}") };
        text += &format!("hint: allow it with: aifo-coder net allow {name}{port}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use aifo_launch::NetworkRules;
    use aifo_types::Kind;

    use super::*;

    #[test]
    fn a_name_has_one_port() {
        let parsed = |text| parse(text).map(|(name, port)| format!("{name} {port}"));
        assert_eq!(parsed("A.example.").unwrap(), "a.example 443");
        assert_eq!(parsed("a.example:22").unwrap(), "a.example 22");
        for (text, expected) in [
            ("*.a.example", "is not one name"),
            ("@rust", "is not one name"),
            ("a.example:22,443", "is not one name"),
            ("a.example:22 raw", "is not one name"),
            ("10.0.0.1", "invalid name"),
            ("https://a.example/", "is a URL"),
            ("a.example:0", "invalid port"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("\nhint: "), "{text}: {error}");
        }
    }

    #[test]
    fn every_stack_has_its_cause() {
        let kinds = [Kind::parse("rust").unwrap()];
        let mut rules = NetworkRules::default_of(&kinds);
        rules.allow(RuleScope::Agent, "more.example", "/u.toml:3").unwrap();
        rules.deny(&["gitlab.com".to_owned()]).unwrap();
        let check = |name: &str, port, mode: &str| {
            let name = Name::parse(name.as_bytes()).unwrap();
            let tools = rules.explain_tools(&kinds, &name, port);
            let stacks =
                vec![Row::of("tools", &tools), Row::of("agent", &rules.explain_agent(&name, port))];
            text(&Checked { name: name.to_string(), port, mode: mode.to_owned(), stacks })
        };
        let rows = [
            (
                check("static.crates.io", 443, "names"),
                "static.crates.io:443\ntools  allowed: '@rust' (rust, default)\n\
                 agent  refused: no rule allows it\n",
            ),
            (
                check("more.example", 80, "shared"),
                "more.example:80, if --net were names; it is shared\n\
                 tools  refused: no rule allows it\n\
                 agent  allowed: 'more.example' (agent, /u.toml:3)\n",
            ),
            (
                check("gitlab.com", 443, "learn"),
                "gitlab.com:443, and --net learn allows names without a rule\n\
                 tools  refused: net.deny takes it away with 'gitlab.com'\n\
                 agent  refused: net.deny takes it away with 'gitlab.com'\n",
            ),
            (
                check("x.example", 22, "names"),
                "x.example:22\ntools  refused: no rule allows it\n\
                 agent  refused: no rule allows it\n\
                 hint: allow it with: aifo-coder net allow x.example:22\n",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(text, expected);
        }
    }
}
