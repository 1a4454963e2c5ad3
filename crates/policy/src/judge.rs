//! The judge: a verdict on a call by its arguments (`spec/rules.md`).

/// A call as a frontend received it, before any sidecar is chosen.
#[derive(Clone, Copy, Debug)]
pub struct JudgedCall<'a> {
    /// The tool and its arguments, as the tool would receive them.
    pub argv: &'a [Vec<u8>],
    /// The absolute working directory.
    pub directory: &'a [u8],
    /// The workspace's names, absolute.
    pub workspace: &'a [Vec<u8>],
}

/// The verdict, in ascending strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// A user must allow the call.
    Ask,
    /// The call does not run.
    Deny,
}

/// A verdict with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decided, with its source; empty if none matched.
    pub rule: String,
    /// The rule's reason for users and agents; may be empty.
    pub reason: String,
}

/// The rules of a session.
#[derive(Clone, Debug, Default)]
pub struct Judge;

impl Judge {
    /// Returns the verdict on a call. No rule means [`Verdict::Allow`].
    pub fn judge(&self, _call: &JudgedCall<'_>) -> Judgement {
        Judgement { verdict: Verdict::Allow, rule: String::new(), reason: String::new() }
    }
}
