//! Commands about rules on arguments.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueHint};

use super::session::{Project, Workspace};

#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the verdict on a command: an earlier word for `why`
    #[command(hide = true)]
    Check(Box<PolicyCheck>),
    /// Run the examples of all rules
    Test {
        #[command(flatten)]
        workspace: Workspace,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheck {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Command with its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) words: Vec<OsString>,
}
