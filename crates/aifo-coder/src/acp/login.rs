//! `aifo-coder acp` in a terminal: the agent's own program, for logging in
//! (`spec/acp-commands.md#in-a-terminal`).

use std::ffi::OsString;
use std::process::ExitCode;

use aifo_agents::{AGENT_VARIABLE_PREFIX, agent_variables};
use aifo_terminal::console::{self, LogLevel};
use anyhow::Context;

use crate::acp::agent_session::{choose_places, resolve_target};
use crate::cli::Acp;
use crate::run::{Share, run_target};
use crate::settings;

/// Runs the agent program with these arguments, as for an editor.
pub(crate) async fn login(
    mut flags: Acp,
    name: Option<String>,
    args: Vec<OsString>,
) -> anyhow::Result<ExitCode> {
    let cwd = choose_places(&mut flags.agent)?;
    let workspace = &mut flags.agent.session.project.workspace.path;
    *workspace = workspace.canonicalize().context("the workspace does not exist")?;
    // The agent inherits the current directory, which --cwd changes.
    std::env::set_current_dir(&cwd).with_context(|| format!("cannot enter '{}'", cwd.display()))?;
    let session = &flags.agent.session;
    let given = flags.agent.state.add_to(session.flags());
    let config = settings::load(session, &given, LogLevel::Warnings)?;
    let (mut target, profile) = resolve_target(&flags.agent, name.as_deref(), &config)?;
    if args.is_empty() && !session.quiet {
        let name = target.name().unwrap_or_default();
        console::say(format!(
            "stdin is a terminal, so '{name}' runs for a person, not for an editor"
        ));
        console::say_lines(&format!("hint: its usual interface: aifo-coder run {name}\n"));
    }
    target.command.extend(args);
    let mut given = profile.set;
    if target.image.is_none() {
        // A container gets them by name.
        let value = |name: String| {
            Some((name.clone(), std::env::var(format!("{AGENT_VARIABLE_PREFIX}{name}")).ok()?))
        };
        given.extend(agent_variables().into_iter().filter_map(value));
    }
    // The editor connection may still be open in the same workspace.
    run_target(target, session, &config, Share::Yes, None, given).await
}
