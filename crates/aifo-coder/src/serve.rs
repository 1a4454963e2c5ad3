//! `aifo-coder serve`: proxy and sidecars, for another launcher.

use std::process::ExitCode;

use aifo_host::EndSignals;
use aifo_launch::{Fallback, Session};
use aifo_terminal::console::LogLevel;
use aifo_terminal::paint;
use anyhow::Context;

use crate::cli::Serve;
use crate::settings;
use crate::start::{self, Started, start};

pub(crate) async fn serve(flags: Serve) -> anyhow::Result<ExitCode> {
    let config = settings::load(&flags.session, &flags.session.flags(), LogLevel::Notices)?;
    let mut signals = EndSignals::listen()?;
    let mut config = settings::session_config(&flags.session, &config, Fallback::Local).await?;
    "serve".clone_into(&mut config.name);
    if flags.session.containers.dry_run {
        return start::show_plan(&config).await;
    }
    let summary = config.summary();
    let session = match start(config, &mut signals).await? {
        Started::Running(session) => session,
        Started::Cancelled(_) => return Ok(ExitCode::SUCCESS),
    };
    tracing::info!("{summary}");
    if let Err(error) = announce(&session) {
        session.close().await;
        return Err(error).context("cannot print the session's variables");
    }
    signals.recv().await;
    session.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Prints the variables that a client needs to connect.
fn announce(session: &Session) -> anyhow::Result<()> {
    let lines = session.variables().into_iter();
    let lines = lines.map(|(name, value)| format!("{name}={}\n", value.display()));
    Ok(paint::write(&lines.collect::<String>())?)
}
