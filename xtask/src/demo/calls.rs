//! The demo's calls and their expected results.

use anyhow::{Result, bail};

/// A kind of sidecar, and the tools that its calls need on the host.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) tools: &'static [&'static str],
}

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "rust", tools: &["cargo"] },
    Kind { name: "python", tools: &["python3"] },
    Kind { name: "c-cpp", tools: &["make", "cc"] },
    Kind { name: "node", tools: &["node"] },
];

/// A call.
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) args: &'static [&'static str],
    /// The kind whose sidecar runs it; `None` for none.
    pub(super) needs: Option<&'static str>,
    /// The exit code, natively and proxied.
    pub(super) exit: i32,
    pub(super) outcome: Outcome,
}

/// How a call ends.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// By itself; its output contains this.
    Ends { says: &'static str },
    /// By SIGINT, sent after it has printed `ready`.
    Interrupted,
    /// Refused by the proxy, with this text.
    Refused { says: &'static str },
}

pub(super) const CALLS: &[Call] = &[
    Call {
        tool: "cargo",
        args: &["test", "--quiet"],
        needs: Some("rust"),
        exit: 0,
        outcome: Outcome::Ends { says: "test result: ok" },
    },
    Call {
        tool: "python3",
        args: &["-m", "unittest"],
        needs: Some("python"),
        exit: 0,
        outcome: Outcome::Ends { says: "OK" },
    },
    Call {
        tool: "make",
        args: &[],
        needs: Some("c-cpp"),
        exit: 0,
        outcome: Outcome::Ends { says: "C agrees" },
    },
    Call {
        tool: "node",
        args: &["app.js"],
        needs: Some("node"),
        exit: 0,
        outcome: Outcome::Ends { says: "JavaScript agrees" },
    },
    Call {
        tool: "cargo",
        args: &["test", "--quiet", "--", "--ignored"],
        needs: Some("rust"),
        exit: 101,
        outcome: Outcome::Ends { says: "test result: FAILED" },
    },
    Call {
        tool: "python3",
        args: &["-m", "unittest", "numerals.broken_on_purpose"],
        needs: Some("python"),
        exit: 1,
        outcome: Outcome::Ends { says: "FAILED (failures=1)" },
    },
    Call {
        tool: "ls",
        args: &["-l"],
        needs: None,
        exit: 86,
        outcome: Outcome::Refused { says: "not allowed" },
    },
    Call {
        tool: "cargo",
        args: &["run", "--quiet", "--", "wait"],
        needs: Some("rust"),
        exit: 130,
        outcome: Outcome::Interrupted,
    },
];

/// The distinct names of the tools.
pub(super) fn tools() -> Vec<&'static str> {
    let mut tools: Vec<&str> = CALLS.iter().map(|call| call.tool).collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

impl Call {
    /// The call as a shell command.
    pub(super) fn line(&self) -> String {
        let words = std::iter::once(&self.tool).chain(self.args).copied();
        let line = words.collect::<Vec<_>>().join(" ");
        match self.outcome {
            Outcome::Interrupted => format!("{line}  ^C"),
            _ => line,
        }
    }

    /// The table row, with four cells of times.
    pub(super) fn row(&self, times: [String; 4]) -> [String; 7] {
        let [native, proxied, overhead, ratio] = times;
        let sidecar = self.needs.unwrap_or("refused").to_owned();
        [self.line(), sidecar, self.exit.to_string(), native, proxied, overhead, ratio]
    }

    /// Fails on another exit code than the expected one.
    pub(super) fn check_exit(&self, code: i32) -> Result<()> {
        if code != self.exit {
            bail!("exit code {code}, expected {}", self.exit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_needs_a_kind_that_is_there() {
        for kind in CALLS.iter().filter_map(|call| call.needs) {
            assert!(KINDS.iter().any(|known| known.name == kind), "{kind}");
        }
        assert_eq!(tools(), ["cargo", "ls", "make", "node", "python3"]);
    }
}
