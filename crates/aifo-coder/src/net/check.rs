//! `aifo-coder net check`: which rules of a session decide about a name.
//!
//! Proves `spec/cli.md#net-check`.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_agents::{AgentSettings, StateMode};
use aifo_config::{Config, UsageError};
use aifo_egress::{AddressClass, Name, NetRules};
use aifo_network::{NetworkRule, NetworkRules, NetworkVerdict, RuleScope, ToolStacks};
use aifo_sidecar::TOOLS_STACK;
use aifo_terminal::paint;
use aifo_types::{Kind, Subnet, escape_line};
use serde::Serialize;

use crate::cli::NetCheck;

/// The port of a name without one.
const HTTPS: u16 = 443;

pub(super) fn check(flags: &NetCheck) -> anyhow::Result<ExitCode> {
    let workspace = aifo_config::real(&flags.project.workspace.path);
    let set = flags.containers.add_to(flags.project.flags());
    let config = aifo_config::load(&workspace, &set)?;
    let of = (flags.name.as_str(), flags.agent.as_deref());
    explain(&config, &workspace, of, Resolve::No, flags.json)
}

/// The choice to resolve the name, which may take seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolve {
    Yes,
    No,
}

/// Prints which rules decide about a name, with the hosts of an agent.
pub(crate) fn explain(
    config: &Config,
    workspace: &Path,
    (text_of_name, agent): (&str, Option<&str>),
    resolve: Resolve,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let (name, port) = parse(text_of_name)?;
    let (mut rules, _) = config.network_rules(workspace);
    if let Some(agent) = agent {
        let agent = config.agent_named(agent)?;
        rules.set_agent(&agent.hosts)?;
        if config.net_defaults.value {
            let ports = &config.host_ports.value;
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let home = home.filter(|_| config.state.value == StateMode::Own);
            let settings = AgentSettings::of(agent, home.as_deref(), workspace);
            agent.allow_urls(&mut rules, ports, &settings, &|name| std::env::var_os(name));
        }
    }
    let stacks = config.tool_stacks(&rules);
    let checked = Checked {
        name: name.to_string(),
        port,
        mode: config.network_mode(),
        stacks: decisions(&rules, &stacks, &name, port),
        addresses: match resolve {
            Resolve::Yes => Some(addresses(&name, port, rules.permitted_addresses())),
            Resolve::No => None,
        },
    };
    match as_json {
        true => paint::print_json(&checked)?,
        false => paint::print(&text(&checked))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Resolves a name as a session does; none if it has no address here.
fn addresses(name: &Name, port: u16, permitted: &[Subnet]) -> Vec<AddressRow> {
    let found = (name.as_str(), port).to_socket_addrs().into_iter().flatten();
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let row = |address: IpAddr| {
        let class = AddressClass::of(address);
        let class = class.filter(|class| !class.is_permitted_within(address, permitted));
        let remedy = class.map(|class| match class {
            AddressClass::Private | AddressClass::Shared => {
                format!("aifo-coder net allow '{name}:{port} private'")
            }
            class if class.is_of_no_host() => {
                "its range in net.addresses of your configuration".to_owned()
            }
            _ => format!("aifo-coder net allow '{name}:{port} address={address}'"),
        });
        AddressRow { address: address.to_string(), class: class.map(|it| it.to_string()), remedy }
    };
    addresses.into_iter().take(MAX_ADDRESSES).map(row).collect()
}

/// The addresses that are shown.
const MAX_ADDRESSES: usize = 4;

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

/// Returns the decision of each stack.
fn decisions(rules: &NetworkRules, stacks: &ToolStacks, name: &Name, port: u16) -> Vec<Row> {
    let of_tools = stacks.iter().map(|stack| {
        let verdict = rules.explain_tools(&stack.kinds, name, port);
        Row::of(stack.name.clone(), &stack.kinds, &verdict)
    });
    let agent = Row::of("agent".to_owned(), &[], &rules.explain_agent(name, port));
    of_tools.chain([agent]).collect()
}

/// The decisions about a name.
#[derive(Serialize)]
struct Checked {
    name: String,
    port: u16,
    /// The network of a session in containers.
    mode: String,
    stacks: Vec<Row>,
    /// Those that the name has here, if it was resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<AddressRow>>,
}

#[derive(Serialize)]
struct AddressRow {
    address: String,
    /// Why it is not dialled without a further setting.
    class: Option<String>,
    remedy: Option<String>,
}

#[derive(Serialize)]
struct Row {
    stack: String,
    /// The kinds whose tools are in it; empty for the agent's.
    kinds: Vec<String>,
    allowed: bool,
    rules: Vec<RuleRow>,
    /// The names and groups that take it away.
    denied_by: Vec<String>,
}

/// A rule in JSON.
#[derive(Serialize)]
pub(super) struct RuleRow {
    pub(super) rule: String,
    pub(super) source: String,
    /// The kind whose tools have it, or `agent`; null for all.
    pub(super) only: Option<String>,
}

impl RuleRow {
    pub(super) fn of(rule: &NetworkRule) -> Self {
        RuleRow {
            rule: rule.rule.clone(),
            source: rule.source.clone(),
            only: match &rule.scope {
                RuleScope::All => None,
                RuleScope::Kind(kind) => Some(kind.to_string()),
                RuleScope::Agent => Some("agent".to_owned()),
            },
        }
    }
}

impl Row {
    /// Returns the stack, with its kinds if its name has not all of them.
    fn label(&self) -> String {
        match self.kinds.as_slice() {
            [_, _, ..] if self.stack != TOOLS_STACK => {
                format!("{} ({})", self.stack, self.kinds.join(", "))
            }
            _ => self.stack.clone(),
        }
    }

    fn of(stack: String, kinds: &[Kind], verdict: &NetworkVerdict<'_>) -> Self {
        let rules = verdict.rules.iter().map(|rule| RuleRow::of(rule));
        Row {
            stack,
            kinds: kinds.iter().map(Kind::to_string).collect(),
            allowed: verdict.is_allowed(),
            rules: rules.collect(),
            denied_by: verdict.denials.iter().map(|denial| (*denial).to_owned()).collect(),
        }
    }
}

/// Returns a line per stack, with the rules and their sources.
fn text(checked: &Checked) -> String {
    let Checked { name, port, mode, stacks, addresses } = checked;
    let mut text = match mode.as_str() {
        "names" => format!("{name}:{port}\n"),
        "learn" => format!("{name}:{port}, and --net learn allows names without a rule\n"),
        mode => format!("{name}:{port}, if --net were names; it is {mode}\n"),
    };
    let labels: Vec<String> = stacks.iter().map(Row::label).collect();
    let width = labels.iter().map(String::len).max().unwrap_or_default();
    for (row, label) in stacks.iter().zip(&labels) {
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
        text += &escape_line(&format!("{label:<width$}  {verdict}: {cause}"));
        text.push('\n');
    }
    if addresses.as_ref().is_some_and(Vec::is_empty) {
        text += "address  none: this machine does not resolve the name\n";
    }
    for AddressRow { address, class, remedy } in addresses.iter().flatten() {
        text += &match (class, remedy) {
            (Some(class), Some(remedy)) => {
                format!("address  {address} is {class}, so it is refused; to permit it: {remedy}\n")
            }
            _ => format!("address  {address}\n"),
        };
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
            let stacks = decisions(&rules, &ToolStacks::new(&rules, &kinds), &name, port);
            text(&Checked {
                name: name.to_string(),
                port,
                mode: mode.to_owned(),
                stacks,
                addresses: None,
            })
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
        let kinds = ["rust", "c-cpp", "zig"].map(|kind| Kind::parse(kind).unwrap());
        let rules = NetworkRules::default_of(&kinds);
        let name = Name::parse(b"crates.io").unwrap();
        let stacks = decisions(&rules, &ToolStacks::new(&rules, &kinds), &name, 443);
        let mode = "names".to_owned();
        let text = text(&Checked {
            name: name.to_string(),
            port: 443,
            mode,
            stacks,
            addresses: Some(Vec::new()),
        });
        let expected = "crates.io:443\n\
                        tools:rust                allowed: '@rust' (rust, default)\n\
                        tools:c-cpp (c-cpp, zig)  refused: no rule allows it\n\
                        agent                     refused: no rule allows it\n\
                        address  none: this machine does not resolve the name\n";
        assert_eq!(text, expected);
    }
}
