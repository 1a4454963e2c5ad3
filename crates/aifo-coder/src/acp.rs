//! Agents that are spoken with, for scripts and for editors (`spec/acp-commands.md`).

mod bridge;
mod hosts;
mod judge;
mod login;
mod output;
mod profile;
mod prompt;
mod replay;
mod resume;
mod settling;
mod stage;
mod summary;
mod told;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::cli::{Acp, AcpCommand, Cli};
use crate::on_a_reactor;

pub(crate) use prompt::prompt;

pub(crate) fn acp(flags: Acp) -> anyhow::Result<ExitCode> {
    match flags.command {
        Some(AcpCommand::Replay { format, files }) => replay::replay(&files, format),
        None => {
            let (name, args) = flags.words().unwrap_or_else(|text| {
                Cli::command().error(ErrorKind::UnknownArgument, text).exit()
            });
            if args.is_empty() && !std::io::stdin().is_terminal() {
                on_a_reactor(bridge::bridge(flags, name))
            } else {
                on_a_reactor(login::login(flags, name, args))
            }
        }
    }
}
