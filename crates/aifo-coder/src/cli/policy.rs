//! Commands about rules on arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::examples::{POLICY_CHECK, POLICY_IMPORT, POLICY_TEST};
use super::session::{Project, Workspace};

#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the verdict on a command, the rule, and the command in normal form
    #[command(after_help = POLICY_CHECK)]
    Check(Box<PolicyCheck>),
    /// Run the examples of all rules
    #[command(after_help = POLICY_TEST)]
    Test {
        #[command(flatten)]
        workspace: Workspace,
    },
    /// Print the rules of another program's file as rules of aifo
    #[command(after_help = POLICY_IMPORT)]
    Import {
        /// The program: codex (*.rules) or claude (settings.json)
        #[arg(value_name = "PROGRAM")]
        source: PolicySource,
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, help = "File to read")]
        file: PathBuf,
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

/// A program whose rules can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicySource {
    Codex,
    Claude,
}
