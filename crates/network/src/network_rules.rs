//! The rules of a session network by name, each with its stacks and its source
//! (`spec/network.md#default-rules`).

use std::fmt;

use aifo_egress::{Name, NameVerdict, NetRules, RuleError};
use aifo_types::{Kind, Subnet};
use serde::Deserialize;

/// The rules of a session. Their order does not matter.
#[derive(Clone, Debug, Default)]
pub struct NetworkRules {
    allowed: Vec<NetworkRule>,
    /// Names and groups that no stack reaches, whatever allows them.
    denied: Vec<String>,
    /// The hosts of the agent groups; empty without an agent.
    agent: AgentHosts,
    /// Addresses that every name may have.
    addresses: Vec<Subnet>,
}

/// The hosts of an agent: rules of a network by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentHosts {
    /// Its models, with the login that they need and the list of models: `@agent-model`.
    pub model: Vec<String>,
    /// Reports of use and of errors: `@agent-telemetry`.
    pub telemetry: Vec<String>,
    /// Its own newer versions: `@agent-update`.
    pub update: Vec<String>,
}

/// A rule, or a group of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    /// The stacks that have it.
    pub scope: RuleScope,
    /// The rule as it is written: `registry.example:443`, `@rust`.
    pub rule: String,
    /// The file with its line, the variable or flag that has it, or the default.
    pub source: String,
}

/// The stacks that have a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Those of all tools, and the agent's.
    All,
    /// That of a kind's tools.
    Kind(Kind),
    /// That of the agent.
    Agent,
}

/// The source of a rule that no setting has.
pub const DEFAULT_RULE: &str = "default";

/// The group that tools of every kind, and the agent, have by default.
const FORGES: &str = "@forges";

/// The groups that the tools of a kind have by default, besides that of the forges.
const GROUPS_OF_KINDS: [(&str, &str); 4] =
    [("rust", "@rust"), ("node", "@node"), ("python", "@python"), ("go", "@go")];

/// The groups of the agent of a session, whose row has their hosts.
const AGENT_GROUPS: [(&str, HostsOf); 3] = [
    (AGENT_MODEL, |hosts| &hosts.model),
    ("@agent-telemetry", |hosts| &hosts.telemetry),
    ("@agent-update", |hosts| &hosts.update),
];

/// Selects the hosts of a group.
type HostsOf = fn(&AgentHosts) -> &[String];

/// The group that an agent has by default.
const AGENT_MODEL: &str = "@agent-model";

impl NetworkRules {
    /// Returns the default rules for the tools of these kinds, and for any agent.
    pub fn default_of(kinds: &[Kind]) -> Self {
        let default = NetworkRule::default_of;
        let of_kind = |kind: &Kind| {
            let row = GROUPS_OF_KINDS.iter().find(|(name, _)| *name == kind.as_str());
            row.map(|(_, group)| default(RuleScope::Kind(kind.clone()), group))
        };
        let all = std::iter::once(default(RuleScope::All, FORGES));
        let agent = std::iter::once(default(RuleScope::Agent, AGENT_MODEL));
        let allowed = all.chain(kinds.iter().filter_map(of_kind)).chain(agent).collect();
        NetworkRules { allowed, ..NetworkRules::default() }
    }

    /// Adds a rule or a group. Errors: it is not valid.
    pub fn allow(
        &mut self,
        scope: RuleScope,
        rule: impl Into<String>,
        source: impl Into<String>,
    ) -> Result<(), RuleError> {
        let rule = NetworkRule { scope, rule: rule.into(), source: source.into() };
        NetRules::parse(&self.expanded([&rule.rule]))?;
        self.allowed.push(rule);
        Ok(())
    }

    /// Takes names and groups away from every stack. Errors: one is not valid.
    pub fn deny(&mut self, list: &[String]) -> Result<(), RuleError> {
        NetRules::default().take_away(&self.expanded(list))?;
        self.denied.extend_from_slice(list);
        Ok(())
    }

    /// Permits every name addresses of these subnets.
    pub fn permit_addresses(&mut self, subnets: &[Subnet]) {
        self.addresses.extend_from_slice(subnets);
    }

    /// Returns the subnets whose addresses every name may have.
    pub fn permitted_addresses(&self) -> &[Subnet] {
        &self.addresses
    }

    /// Sets the hosts of the agent groups. Errors: one is not valid.
    pub fn set_agent(&mut self, hosts: &AgentHosts) -> Result<(), RuleError> {
        for (_, hosts_of) in AGENT_GROUPS {
            NetRules::parse(hosts_of(hosts))?;
        }
        self.agent.clone_from(hosts);
        Ok(())
    }

