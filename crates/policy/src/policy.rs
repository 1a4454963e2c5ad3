//! What a session allows: our table, widened by its user, narrowed by its workspace.

use std::collections::BTreeSet;

use aifo_types::{Kind, ToolName};

use crate::kinds::{DEV_TOOLS, VERSIONED_PYTHON, is_versioned_python, kinds};

/// The kinds of a session with their allowlists, in the order in which dev tools try them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    kinds: Vec<KindPolicy>,
}

/// One kind's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPolicy {
    /// Which kind.
    pub kind: Kind,
    /// Other words a user may say for it; compared without case.
    pub aliases: Vec<String>,
    /// The tools that are its own.
    own: BTreeSet<String>,
    /// Tools it may run if it has them, as others may.
    shared: BTreeSet<String>,
    /// Tools it may not run, whatever the lists above say.
    denied: BTreeSet<String>,
}

/// By which rule a kind may run a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The tool belongs to this kind.
    Own,
    /// A dev tool, which any kind may run that has it.
    Shared,
}

impl Policy {
    /// Our own table, as it is without any configuration.
    pub fn builtin() -> Self {
        let shared: BTreeSet<String> = DEV_TOOLS.iter().map(|tool| (*tool).to_owned()).collect();
        let kind = |spec: &crate::KindSpec| KindPolicy {
            kind: spec.kind(),
            aliases: spec.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            own: spec.tools.iter().map(|tool| (*tool).to_owned()).collect(),
            shared: shared.clone(),
            denied: BTreeSet::new(),
        };
        Policy { kinds: kinds().iter().map(kind).collect() }
    }

    /// All kinds, in the order in which dev tools try them.
    pub fn kinds(&self) -> &[KindPolicy] {
        &self.kinds
    }

    /// The kind that a user means by `word`: a name or an alias, in any case.
    pub fn kind_named(&self, word: &str) -> Option<&KindPolicy> {
        self.kinds.iter().find(|policy| {
            let aliases = policy.aliases.iter().map(String::as_str);
            let mut words = std::iter::once(policy.kind.as_str()).chain(aliases);
            words.any(|known| known.eq_ignore_ascii_case(word))
        })
    }

    /// Widens a kind's allowlist, and makes the kind if there is none of that name. Only for what
    /// the user wrote where no agent can reach it.
    pub fn allow(&mut self, kind: &Kind, tools: impl IntoIterator<Item = ToolName>) {
        let known = self.kinds.iter().position(|policy| policy.kind == *kind);
        let index = known.unwrap_or_else(|| {
            self.kinds.push(KindPolicy {
                kind: kind.clone(),
                aliases: Vec::new(),
                own: BTreeSet::new(),
                shared: BTreeSet::new(),
                denied: BTreeSet::new(),
            });
            self.kinds.len() - 1
        });
        if let Some(policy) = self.kinds.get_mut(index) {
            policy.own.extend(tools.into_iter().map(|tool| tool.as_str().to_owned()));
        }
    }

    /// Narrows a kind's allowlist. What is denied once stays so, whatever allows it later.
    pub fn deny(&mut self, kind: &Kind, tools: impl IntoIterator<Item = ToolName>) {
        if let Some(policy) = self.kinds.iter_mut().find(|policy| policy.kind == *kind) {
            policy.denied.extend(tools.into_iter().map(|tool| tool.as_str().to_owned()));
        }
    }

    /// Every tool name some kind may run, once, sorted: the names under which a shim is linked.
    pub fn all_tools(&self) -> BTreeSet<&str> {
        let named = self.kinds.iter().flat_map(|policy| policy.own.iter().chain(&policy.shared));
        named.map(String::as_str).collect()
    }
}

impl KindPolicy {
    /// By which rule this kind may run `tool`, if it may.
    pub fn allowance(&self, tool: &str) -> Option<Allowance> {
        if self.denied.contains(tool) {
            return None;
        }
        let versioned_python = self.kind.as_str() == VERSIONED_PYTHON && is_versioned_python(tool);
        if self.own.contains(tool) || versioned_python {
            return Some(Allowance::Own);
        }
        self.shared.contains(tool).then_some(Allowance::Shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::parse(name).unwrap()
    }

    fn tool(name: &str) -> ToolName {
        ToolName::parse(name.as_bytes()).unwrap()
    }

    #[test]
    fn users_words() {
        let policy = Policy::builtin();
        let rows = [
            ("rust", "rust"),
            ("TypeScript", "node"),
            ("bun", "node"),
            ("py", "python"),
            ("C++", "c-cpp"),
            ("c_cpp", "c-cpp"),
            ("golang", "go"),
        ];
        for (word, name) in rows {
            let found = policy.kind_named(word).map(|policy| policy.kind.as_str());
            assert_eq!(found, Some(name), "{word}");
        }
        assert!(policy.kind_named("java").is_none());
    }

    #[test]
    fn a_user_adds_tools_and_kinds() {
        let mut policy = Policy::builtin();
        policy.allow(&kind("rust"), [tool("just")]);
        policy.allow(&kind("java"), [tool("javac"), tool("java")]);
        let allowance = |kind, tool| policy.kind_named(kind).unwrap().allowance(tool);
        assert_eq!(allowance("rust", "just"), Some(Allowance::Own));
        assert_eq!(allowance("rust", "cargo"), Some(Allowance::Own));
        assert_eq!(allowance("java", "java"), Some(Allowance::Own));
        assert_eq!(allowance("java", "make"), None, "a new kind has what it was given");
        assert!(policy.all_tools().contains("javac"));
    }

    #[test]
    fn what_is_denied_stays_denied() {
        let mut policy = Policy::builtin();
        policy.deny(&kind("python"), [tool("pip"), tool("make"), tool("python3.12")]);
        policy.allow(&kind("python"), [tool("pip")]);
        let allowance = |kind, tool| policy.kind_named(kind).unwrap().allowance(tool);
        for denied in ["pip", "make", "python3.12"] {
            assert_eq!(allowance("python", denied), None, "{denied}");
        }
        assert_eq!(allowance("python", "pip3"), Some(Allowance::Own));
        assert_eq!(allowance("python", "python3.13"), Some(Allowance::Own));
        assert_eq!(allowance("rust", "make"), Some(Allowance::Shared));
    }
}
