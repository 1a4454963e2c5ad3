//! `prompt` and `acp`: agents over ACP, for scripts and editors (`spec/acp-commands.md`).

pub(crate) mod agent_session;
mod bridge;
mod login;
mod output;
mod pod;
pub(crate) mod prompt;
mod resume;

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::cli::Acp;
use crate::{block_on, block_on_and_reap};

pub(crate) use prompt::prompt;

pub(crate) fn acp(flags: Acp) -> anyhow::Result<ExitCode> {
    let config = pod::selected(&flags.agent)?;
    let (name, args) = flags.words()?;
    if let Some(config) = config {
        pod::check_acp(&args)?;
        return block_on(bridge::in_pod(&flags, name.as_deref(), &config));
    }
    if args.is_empty() && !std::io::stdin().is_terminal() {
        block_on_and_reap(|| bridge::bridge(flags, name))
    } else {
        block_on(login::login(flags, name, args))
    }
}
