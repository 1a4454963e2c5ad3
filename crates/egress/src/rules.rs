//! A set of rules, and the verdict for a name and a port.
//!
//! In scope: the union of rules and groups, without those that a workspace takes away. Out of scope:
//! files and flags with rules, and the addresses of names (`address.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use crate::groups;
use crate::name::Name;
use crate::rule::{DEFAULT_PORTS, Options, Rule, RuleError};

/// The rules of a stack. Their order does not matter.
///
/// ```
/// use aifo_egress::{Name, NetRules, NameVerdict};
///
/// let list = ["@rust".to_owned(), "*.registry.example:443".to_owned()];
/// let rules = NetRules::parse(&list).unwrap();
/// let name = Name::parse(b"eu.registry.example").unwrap();
/// let NameVerdict::Allowed { rule } = rules.judge(&name, 443) else { panic!("refused") };
/// assert_eq!(rule.to_string(), "*.registry.example:443");
/// assert_eq!(rules.judge(&name, 80), NameVerdict::Refused);
/// assert!(rules.ports().contains(&443));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetRules {
    allowed: BTreeSet<Rule>,
    taken_away: BTreeSet<Rule>,
    mode: Mode,
}

/// The treatment of names without a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Refuse,
    /// They are permitted, at these ports.
    Learn,
}

/// The decision about a name and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum NameVerdict {
    /// A rule permits the connection.
    Allowed {
        /// The rule: the most exact one, with the options of every rule that permits it.
        rule: Rule,
    },
    /// No rule permits it, or the workspace takes it away.
    Refused,
}

/// The ports at which [`NetRules::learning`] permits every name: HTTP, HTTPS, SSH, and git's own.
pub const LEARNING_PORTS: [u16; 4] = [22, 80, 443, 9418];

impl NetRules {
    /// Parses a list of rules and groups (`spec/network.md#rules`). An empty list permits nothing.
    pub fn parse(list: &[String]) -> Result<NetRules, RuleError> {
        let allowed = parse_all(list, Rule::parse)?;
        Ok(NetRules { allowed, ..NetRules::default() })
    }

    /// Takes away the names and groups of a list. A name without ports loses all its ports.
    pub fn take_away(mut self, list: &[String]) -> Result<NetRules, RuleError> {
        self.taken_away.extend(parse_all(list, Rule::parse_denial)?);
        Ok(self)
    }

    /// Returns the union of two sets. Both refuse the names that either takes away.
    #[must_use]
    pub fn union(mut self, other: NetRules) -> NetRules {
        self.allowed.extend(other.allowed);
        self.taken_away.extend(other.taken_away);
        if other.mode == Mode::Learn {
            self.mode = Mode::Learn;
        }
        self
    }

    /// Returns the rules that both sets have. It refuses the names that either takes away.
    #[must_use]
    pub fn common(mut self, other: NetRules) -> NetRules {
        self.allowed.retain(|rule| other.allowed.contains(rule));
        self.taken_away.extend(other.taken_away);
        if other.mode == Mode::Refuse {
            self.mode = Mode::Refuse;
        }
        self
    }

    /// Permits every name at [`LEARNING_PORTS`], except those that are taken away.
    #[must_use]
    pub fn learning(mut self) -> NetRules {
        self.mode = Mode::Learn;
        self
    }

    /// Decides about a connection to a name at a port.
    pub fn judge(&self, name: &Name, port: u16) -> NameVerdict {
        if self.is_taken_away(name, port) {
            return NameVerdict::Refused;
        }
        let has = |rule: &&Rule| rule.ports.contains(&port) && rule.pattern.matches(name);
        let mut matching = self.allowed.iter().filter(has);
        // Exact patterns sort first.
        let Some(first) = matching.next() else { return self.judge_unlisted(name, port) };
        let mut rule = first.clone();
        matching.for_each(|other| rule.add_options(other, port));
        NameVerdict::Allowed { rule }
    }

    /// Returns whether a rule permits the name at any port.
    pub fn permits_name(&self, name: &Name) -> bool {
        let permits = |port: &u16| matches!(self.judge(name, *port), NameVerdict::Allowed { .. });
        self.allowed
            .iter()
            .filter(|rule| rule.pattern.matches(name))
            .any(|rule| rule.ports.iter().any(permits))
            || (self.mode == Mode::Learn && LEARNING_PORTS.iter().any(permits))
    }

    /// Returns the ports that need a listener.
    pub fn ports(&self) -> BTreeSet<u16> {
        let learnt: &[u16] = if self.mode == Mode::Learn { &LEARNING_PORTS } else { &[] };
        let listed = self.allowed.iter().flat_map(|rule| &rule.ports);
        listed.chain(learnt).copied().collect()
    }

    /// Returns the addresses of rules with `address=IP`, with their ports.
    pub fn addresses(&self) -> BTreeMap<IpAddr, BTreeSet<u16>> {
        let mut found: BTreeMap<IpAddr, BTreeSet<u16>> = BTreeMap::new();
        for rule in &self.allowed {
            let is_taken_away =
                |port: u16| rule.exact_name().is_some_and(|name| self.is_taken_away(name, port));
            let ports = rule.ports.iter().copied().filter(|port| !is_taken_away(*port));
            let ports: Vec<u16> = ports.collect();
            for address in &rule.options.addresses {
                found.entry(*address).or_default().extend(&ports);
            }
        }
        found.retain(|_, ports| !ports.is_empty());
        found
    }

