//! `prompt` and `acp`: agents over ACP, for scripts and editors (`spec/acp-commands.md`).

pub(crate) mod agent_session;
mod bridge;
mod failure;
mod history_drain;
mod judge;
mod login;
mod output;
pub(crate) mod profile;
mod prompt;
mod replay;
mod resume;
mod summary;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::block_on;
use crate::cli::{Acp, AcpCommand, Cli};

pub(crate) use prompt::prompt;

pub(crate) fn acp(flags: Acp) -> anyhow::Result<ExitCode> {
    match flags.command {
        Some(AcpCommand::Replay { format, files }) => replay::replay(&files, format),
        None => {
            let (name, args) = flags.words().unwrap_or_else(|text| {
                Cli::command().error(ErrorKind::UnknownArgument, text).exit()
            });
            if args.is_empty() && !std::io::stdin().is_terminal() {
                block_on(bridge::bridge(flags, name))
            } else {
                block_on(login::login(flags, name, args))
            }
        }
    }
}
