//! Allowlists of a session: the built-in table, extended by the user, restricted by the workspace.

use std::collections::BTreeSet;

use aifo_types::{Kind, ToolName};

use crate::kinds::{DEV_TOOLS, VERSIONED_PYTHON, is_versioned_python, kind_spec, kinds};

/// The kinds of a session with their allowlists, in the order in which dev tools are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    kinds: Vec<KindPolicy>,
}

/// The allowlist of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPolicy {
    /// The kind.
    pub kind: Kind,
    /// Other names; compared without case.
    pub aliases: Vec<String>,
    /// Tools of this kind.
    own: BTreeSet<String>,
    /// Dev tools, which other kinds may run too.
    shared: BTreeSet<String>,
    /// Tools that it may not run; overrides the lists above.
    denied: BTreeSet<String>,
}

/// The list that allows a kind to run a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The tools of the kind.
    Own,
    /// The dev tools, which any kind may run.
    Shared,
}

impl Policy {
    /// Returns the built-in table.
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

    /// Returns the kinds in the order in which dev tools are tried.
    pub fn kinds(&self) -> &[KindPolicy] {
        &self.kinds
    }

    /// Finds a kind by name or alias, ignoring case.
    pub fn kind_named(&self, word: &str) -> Option<&KindPolicy> {
        self.kinds.iter().find(|policy| {
            let aliases = policy.aliases.iter().map(String::as_str);
            let mut words = std::iter::once(policy.kind.as_str()).chain(aliases);
            words.any(|known| known.eq_ignore_ascii_case(word))
        })
    }

    /// Adds tools to a kind's allowlist, and creates the kind if it does not exist. Call this only
    /// with values from the user's own configuration, which no agent can edit.
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

    /// Denies tools of a kind. A later [`allow`](Policy::allow) does not undo this.
    pub fn deny(&mut self, kind: &Kind, tools: impl IntoIterator<Item = ToolName>) {
        if let Some(policy) = self.kinds.iter_mut().find(|policy| policy.kind == *kind) {
            policy.denied.extend(tools.into_iter().map(|tool| tool.as_str().to_owned()));
        }
    }

    /// Returns whether a tool is an interpreter of one of the built-in kinds.
    pub fn is_interpreter(&self, tool: &ToolName) -> bool {
        let specs = self.kinds.iter().filter_map(|policy| kind_spec(&policy.kind));
        specs.into_iter().any(|spec| spec.is_interpreter(tool.as_str()))
    }

    /// Returns the sorted names of all tools; the launcher links a shim under each.
    pub fn all_tools(&self) -> BTreeSet<&str> {
        let named = self.kinds.iter().flat_map(|policy| policy.own.iter().chain(&policy.shared));
        named.map(String::as_str).collect()
    }
}

impl KindPolicy {
    /// Returns the list that allows `tool`, or `None` if this kind may not run it.
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
    fn kinds_are_found_by_name_or_alias() {
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
    fn allow_adds_tools_and_kinds() {
        let mut policy = Policy::builtin();
        policy.allow(&kind("rust"), [tool("just")]);
        policy.allow(&kind("java"), [tool("javac"), tool("java")]);
        let allowance = |kind, tool| policy.kind_named(kind).unwrap().allowance(tool);
        assert_eq!(allowance("rust", "just"), Some(Allowance::Own));
        assert_eq!(allowance("rust", "cargo"), Some(Allowance::Own));
        assert_eq!(allowance("java", "java"), Some(Allowance::Own));
        assert_eq!(allowance("java", "make"), None, "a new kind has only the listed tools");
        assert!(policy.all_tools().contains("javac"));
    }

    #[test]
    fn denied_tools_stay_denied() {
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