    /// Returns the rules with `private` and without `address=IP`.
    pub fn private_rules(&self) -> impl Iterator<Item = &Rule> {
        let is_private = |rule: &&Rule| rule.options.private && rule.options.addresses.is_empty();
        self.allowed.iter().filter(is_private)
    }

    /// Returns the rules, groups expanded, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.allowed.iter()
    }

    /// Returns the permitted names of rules without a wildcard, sorted.
    pub(crate) fn exact_names(&self) -> impl Iterator<Item = &Name> {
        let names: BTreeSet<&Name> = self.allowed.iter().filter_map(Rule::exact_name).collect();
        names.into_iter().filter(|name| self.permits_name(name))
    }

    fn judge_unlisted(&self, name: &Name, port: u16) -> NameVerdict {
        if self.mode != Mode::Learn || !LEARNING_PORTS.contains(&port) {
            return NameVerdict::Refused;
        }
        let pattern = crate::rule::Pattern::Exact(name.clone());
        let ports = BTreeSet::from([port]);
        NameVerdict::Allowed { rule: Rule { pattern, ports, options: Options::default() } }
    }

    fn is_taken_away(&self, name: &Name, port: u16) -> bool {
        let has = |rule: &Rule| {
            (rule.ports.is_empty() || rule.ports.contains(&port)) && rule.pattern.matches(name)
        };
        self.taken_away.iter().any(has)
    }
}

impl fmt::Display for NameVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameVerdict::Allowed { rule } => write!(f, "allowed by '{rule}'"),
            NameVerdict::Refused => f.write_str("refused"),
        }
    }
}

/// Parses a list, with the rules of groups in place of their names.
fn parse_all(
    list: &[String],
    parse: impl Fn(&str) -> Result<Rule, RuleError>,
) -> Result<BTreeSet<Rule>, RuleError> {
    let mut rules = BTreeSet::new();
    for text in list.iter().map(|text| text.trim()) {
        if text.starts_with('@') {
            let group =
                groups::find(text).ok_or_else(|| RuleError::Group { group: text.to_owned() })?;
            for rule in group.rules {
                rules.insert(parse(rule)?);
            }
        } else {
            rules.insert(parse(text)?);
        }
    }
    Ok(rules)
}

