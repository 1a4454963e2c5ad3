//! What the kernel can confine a process to.

use std::io::Write;

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

/// What a story needs of Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// Writes held to their place (version 2).
    Writes,
    /// Signals, too (version 6).
    Signals,
}

impl Landlock {
    /// Whether this kernel has it. Where it does not, the story is named as left out.
    pub fn available(self, test: &str) -> bool {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let created = match self {
            Landlock::Writes => ruleset.handle_access(AccessFs::from_all(ABI::V2)),
            Landlock::Signals => ruleset.scope(Scope::Signal),
        };
        // Creating a ruleset confines nobody yet.
        let available = created.and_then(Ruleset::create).is_ok();
        if !available {
            // Nobody is left to be told that stderr is gone.
            let _ = writeln!(std::io::stderr(), "left out: {test} (this kernel lacks {self:?})");
        }
        available
    }
}
