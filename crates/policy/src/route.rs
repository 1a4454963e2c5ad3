//! Routes a tool to the sidecars that may run it.

use std::fmt;

use aifo_types::{Kind, Refusal, ToolName};

use crate::policy::{Allowance, KindPolicy, Policy};

/// A sidecar that may run a tool, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Route {
    /// The sidecar's kind.
    pub kind: Kind,
    /// The rule that chose it.
    pub reason: RouteReason,
}

/// The rule that chose a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteReason {
    /// The tool belongs to this kind only.
    OwnKind,
    /// A dev tool, which the first kind in the order of preference runs that has it installed.
    FirstThatHasIt,
    /// It runs where its caller is (`spec/rules.md#judged-where-they-run`).
    InPlace,
}

impl RouteReason {
    /// Returns the rule's name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            RouteReason::OwnKind => "own-kind",
            RouteReason::FirstThatHasIt => "first-that-has-it",
            RouteReason::InPlace => "in-place",
        }
    }
}

impl fmt::Display for RouteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Policy {
    /// Returns the running sidecars that may run `tool`, in the order in which to try them; never
    /// empty. The first whose runner finds the tool installed runs it.
    ///
    /// Errors: [`Refusal::ToolNotAllowed`] if no allowlist has the tool,
    /// [`Refusal::ToolUnavailable`] if no kind that may run it is running.
    pub fn route(&self, tool: &ToolName, running: &[Kind]) -> Result<Vec<Route>, Refusal> {
        if self.offering(tool).next().is_none() {
            return Err(Refusal::ToolNotAllowed { tool: tool.clone(), running: running.to_vec() });
        }
        let of_running = self.offering(tool).filter(|(kind, _)| running.contains(kind));
        let routes: Vec<Route> = of_running
            .map(|(kind, allowance)| Route {
                kind: kind.clone(),
                reason: match allowance {
                    Allowance::Own => RouteReason::OwnKind,
                    Allowance::Shared => RouteReason::FirstThatHasIt,
                },
            })
            .collect();
        if routes.is_empty() { Err(self.unavailable(tool, running)) } else { Ok(routes) }
    }

    /// Returns the refusal for a tool that none of the running sidecars has installed. It names those
    /// that may run it, and suggests kinds to start: the tool's own, or the first two for a dev tool,
    /// unless they run.
    pub fn unavailable(&self, tool: &ToolName, running: &[Kind]) -> Refusal {
        let offering = || self.offering(tool).map(|(kind, _)| kind.clone());
        let lacking = offering().filter(|kind| running.contains(kind)).collect();
        let mut offered_by: Vec<Kind> = offering().take(SUGGESTIONS).collect();
        offered_by.retain(|kind| !running.contains(kind));
        Refusal::ToolUnavailable { tool: tool.clone(), lacking, offered_by }
    }

    fn offering(&self, tool: &ToolName) -> impl Iterator<Item = (&Kind, Allowance)> {
        let offer = |policy: &KindPolicy| policy.allowance(tool.as_str());
        self.kinds().iter().filter_map(move |policy| Some((&policy.kind, offer(policy)?)))
    }
}

/// Moves running sidecars before those that must be started, and keeps the order otherwise.
pub fn running_first(routes: &mut [Route], runs: impl Fn(&Kind) -> bool) {
    routes.sort_by_key(|route| !runs(&route.kind));
}

const SUGGESTIONS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the kinds to try, or the refusal's status.
    fn check(tool: &str, running: &str, expected: Result<&str, u16>) {
        let running: Vec<Kind> =
            running.split_whitespace().map(|kind| Kind::parse(kind).unwrap()).collect();
        let tool = ToolName::parse(tool.as_bytes()).unwrap();
        let routed = Policy::builtin().route(&tool, &running).map(|routes| {
            routes.iter().map(|route| route.kind.to_string()).collect::<Vec<_>>().join(" ")
        });
        let routed = routed.map_err(|refusal| refusal.status().0);
        assert_eq!(routed, expected.map(str::to_owned), "{tool} with {running:?}");
    }

    #[test]
    fn every_rule() {
        check("cargo", "rust", Ok("rust"));
        check("cargo", "node rust python", Ok("rust"));
        check("cargo", "node", Err(409));
        check("cargo", "", Err(409));
        check("node", "node", Ok("node"));
        check("npx", "node", Ok("node"));
        check("pip3", "python", Ok("python"));
        check("python3.13", "python", Ok("python"));
        check("gofmt", "go", Ok("go"));
        check("make", "python node go rust c-cpp", Ok("c-cpp rust go node python"));
        check("make", "rust", Ok("rust"));
        check("g++", "python rust", Ok("rust python"));
        check("hadolint", "node", Ok("node"));
        check("make", "", Err(409));
        check("ls", "rust c-cpp", Err(403));
        check("sh", "", Err(403));
        check("Cargo", "rust", Err(403));
        check("say", "node", Err(403));
    }

    #[test]
    fn running_kinds_come_first() {
        let offered: Vec<Kind> =
            Policy::builtin().kinds().iter().map(|policy| policy.kind.clone()).collect();
        let check = |running: &[&str], expected: &[&str]| {
            let make = ToolName::parse(b"make").unwrap();
            let mut routes = Policy::builtin().route(&make, &offered).unwrap();
            running_first(&mut routes, |kind| running.contains(&kind.as_str()));
            let kinds: Vec<_> = routes.iter().map(|route| route.kind.as_str()).collect();
            assert_eq!(kinds, expected, "{running:?} run");
        };
        check(&[], &["c-cpp", "rust", "go", "node", "python"]);
        check(&["node"], &["node", "c-cpp", "rust", "go", "python"]);
        check(&["python", "go"], &["go", "python", "c-cpp", "rust", "node"]);
    }

    #[test]
    fn refusals_suggest_kinds_to_start() {
        let body = |tool: &[u8], running: &[&str]| {
            let running: Vec<_> = running.iter().map(|kind| Kind::parse(kind).unwrap()).collect();
            Policy::builtin().unavailable(&ToolName::parse(tool).unwrap(), &running).body()
        };
        assert!(body(b"make", &[]).ends_with("(e.g., --toolchain c-cpp or --toolchain rust)\n"));
        assert!(body(b"make", &["rust"]).ends_with("(e.g., --toolchain c-cpp)\n"));
        assert!(body(b"cargo", &["node"]).ends_with("(e.g., --toolchain rust)\n"));
        assert!(body(b"bun", &["node", "rust"]).ends_with("not installed in the node sidecar\n"));
    }
}