/// The hint that permits a refused name: `aifo-coder net allow NAME[:PORT]`.
pub(crate) fn allow_hint(name: &Name, port: Option<u16>) -> String {
    match port.filter(|port| !DEFAULT_PORTS.contains(port)) {
        Some(port) => format!("aifo-coder net allow {name}:{port}"),
        None => format!("aifo-coder net allow {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[&str]) -> Vec<String> {
        rules.iter().map(|rule| (*rule).to_owned()).collect()
    }

    fn rules(texts: &[&str]) -> NetRules {
        NetRules::parse(&list(texts)).unwrap()
    }

    fn name(text: &str) -> Name {
        Name::parse(text.as_bytes()).unwrap()
    }

    fn judge(rules: &NetRules, text: &str, port: u16) -> String {
        rules.judge(&name(text), port).to_string()
    }

    #[test]
    fn a_rule_permits_its_names_at_its_ports() {
        let rows = [
            ("registry.example", "registry.example", 443, true),
            ("registry.example", "registry.example", 80, true),
            ("registry.example", "registry.example", 22, false),
            ("registry.example", "eu.registry.example", 443, false),
            ("Registry.Example.", "registry.example", 443, true),
            ("registry.example:443", "registry.example", 80, false),
            ("git.example:22,443", "git.example", 22, true),
            ("git.example:22,443", "git.example", 80, false),
            ("*.registry.example:443", "eu.registry.example", 443, true),
            ("*.registry.example:443", "a.b.registry.example", 443, true),
            ("*.registry.example:443", "registry.example", 443, false),
            ("*.registry.example:443", "badregistry.example", 443, false),
            ("*.registry.example:443", "registry.example.evil.example", 443, false),
            ("@rust", "static.crates.io", 443, true),
            ("@rust", "crates.io", 80, false),
            ("@forges", "github.com", 22, true),
            ("@forges", "gist.github.com", 443, false),
        ];
        for (rule, text, port, allowed) in rows {
            let verdict = rules(&[rule]).judge(&name(text), port);
            assert_eq!(verdict != NameVerdict::Refused, allowed, "{rule} {text}:{port}");
        }
        assert_eq!(NetRules::default().judge(&name("a.example"), 443), NameVerdict::Refused);
    }

    #[test]
    fn order_does_not_matter() {
        let texts = ["*.a.example private", "b.a.example:443 raw", "b.a.example address=10.0.0.1"];
        let expected = "allowed by 'b.a.example raw private address=10.0.0.1'";
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
            let rules = rules(&order.map(|index: usize| texts[index]));
            assert_eq!(judge(&rules, "b.a.example", 443), expected, "{order:?}");
            let expected = "allowed by 'b.a.example private address=10.0.0.1'";
            assert_eq!(judge(&rules, "b.a.example", 80), expected, "{order:?}");
        }
    }

    #[test]
    fn a_workspace_takes_away() {
        let all = ["@node", "a.example", "*.b.example", "c.example:22,443"];
        let rows = [
            ("a.example", "a.example", 443, false),
            ("a.example:80", "a.example", 80, false),
            ("a.example:80", "a.example", 443, true),
            ("x.b.example", "x.b.example", 443, false),
            ("x.b.example", "y.b.example", 443, true),
            ("*.b.example", "y.b.example", 443, false),
            ("c.example", "c.example", 22, false),
            ("@node", "registry.npmjs.org", 443, false),
            ("@rust", "registry.npmjs.org", 443, true),
        ];
        for (away, text, port, allowed) in rows {
            let rules = rules(&all).take_away(&list(&[away])).unwrap();
            let verdict = rules.judge(&name(text), port);
            assert_eq!(verdict != NameVerdict::Refused, allowed, "-{away} {text}:{port}");
            // Also in a union, in either order.
            let other = NetRules::parse(&list(&all)).unwrap();
            for rules in [rules.clone().union(other.clone()), other.union(rules.clone())] {
                assert_eq!(rules.judge(&name(text), port), verdict, "-{away} {text}:{port}");
            }
        }
    }

    #[test]
    fn addresses_have_the_ports_of_their_rules() {
        let all = rules(&[
            "db.example:5432 address=10.0.0.7",
            "gate.example:443 address=10.0.0.7 address=10.0.0.8",
            "intern.example private",
            "public.example",
        ]);
        let all = all.take_away(&list(&["db.example"])).unwrap();
        let addresses: Vec<_> = all.addresses().into_iter().collect();
        let at = |address: &str| (address.parse().unwrap(), BTreeSet::from([443]));
        assert_eq!(addresses, [at("10.0.0.7"), at("10.0.0.8")]);
        let private: Vec<_> = all.private_rules().map(ToString::to_string).collect();
        assert_eq!(private, ["intern.example private"]);
    }

    #[test]
    fn names_are_permitted_with_a_port() {
        let rules = rules(&["a.example:443", "*.b.example:22", "c.example"]);
        let rules = rules.take_away(&list(&["c.example", "x.b.example:22"])).unwrap();
        let rows = [
            ("a.example", true),
            ("y.b.example", true),
            ("x.b.example", false),
            ("b.example", false),
            ("c.example", false),
            ("d.example", false),
        ];
        for (text, permitted) in rows {
            assert_eq!(rules.permits_name(&name(text)), permitted, "{text}");
        }
        assert_eq!(rules.exact_names().collect::<Vec<_>>(), [&name("a.example")]);
        assert_eq!(rules.ports().into_iter().collect::<Vec<_>>(), [22, 80, 443]);
    }

    #[test]
    fn learning_permits_all_but_what_is_taken_away() {
        let rules = rules(&["a.example:8443 private"]).learning();
        let rules = rules.take_away(&list(&["evil.example"])).unwrap();
        assert_eq!(judge(&rules, "b.example", 443), "allowed by 'b.example:443'");
        assert_eq!(judge(&rules, "b.example", 8443), "refused");
        assert_eq!(judge(&rules, "a.example", 8443), "allowed by 'a.example:8443 private'");
        assert_eq!(judge(&rules, "evil.example", 443), "refused");
        assert!(rules.permits_name(&name("b.example")));
        assert!(!rules.permits_name(&name("evil.example")));
        assert_eq!(rules.ports().into_iter().collect::<Vec<_>>(), [22, 80, 443, 8443, 9418]);
    }

    #[test]
    fn every_group_is_valid() {
        for group in groups::GROUPS {
            let rules = rules(&[group.name]);
            assert_eq!(rules.iter().count(), group.rules.len(), "{}", group.name);
            let printed: Vec<String> = rules.iter().map(Rule::to_string).collect();
            assert_eq!(printed, group.rules, "{} is sorted and normal", group.name);
        }
    }

    #[test]
    fn the_groups_of_the_specification_exist() {
        let page = include_str!("../../../spec/network.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `@")?.split_once("` |"));
        let table = rows.filter(|(_, text)| !text.contains("the rules of a group"));
        // Those of an agent are in its row.
        let groups = table.map(|(name, _)| name).filter(|name| !name.starts_with("agent-"));
        let listed: Vec<String> = groups.map(|name| format!("@{name}")).collect();
        let names: Vec<&str> = groups::GROUPS.iter().map(|group| group.name).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn hints_name_other_ports() {
        assert_eq!(allow_hint(&name("a.example"), Some(443)), "aifo-coder net allow a.example");
        assert_eq!(allow_hint(&name("a.example"), Some(22)), "aifo-coder net allow a.example:22");
        assert_eq!(allow_hint(&name("a.example"), None), "aifo-coder net allow a.example");
    }
}
