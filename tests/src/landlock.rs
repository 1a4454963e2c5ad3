//! Landlock features of the kernel.

use std::io::Write;

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

/// A Landlock feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// Confined writes (version 2).
    Writes,
    /// Confined signals (version 6).
    Signals,
}

impl Landlock {
    /// Returns whether this kernel has it. If not, reports the test as skipped.
    pub fn available(self, test: &str) -> bool {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let created = match self {
            Landlock::Writes => ruleset.handle_access(AccessFs::from_all(ABI::V2)),
            Landlock::Signals => ruleset.scope(Scope::Signal),
        };
        // Creating a ruleset confines no process.
        let available = created.and_then(Ruleset::create).is_ok();
        if !available {
            // A closed stderr does not matter.
            let _ = writeln!(std::io::stderr(), "skipped: {test} (this kernel lacks {self:?})");
        }
        available
    }
}
