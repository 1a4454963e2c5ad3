//! A pod that is created and started for a command (`spec/kubernetes.md#run`).

use std::process::ExitCode;
use std::time::Duration;

use aifo_host::{EndSignals, new_id};
use aifo_terminal::{console, paint};
use aifo_types::Ending;

use super::cluster::Cluster;
use super::session::{self, PodProcess, PodRequest};
use super::start::Files;
use super::upload::PodWorkspace;
use crate::WorkspaceSource;

/// The time for the first client of a session that is not started with `--detach`: the start of all
/// containers takes 600 s at most.
pub(crate) const FIRST_CLIENT: Duration = Duration::from_secs(900);

/// A pod whose containers run.
pub(crate) struct StartedPod {
    pub(crate) cluster: Cluster,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) signals: EndSignals,
}

pub(crate) enum Started {
    Running(Box<StartedPod>),
    /// It was not started, with this exit code.
    Ended(ExitCode),
}

pub(crate) async fn start(
    request: PodRequest<'_>,
    process: &PodProcess,
) -> anyhow::Result<Started> {
    let id = new_id()?;
    let PodRequest { config, workspace, is_dry, is_quiet, .. } = request;
    let uploads_ignored = request.options.upload_ignored;
    let mut pod = session::describe(request, id.clone(), process)?;
    if is_dry {
        let manifests = pod.render()?;
        paint::write(&manifests)?;
        return Ok(Started::Ended(ExitCode::SUCCESS));
    }
    if !is_quiet {
        for warning in &pod.warnings {
            console::say(format_args!("WARNING: {warning}"));
        }
    }
    let files = match pod.workspace {
        WorkspaceSource::Upload => Some(Files::plan(workspace, uploads_ignored)?),
        WorkspaceSource::Claim(_) | WorkspaceSource::Git { .. } => None,
    };
    let mut signals = EndSignals::listen()?;
    let cluster = Cluster::of(config, workspace).await?;
    pod.api_server = cluster.api_server().await;
    let manifests = pod.render()?;
    let name = format!("aifo-{id}");
    tokio::select! {
        biased;
        signal = signals.recv() => {
            console::set_status("");
            cluster.delete(&id).await;
            if let Some(record) = PodWorkspace::find(&id) {
                record.remove();
            }
            return Ok(Started::Ended(ExitCode::from(Ending::Signaled(signal).exit_code())));
        }
        started = cluster.start(&id, &name, &manifests, files) => started?,
    }
    Ok(Started::Running(Box::new(StartedPod { cluster, id, name, signals })))
}
