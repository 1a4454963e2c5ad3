//! The network stacks of a session's tools (`spec/network.md#stacks`).

use std::sync::Arc;

use aifo_egress::NetRules;
use aifo_sidecar::TOOLS_STACK;
use aifo_types::Kind;

use crate::network_rules::{NetworkRules, RuleScope};

/// The stacks of a session's tools: kinds with the same rules share one. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolStacks(Arc<[ToolStack]>);

/// A network stack of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStack {
    /// `tools` if it is the only one, else that and its first kind: `tools:rust`.
    pub name: String,
    /// The kinds whose tools are in it.
    pub kinds: Vec<Kind>,
}

impl ToolStacks {
    /// Returns the stacks of these kinds; at least one.
    pub fn new(rules: &NetworkRules, kinds: &[Kind]) -> Self {
        let mut groups: Vec<(NetRules, Vec<Kind>)> = Vec::new();
        for kind in kinds {
            let of_kind = rules.of_kind(kind);
            match groups.iter_mut().find(|(rules, _)| *rules == of_kind) {
                Some((_, group)) => group.push(kind.clone()),
                None => groups.push((of_kind, vec![kind.clone()])),
            }
        }
        if groups.is_empty() {
            return ToolStacks::shared(kinds);
        }
        let is_only = groups.len() == 1;
        let stacks = groups.into_iter().filter_map(|(_, kinds)| {
            let first = kinds.first()?;
            let name = if is_only { TOOLS_STACK.to_owned() } else { name_of(first) };
            Some(ToolStack { name, kinds })
        });
        ToolStacks(stacks.collect())
    }

    /// Returns one stack for all kinds.
    pub fn shared(kinds: &[Kind]) -> Self {
        let stack = ToolStack { name: TOOLS_STACK.to_owned(), kinds: kinds.to_vec() };
        ToolStacks([stack].into())
    }

    /// Returns the stacks in the order of the session's kinds.
    pub fn iter(&self) -> impl Iterator<Item = &ToolStack> {
        self.0.iter()
    }

    /// Returns the name of a kind's stack; `None` for a kind that the session does not have.
    pub fn name_of(&self, kind: &Kind) -> Option<&str> {
        let stack = self.iter().find(|stack| stack.kinds.contains(kind));
        stack.map(|stack| stack.name.as_str())
    }

    /// Returns whether a kind's stack is for no other kind.
    pub fn is_alone(&self, kind: &Kind) -> bool {
        self.iter().any(|stack| stack.kinds == [kind.clone()])
    }

    /// Returns the kinds that share a stack, if a rule is for only one of them.
    pub fn sharing(&self, scope: &RuleScope) -> &[Kind] {
        let RuleScope::Kind(kind) = scope else { return &[] };
        let stack = self.iter().find(|stack| stack.kinds.contains(kind));
        stack
            .map(|stack| stack.kinds.as_slice())
            .filter(|kinds| kinds.len() > 1)
            .unwrap_or_default()
    }
}

impl ToolStack {
    /// Returns the rules that each of its kinds has.
    pub fn rules(&self, rules: &NetworkRules) -> NetRules {
        let each = self.kinds.iter().map(|kind| rules.of_kind(kind));
        each.reduce(NetRules::common).unwrap_or_default()
    }
}

fn name_of(kind: &Kind) -> String {
    format!("{TOOLS_STACK}:{kind}")
}

#[cfg(test)]
mod tests {
    use aifo_egress::{Name, NameVerdict};

    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::parse(name).unwrap()
    }

    fn names(stacks: &ToolStacks) -> Vec<(&str, String)> {
        let kinds = |stack: &ToolStack| -> Vec<String> {
            stack.kinds.iter().map(Kind::to_string).collect()
        };
        stacks.iter().map(|stack| (stack.name.as_str(), kinds(stack).join(" "))).collect()
    }

    #[test]
    fn kinds_with_the_same_rules_share_a_stack() {
        let kinds = ["rust", "c-cpp", "go", "zig"].map(kind);
        let rules = NetworkRules::default_of(&kinds);
        let stacks = ToolStacks::new(&rules, &kinds);
        let expected = [
            ("tools:rust", "rust".to_owned()),
            ("tools:c-cpp", "c-cpp zig".to_owned()),
            ("tools:go", "go".to_owned()),
        ];
        assert_eq!(names(&stacks), expected);
        assert_eq!(stacks.name_of(&kind("zig")), Some("tools:c-cpp"));
        assert_eq!(stacks.name_of(&kind("node")), None);
        let alone = ["rust", "c-cpp", "go", "zig", "node"].map(|name| stacks.is_alone(&kind(name)));
        assert_eq!(alone, [true, false, true, false, false]);

        // One kind, or the same rules for all.
        let one = ToolStacks::new(&rules, &kinds[..1]);
        assert_eq!(names(&one), [("tools", "rust".to_owned())]);
        let same = ToolStacks::new(&NetworkRules::default(), &kinds);
        assert_eq!(names(&same), [("tools", "rust c-cpp go zig".to_owned())]);
        assert_eq!(same, ToolStacks::shared(&kinds));
        assert_eq!(names(&ToolStacks::new(&rules, &[])), [("tools", String::new())]);
    }

    #[test]
    fn a_shared_stack_has_only_the_rules_of_all_its_kinds() {
        let kinds = ["c-cpp", "zig"].map(kind);
        let mut rules = NetworkRules::default();
        let reaches = |rules: &NetworkRules, stacks: &ToolStacks, name: &str| {
            let stack = stacks.iter().next().unwrap().rules(rules);
            stack.judge(&Name::parse(name.as_bytes()).unwrap(), 443) != NameVerdict::Refused
        };
        rules.allow(RuleScope::All, "all.example", "x").unwrap();
        for kind in &kinds {
            rules.allow(RuleScope::Kind(kind.clone()), "both.example", "x").unwrap();
        }
        let stacks = ToolStacks::new(&rules, &kinds);
        assert_eq!(names(&stacks), [("tools", "c-cpp zig".to_owned())]);
        // Added later, when the stack cannot be divided any more.
        let of_zig = RuleScope::Kind(kind("zig"));
        rules.allow(of_zig.clone(), "zig.example", "x").unwrap();
        assert_eq!(stacks.sharing(&of_zig), kinds);
        assert_eq!(stacks.sharing(&RuleScope::All), []);
        for (name, expected) in
            [("all.example", true), ("both.example", true), ("zig.example", false)]
        {
            assert_eq!(reaches(&rules, &stacks, name), expected, "{name}");
        }
        assert_eq!(ToolStacks::new(&rules, &kinds).iter().count(), 2);
    }
}