    /// Returns the hosts of the agent's reports and updates.
    pub(crate) fn unadvertised(&self) -> NetRules {
        // They were parsed when they were set.
        NetRules::parse(&[&self.agent.telemetry[..], &self.agent.update].concat())
            .unwrap_or_default()
    }

    /// Returns the rules of the stack of a kind's tools.
    pub fn of_kind(&self, kind: &Kind) -> NetRules {
        self.of_kinds(std::slice::from_ref(kind))
    }

    /// Returns the rules of a stack that the tools of several kinds share.
    pub fn of_kinds(&self, kinds: &[Kind]) -> NetRules {
        self.matching(|scope| match scope {
            RuleScope::All => true,
            RuleScope::Kind(kind) => kinds.contains(kind),
            RuleScope::Agent => false,
        })
    }

    /// Returns the rules of the agent stack.
    pub fn of_agent(&self) -> NetRules {
        self.matching(|scope| matches!(scope, RuleScope::All | RuleScope::Agent))
    }

    /// Returns the rules of all stacks together.
    pub fn of_all(&self) -> NetRules {
        self.matching(|_| true)
    }

    /// Returns the rules and groups that are allowed, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &NetworkRule> {
        self.allowed.iter()
    }

    /// Returns the names and groups that are taken away.
    pub fn denied(&self) -> &[String] {
        &self.denied
    }

    /// Returns whether a stack's rules permit a rule's only name and port.
    pub fn permits(&self, scope: &RuleScope, rule: &str) -> bool {
        let subject = rule.split_whitespace().next().unwrap_or_default();
        let Some((name, port)) = subject.split_once(':') else { return false };
        let (Ok(name), Ok(port)) = (Name::parse(name.as_bytes()), port.parse()) else {
            return false;
        };
        let rules: NetRules = match scope {
            RuleScope::Kind(kind) => self.of_kind(kind),
            RuleScope::Agent => self.of_agent(),
            RuleScope::All => self.of_kinds(&[]),
        };
        rules.judge(&name, port) != NameVerdict::Refused
    }

    fn matching(&self, has: impl Fn(&RuleScope) -> bool) -> NetRules {
        let allowed = self.allowed.iter().filter(|rule| has(&rule.scope));
        let list = self.expanded(allowed.map(|rule| &rule.rule));
        // Each was parsed when it was added.
        let rules = NetRules::parse(&list).unwrap_or_default();
        rules.take_away(&self.expanded(&self.denied)).unwrap_or_default()
    }

    /// Returns a list with the hosts of the agent groups in place of their names.
    pub(crate) fn expanded<'a>(&self, list: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let hosts_of = |rule: &str| {
            let group = AGENT_GROUPS.iter().find(|(name, _)| *name == rule.trim());
            group.map(|(_, hosts_of)| hosts_of(&self.agent).to_vec())
        };
        let expand = |rule: &String| hosts_of(rule).unwrap_or_else(|| vec![rule.clone()]);
        list.into_iter().flat_map(expand).collect()
    }
}

impl NetworkRule {
    fn default_of(scope: RuleScope, group: &str) -> Self {
        NetworkRule { scope, rule: group.to_owned(), source: DEFAULT_RULE.to_owned() }
    }
}

