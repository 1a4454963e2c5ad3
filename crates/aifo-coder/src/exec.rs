//! `aifo-coder exec`: one tool call, through the shim as an agent would make it.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use aifo_launch::{Agent, ShimBinary};
use aifo_policy::Policy;
use aifo_types::ToolName;
use anyhow::{Context, bail};

use crate::cli::Exec;
use crate::console::LogLevel;
use crate::start::{EndSignals, Started, start};
use crate::{backend, run, sessions, settings};

/// In a session of its own, which ends with the call.
pub(crate) async fn alone(flags: Exec) -> anyhow::Result<ExitCode> {
    let config = settings::load(&flags.session, &flags.session.flags(), LogLevel::Warnings)?;
    let (tool, args) = split(&flags.command)?;
    if !is_offered(&config.policy, &tool) {
        bail!(
            "no toolchain has a tool '{tool}', so nothing ran\n\
             hint: 'aifo-coder why {tool}' tells what would help"
        );
    }
    let smart = config.smart_for(None);
    let config = settings::session_config(&flags.session, &config).await?;
    if flags.session.containers.dry_run {
        return backend::show_plan(&config);
    }
    let shim = config.shim.path().to_owned();
    let session = match start(config, &mut EndSignals::listen()?).await? {
        Started::Running(session) => session,
        Started::Cancelled(signal) => return Ok(run::signal_exit_code(signal)),
    };
    let link = session.shims().join(tool.as_str());
    if !link.is_symlink() {
        // A name that the table cannot list, such as python3.12.
        symlink(shim, &link).context("cannot make a link to the shim")?;
    }
    let command = std::iter::once(link.into_os_string()).chain(args.iter().cloned()).collect();
    let mut agent = Agent::new(command).context("there is no tool to run")?;
    for (name, value) in smart.variables() {
        agent.set(name, value);
    }
    run::in_session(*session, &agent).await
}

/// In a session that runs: this process becomes the shim, and ends as the tool does. Returns only
/// if that fails.
pub(crate) fn join(session: &str, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (tool, args) = split(command)?;
    let session = sessions::running(session)?;
    let variables = session.variables().with_context(|| {
        format!("cannot join session '{}', which may have just ended", session.id)
    })?;
    let shim = ShimBinary::find()?;
    let mut command = Command::new(shim.program());
    let error = command.arg0(tool.as_str()).args(args).envs(variables).exec();
    Err(error).with_context(|| format!("cannot run '{}'", shim.path().display()))
}

fn split(command: &[OsString]) -> anyhow::Result<(ToolName, &[OsString])> {
    let (tool, args) = command.split_first().context("there is no tool to run")?;
    let parsed = ToolName::parse(tool.as_encoded_bytes());
    Ok((parsed.with_context(|| format!("'{}' cannot be a tool", tool.display()))?, args))
}

fn is_offered(policy: &Policy, tool: &ToolName) -> bool {
    policy.kinds().iter().any(|kind| kind.allowance(tool.as_str()).is_some())
}
