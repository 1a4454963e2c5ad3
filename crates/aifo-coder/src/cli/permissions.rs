//! The flags that speak about what an agent asks.

use aifo_policy::PermissionRule;
use clap::Args;

use crate::config::{Flags, parse_rule_keyword};

/// What is allowed without asking.
#[derive(Debug, Args)]
pub(crate) struct YesTo {
    /// A kind of tool call that the agent is permitted without asking anybody: read, edit, delete,
    /// move, search, execute, think, fetch, switch_mode, other, or all; may be repeated. What the
    /// configuration denies stays denied
    #[arg(long = "yes-to", value_name = "KIND", value_delimiter = ',', value_parser = parse)]
    yes_to: Vec<PermissionRule>,
}

impl YesTo {
    /// Adds what was given.
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        Flags { yes_to: self.yes_to.clone(), ..flags }
    }
}

fn parse(word: &str) -> Result<PermissionRule, String> {
    parse_rule_keyword(word).map_err(|(what, hint)| format!("{what}: {hint}"))
}
