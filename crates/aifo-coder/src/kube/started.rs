//! A pod that is created and started for a command (`spec/kubernetes.md#run`).

use std::process::ExitCode;
use std::time::Duration;

use aifo_host::{EndSignals, new_id};
use aifo_kube::Workspace;
use aifo_terminal::{console, paint};

use super::cluster::Cluster;
use super::session::{self, PodProcess, PodRequest};
use super::start::Files;
use super::upload::PodWorkspace;
use crate::cli::Session;
use crate::start::signal_exit_code;

/// The time for the first client of a session that is not started with `--detach`: the start of all
/// containers takes 600 s at most.
pub(super) const FIRST_CLIENT: Duration = Duration::from_secs(900);

/// A pod whose containers run.
pub(super) struct StartedPod {
    pub(super) cluster: Cluster,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) signals: EndSignals,
}

pub(super) enum Started {
    Running(Box<StartedPod>),
    /// It was not started, with this exit code.
    Ended(ExitCode),
}

pub(super) async fn start(
    flags: &Session,
    request: PodRequest<'_>,
    process: &PodProcess,
) -> anyhow::Result<Started> {
    let id = new_id()?;
    let (config, workspace, pod_flags) = (request.config, request.workspace, request.flags);
    let mut pod = session::describe(request, id.clone(), process)?;
    if flags.containers.dry_run {
        let manifests = pod.render()?;
        paint::write(&manifests)?;
        return Ok(Started::Ended(ExitCode::SUCCESS));
    }
    if !flags.quiet {
        for warning in &pod.warnings {
            console::say(format_args!("WARNING: {warning}"));
        }
    }
    let files = match pod.workspace {
        Workspace::Upload => Some(Files::plan(workspace, pod_flags.upload_ignored)?),
        Workspace::Claim(_) | Workspace::Git { .. } => None,
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
            return Ok(Started::Ended(signal_exit_code(signal)));
        }
        started = cluster.start(&id, &name, &manifests, files) => started?,
    }
    Ok(Started::Running(Box::new(StartedPod { cluster, id, name, signals })))
}
