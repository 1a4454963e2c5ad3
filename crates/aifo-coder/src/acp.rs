//! Agents that are spoken with, for scripts and for editors (`spec/acp-commands.md`).

mod bridge;
mod hosts;
mod judge;
mod output;
mod profile;
mod prompt;
mod replay;
mod resume;
mod settling;
mod stage;
mod summary;
mod told;

use std::process::ExitCode;

use crate::cli::{Acp, AcpCommand};
use crate::on_a_reactor;

pub(crate) use prompt::prompt;

pub(crate) fn acp(flags: Acp) -> anyhow::Result<ExitCode> {
    match flags.command {
        Some(AcpCommand::Replay { format, files }) => replay::replay(&files, format),
        None => on_a_reactor(bridge::bridge(flags)),
    }
}
