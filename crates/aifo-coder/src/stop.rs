//! `aifo-coder stop`: ends a running session (`spec/cli.md#stop`).

use std::process::ExitCode;
use std::time::Duration;

use aifo_host::asking_sessions;
use aifo_kube::client::{self, Cluster};
use aifo_process::PinnedProcess;
use aifo_terminal::console;
use aifo_types::Signal;
use anyhow::{Context, bail};

use crate::cli::Stop;
use crate::sessions;

/// Signals that end a session, and the time that each has: the launcher passes the first two to the command.
/// Shells on a terminal ignore TERM.
const SIGNALS: [(Signal, Duration); 3] = [
    (Signal::Term, Duration::from_secs(10)),
    (Signal::Hup, Duration::from_secs(5)),
    (Signal::Kill, Duration::from_secs(5)),
];

pub(crate) async fn stop(flags: &Stop) -> anyhow::Result<ExitCode> {
    if let Some(cluster) =
        Cluster::selected(&flags.of.cluster.flags(), flags.of.session.as_deref()).await?
    {
        return client::relay(&cluster, flags).await;
    }
    let session = sessions::any(flags.of.session.as_deref())?;
    let name = &session.name;
    let Ok(process) = PinnedProcess::open(session.pid) else {
        bail!("session {name} has just ended");
    };
    // Until here the pid may have become another process's.
    if !asking_sessions().iter().any(|running| running.id == session.id) {
        bail!("session {name} has just ended");
    }
    for (signal, limit) in SIGNALS {
        if process.signal(signal).is_err() || process.has_ended_within(limit)? {
            match signal {
                Signal::Kill => console::say(format_args!(
                    "session {name} did not end and was killed; remove what is left with: aifo-coder clean"
                )),
                _ => console::say(format_args!("session {name} has ended")),
            }
            return Ok(ExitCode::SUCCESS);
        }
        if signal == Signal::Term {
            console::say(format_args!("session {name} is still ending"));
        }
    }
    Err(anyhow::anyhow!("process {} did not end", session.pid))
        .with_context(|| format!("cannot stop session {name}"))
}
