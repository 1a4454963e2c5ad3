//! `aifo-coder serve`: proxy and sidecars, for somebody else's launcher.

use std::io::Write;
use std::process::ExitCode;

use aifo_launch::Session;
use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Serve;
use crate::console::Chatter;
use crate::settings;

pub(crate) async fn serve(flags: Serve) -> anyhow::Result<ExitCode> {
    let config = settings::load(&flags.session, &flags.session.flags(), Chatter::Notices)?;
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    let mut told_to_end = std::pin::pin!(async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
        }
    });
    let config = settings::session_config(&flags.session, &config)?;
    let session = tokio::select! {
        session = Session::start(config) => session?,
        // Dropping a session on its way up takes down what is up already.
        () = &mut told_to_end => return Ok(ExitCode::SUCCESS),
    };
    if let Err(error) = announce(&session) {
        session.close().await;
        return Err(error).context("cannot tell where the proxy listens");
    }
    told_to_end.await;
    session.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Whoever reads these lines can connect.
fn announce(session: &Session) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for (name, value) in session.variables() {
        writeln!(stdout, "{name}={}", value.display())?;
    }
    Ok(stdout.flush()?)
}
