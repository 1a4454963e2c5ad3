//! `aifo-coder exec`: one tool call through the shim, as an agent makes it.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use aifo_agents::trusted_programs_here;
use aifo_config::{Config, UsageError};
use aifo_host::{EndSignals, ShimBinary};
use aifo_kube::client::{self, Cluster};
use aifo_launch::{Agent, BackendChoice, Fallback};
use aifo_policy::Policy;
use aifo_terminal::console::LogLevel;
use aifo_types::ToolName;
use anyhow::{Context, bail};

use crate::cli::{Exec, reject_option};
use crate::start::{self, Started, start};
use crate::{run, sessions, settings};

pub(crate) async fn exec(flags: Exec) -> anyhow::Result<ExitCode> {
    let given = flags.session.flags().and(flags.cluster.flags());
    let workspace = &flags.session.project.workspace.path;
    let config = match aifo_config::load(workspace, &given) {
        // A call in a running session of this machine needs no configuration.
        Err(_) if flags.running.is_some() && given.names().next().is_none() => Config::builtin(),
        loaded => loaded?,
    };
    let is_selected =
        flags.cluster.flags().names().next().is_some() || !given.words("--backend").is_empty();
    if !is_selected
        && let Some(session) = &flags.running
        && let Some(cluster) = Cluster::of_session(&config, workspace, session).await?
    {
        return client::relay(&cluster, &flags).await;
    }
    if config.backend.value == BackendChoice::Kubernetes {
        let (tool, _) = split(&flags.call.words)?;
        if flags.running.is_none() {
            bail!(UsageError(format!(
                "a call in a cluster needs a running session\n\
                 hint: aifo-coder exec --backend kubernetes --session ID {tool}"
            )));
        }
        return client::relay(&Cluster::of(&config, workspace).await?, &flags).await;
    }
    match &flags.running {
        Some(session) => join(session, &flags.call.words),
        None => alone(flags).await,
    }
}

/// Makes the call in a new session that ends with it.
async fn alone(flags: Exec) -> anyhow::Result<ExitCode> {
    let config = settings::load(&flags.session, &flags.session.flags(), LogLevel::Warnings)?;
    let (tool, args) = split(&flags.call.words)?;
    if !is_offered(&config.kinds.policy, &tool) {
        bail!(
            "no toolchain has a tool '{tool}'; nothing ran\n\
             hint: see 'aifo-coder why {tool}'"
        );
    }
    let smart = config.smart_for(None);
    let mut config = settings::session_config(&flags.session, &config, Fallback::Local).await?;
    tool.as_str().clone_into(&mut config.name);
    // The user sees what the call does, and its start is not to wait.
    config.history = None;
    if flags.session.containers.dry_run {
        return start::show_plan(&config).await;
    }
    let shim = config.shim.path().to_owned();
    let session = match start(config, &mut EndSignals::listen()?).await? {
        Started::Running(session) => session,
        Started::Cancelled(signal) => return Ok(start::signal_exit_code(signal)),
    };
    let link = session.shims().join(tool.as_str());
    if !link.is_symlink() {
        // A name that the table does not list, such as python3.12.
        symlink(shim, &link).context("cannot create a link to the shim")?;
    }
    let command = std::iter::once(link.into_os_string()).chain(args.iter().cloned()).collect();
    let mut agent = Agent::new(command).context("no tool is named")?;
    for (name, value) in smart.variables() {
        agent.set(name, value);
    }
    run::in_session(*session, &agent).await
}

/// Makes the call in a running session: replaces this process with the shim. Returns only on failure.
fn join(session: &str, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (tool, args) = split(command)?;
    let session = sessions::running(Some(session))?;
    let variables = session
        .variables()
        .with_context(|| format!("cannot join session '{}'; it may have just ended", session.id))?;
    let shim = ShimBinary::find(trusted_programs_here)?;
    let mut command = Command::new(shim.program());
    let error = command.arg0(tool.as_str()).args(args).envs(variables).exec();
    Err(error).with_context(|| format!("cannot run '{}'", shim.path().display()))
}

fn split(command: &[OsString]) -> anyhow::Result<(ToolName, &[OsString])> {
    let (tool, args) = command.split_first().context("no tool is named")?;
    reject_option("exec", Some(tool))?;
    let parsed = ToolName::parse(tool.as_encoded_bytes());
    Ok((parsed.with_context(|| format!("'{}' is not a valid tool name", tool.display()))?, args))
}

fn is_offered(policy: &Policy, tool: &ToolName) -> bool {
    policy.kinds().iter().any(|kind| kind.allowance(tool.as_str()).is_some())
}
