//! `aifo-coder mailbox`.

use std::path::PathBuf;

use aifo_proxy::mailbox::{CommandName, InvalidCommandName};
use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct Mailbox {
    /// Commands to serve, as found in PATH
    #[arg(
        required = true,
        value_name = "COMMAND",
        value_parser = parse_command,
        value_hint = ValueHint::CommandName
    )]
    pub(crate) commands: Vec<CommandName>,
    /// Directory shared with the containers [default: .swe-swe/proxy]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Use .swe-swe/proxy in HOME, for containers of all projects
    #[arg(long, conflicts_with = "dir")]
    pub(crate) global: bool,
    /// Time limit of a command in seconds; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_secs: u64,
    /// Forward this variable of the caller to the command; repeatable
    #[arg(long, value_name = "NAME", value_parser = parse_variable)]
    pub(crate) env: Vec<String>,
    /// Seconds that running commands get to finish at shutdown
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) grace: u64,
    /// Switch off the default rules on arguments, such as those about force pushes
    #[arg(long)]
    pub(crate) no_rules: bool,
    /// Only print warnings and errors on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log decisions on stderr
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

fn parse_command(word: &str) -> Result<CommandName, InvalidCommandName> {
    CommandName::parse(word.as_bytes())
}

/// Accepts the names of shell variables, because the client is a shell script.
fn parse_variable(word: &str) -> Result<String, String> {
    let starts_well = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && word.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') {
        return Ok(word.to_owned());
    }
    Err("use letters, digits and _, not starting with a digit".to_owned())
}