impl fmt::Display for NetworkRule {
    /// Prints the rule, and its scope and source unless they are usual: `x.example (rust, --allow-net)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match &self.scope {
            RuleScope::All => None,
            RuleScope::Kind(kind) => Some(kind.as_str()),
            RuleScope::Agent => Some("agent"),
        };
        let source = Some(self.source.as_str()).filter(|source| *source != DEFAULT_RULE);
        let about: Vec<_> = scope.into_iter().chain(source).collect();
        match about.as_slice() {
            [] => f.write_str(&self.rule),
            about => write!(f, "{} ({})", self.rule, about.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::parse(name).unwrap()
    }

    fn reaches(rules: &NetRules, name: &str, port: u16) -> bool {
        rules.judge(&Name::parse(name.as_bytes()).unwrap(), port) != NameVerdict::Refused
    }

    #[test]
    fn every_kind_reaches_its_registry_and_the_forges_by_default() {
        let kinds = ["rust", "node", "python", "c-cpp", "go"].map(kind);
        let rules = NetworkRules::default_of(&kinds);
        let registries = [
            ("rust", "index.crates.io"),
            ("node", "registry.npmjs.org"),
            ("python", "pypi.org"),
            ("go", "proxy.golang.org"),
        ];
        for own in &kinds {
            let of_kind = rules.of_kind(own);
            for (name, registry) in registries {
                let expected = name == own.as_str();
                assert_eq!(reaches(&of_kind, registry, 443), expected, "{own} {registry}");
            }
            assert!(reaches(&of_kind, "github.com", 22), "{own}");
            assert!(reaches(&of_kind, "codeload.github.com", 443), "{own}");
            for elsewhere in ["example.com", "gist.github.com", "deb.debian.org"] {
                assert!(!reaches(&of_kind, elsewhere, 443), "{own} {elsewhere}");
            }
        }
        let agent = rules.of_agent();
        assert!(reaches(&agent, "github.com", 443) && !reaches(&agent, "pypi.org", 443));
        let both = rules.of_kinds(&[kind("rust"), kind("go")]);
        assert!(reaches(&both, "proxy.golang.org", 443) && reaches(&both, "crates.io", 443));
        assert!(!reaches(&both, "pypi.org", 443) && reaches(&rules.of_all(), "pypi.org", 443));
        // A session has only the rules of its own kinds.
        let one = NetworkRules::default_of(&[kind("rust")]);
        assert!(!reaches(&one.of_kind(&kind("node")), "registry.npmjs.org", 443));
    }

    #[test]
    fn only_the_agent_reaches_its_model_and_reports_only_if_allowed() {
        let rust = kind("rust");
        let mut rules = NetworkRules::default_of(std::slice::from_ref(&rust));
        let hosts = |names: &[&str]| names.iter().map(|name| format!("{name}:443")).collect();
        let agent = AgentHosts {
            model: hosts(&["model.example", "login.example"]),
            telemetry: hosts(&["reports.example"]),
            update: hosts(&["update.example"]),
        };
        rules.set_agent(&agent).unwrap();
        for name in ["model.example", "login.example"] {
            assert!(reaches(&rules.of_agent(), name, 443), "{name}");
            assert!(!reaches(&rules.of_kind(&rust), name, 443), "{name}");
        }
        for name in ["reports.example", "update.example"] {
            assert!(!reaches(&rules.of_all(), name, 443), "{name}");
        }
        rules.allow(RuleScope::Agent, "@agent-telemetry", "u.toml:1").unwrap();
        assert!(reaches(&rules.of_agent(), "reports.example", 443));
        assert!(!reaches(&rules.of_agent(), "update.example", 443));
        rules.deny(&["@agent-model".to_owned()]).unwrap();
        assert!(!reaches(&rules.of_agent(), "model.example", 443));
        assert!(rules.allow(RuleScope::Agent, "@agent-other", "u.toml:1").is_err());
        // A rule for all stacks is for tools too.
        rules.allow(RuleScope::All, "@agent-update", "--allow-net").unwrap();
        assert!(reaches(&rules.of_kind(&rust), "update.example", 443));
        let invalid = AgentHosts { update: vec!["10.0.0.1".to_owned()], ..agent };
        assert!(rules.set_agent(&invalid).is_err());
    }

    #[test]
    fn a_rule_has_its_stacks_and_what_is_taken_away_overrides_it() {
        let mut rules = NetworkRules::default_of(&[kind("rust"), kind("node")]);
        rules.allow(RuleScope::All, "all.example", "--allow-net").unwrap();
        rules.allow(RuleScope::Kind(kind("rust")), "rust.example:443", "u.toml:1").unwrap();
        rules.allow(RuleScope::Agent, "agent.example:443", "u.toml:2").unwrap();
        rules.deny(&["@forges".to_owned(), "index.crates.io".to_owned()]).unwrap();
        assert!(rules.allow(RuleScope::All, "10.0.0.1", "x").is_err());
        assert!(rules.deny(&["a.example raw".to_owned()]).is_err());
        let rows = [
            ("all.example", [true, true, true]),
            ("rust.example", [true, false, false]),
            ("agent.example", [false, false, true]),
            ("github.com", [false, false, false]),
            ("index.crates.io", [false, false, false]),
            ("static.crates.io", [true, false, false]),
        ];
        for (name, expected) in rows {
            let stacks = [rules.of_kind(&kind("rust")), rules.of_kind(&kind("node"))];
            let stacks = stacks.into_iter().chain([rules.of_agent()]);
            let reached: Vec<bool> = stacks.map(|stack| reaches(&stack, name, 443)).collect();
            assert_eq!(reached, expected, "{name}");
        }
        let printed: Vec<_> = rules.iter().map(ToString::to_string).collect();
        let expected = [
            "@forges",
            "@rust (rust)",
            "@node (node)",
            "@agent-model (agent)",
            "all.example (--allow-net)",
            "rust.example:443 (rust, u.toml:1)",
            "agent.example:443 (agent, u.toml:2)",
        ];
        assert_eq!(printed, expected);
    }
}
