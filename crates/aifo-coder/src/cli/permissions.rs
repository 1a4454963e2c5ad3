//! The flag for an agent's permission requests.

use aifo_policy::PermissionRule;
use clap::Args;

use crate::config::{Flags, parse_rule_keyword};

#[derive(Debug, Args)]
pub(crate) struct YesTo {
    /// Allow calls of this kind unless a rule denies them: read, edit, delete, move, search,
    /// execute, think, fetch, switch_mode, other or all; repeatable
    #[arg(long = "yes-to", value_name = "KIND", value_delimiter = ',', value_parser = parse)]
    yes_to: Vec<PermissionRule>,
}

impl YesTo {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        Flags { yes_to: self.yes_to.clone(), ..flags }
    }
}

fn parse(word: &str) -> Result<PermissionRule, String> {
    parse_rule_keyword(word).map_err(|(what, hint)| format!("{what}: {hint}"))
}
