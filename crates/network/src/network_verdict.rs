//! Explains which rules of a session decide about a name.

use aifo_egress::{Name, NameVerdict, NetRules};
use aifo_types::Kind;

use crate::network_rules::{NetworkRule, NetworkRules, RuleScope};

/// The decision of a stack about a name and a port, with its causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkVerdict<'a> {
    /// The rules that permit it, in the order in which they were added.
    pub rules: Vec<&'a NetworkRule>,
    /// The names and groups that take it away, whatever permits it.
    pub denials: Vec<&'a str>,
}

impl NetworkVerdict<'_> {
    /// Returns whether the stack reaches the name at the port.
    pub fn is_allowed(&self) -> bool {
        !self.rules.is_empty() && self.denials.is_empty()
    }
}

impl NetworkRules {
    /// Explains the decision of the stack of these kinds' tools.
    pub fn explain_tools(&self, kinds: &[Kind], name: &Name, port: u16) -> NetworkVerdict<'_> {
        self.explain(name, port, |scope| match scope {
            RuleScope::All => true,
            RuleScope::Kind(kind) => kinds.contains(kind),
            RuleScope::Agent => false,
        })
    }

    /// Explains the decision of the agent stack.
    pub fn explain_agent(&self, name: &Name, port: u16) -> NetworkVerdict<'_> {
        self.explain(name, port, |scope| matches!(scope, RuleScope::All | RuleScope::Agent))
    }

    fn explain(
        &self,
        name: &Name,
        port: u16,
        has: impl Fn(&RuleScope) -> bool,
    ) -> NetworkVerdict<'_> {
        let permits = |rules: Option<NetRules>| {
            rules
                .is_some_and(|rules| matches!(rules.judge(name, port), NameVerdict::Allowed { .. }))
        };
        let rules = self.iter().filter(|rule| {
            has(&rule.scope) && permits(NetRules::parse(&self.expanded([&rule.rule])).ok())
        });
        let only = NetRules::parse(&[format!("{name}:{port}")]).unwrap_or_default();
        let takes_away =
            |denial: &&String| !permits(only.clone().take_away(&self.expanded([*denial])).ok());
        let denials = self.denied().iter().filter(takes_away).map(String::as_str);
        NetworkVerdict { rules: rules.collect(), denials: denials.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_with_the_name_is_a_cause() {
        let [rust, node] = ["rust", "node"].map(|kind| Kind::parse(kind).unwrap());
        let kinds = [rust.clone(), node];
        let mut rules = NetworkRules::default_of(&kinds);
        rules.allow(RuleScope::All, "*.crates.io:443", "u.toml:1").unwrap();
        rules.allow(RuleScope::Agent, "index.crates.io:443", "u.toml:2").unwrap();
        rules.deny(&["@forges".to_owned(), "static.crates.io:80".to_owned()]).unwrap();
        let causes = |verdict: &NetworkVerdict<'_>| -> Vec<String> {
            let rules = verdict.rules.iter().map(ToString::to_string);
            rules.chain(verdict.denials.iter().map(|denial| format!("-{denial}"))).collect()
        };
        let rows = [
            ("index.crates.io", 443, &["@rust (rust)", "*.crates.io:443 (u.toml:1)"][..], true),
            ("index.crates.io", 80, &[], false),
            ("static.crates.io", 443, &["@rust (rust)", "*.crates.io:443 (u.toml:1)"], true),
            ("github.com", 443, &["@forges", "-@forges"], false),
            ("registry.npmjs.org", 443, &["@node (node)"], true),
        ];
        for (name, port, expected, is_allowed) in rows {
            let name = Name::parse(name.as_bytes()).unwrap();
            let verdict = rules.explain_tools(&kinds, &name, port);
            assert_eq!(causes(&verdict), expected, "{name}:{port}");
            assert_eq!(verdict.is_allowed(), is_allowed, "{name}:{port}");
            let judged = rules.of_kinds(&kinds).judge(&name, port);
            assert_eq!(judged != NameVerdict::Refused, is_allowed, "{name}:{port}");
        }
        let index = Name::parse(b"index.crates.io").unwrap();
        let of_agent = rules.explain_agent(&index, 443);
        let expected = ["*.crates.io:443 (u.toml:1)", "index.crates.io:443 (agent, u.toml:2)"];
        assert_eq!(causes(&of_agent), expected);
    }
}
