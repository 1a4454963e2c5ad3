//! Configuration of a command's session.

use aifo_config::{Config, Flags};
use aifo_launch::{Fallback, NoDialogue, SessionConfig};
use aifo_terminal::console::LogLevel;

use crate::cli::Session;
use crate::image_dialogue::Dialogue;
use crate::logging;

/// Merges all configuration layers and starts logging, at `log_level` unless `verbose` or `--quiet` is
/// set.
pub(crate) fn load(
    session: &Session,
    flags: &Flags,
    log_level: LogLevel,
) -> anyhow::Result<Config> {
    let loaded = aifo_config::load_for_session(&session.project.workspace.path, flags);
    let verbose = loaded.as_ref().is_ok_and(|config| config.verbose.value);
    logging::start(match session.quiet {
        true => LogLevel::Quiet,
        false if verbose => LogLevel::Decisions,
        false => log_level,
    });
    Ok(loaded?)
}

/// Returns the configuration of the session that these flags are for.
pub(crate) async fn session_config(
    flags: &Session,
    config: &Config,
    fallback: Fallback,
) -> anyhow::Result<SessionConfig> {
    let workspace = &flags.project.workspace.path;
    let mut session = match flags.containers.dry_run {
        true => config.session_config(workspace, fallback, &mut NoDialogue).await,
        false => {
            let mut dialogue = Dialogue::default();
            config.session_config(workspace, fallback, &mut dialogue).await
        }
    }?;
    session.runner_transport = flags.runner_transport;
    Ok(session)
}
