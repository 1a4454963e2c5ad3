//! `aifo-coder kube`: sessions as pods of Kubernetes (`spec/kubernetes.md`).

mod acp;
mod agent_variables;
mod cluster;
mod copy;
mod last_fetch;
mod network;
mod periodic_fetches;
mod piped;
mod records;
mod relay;
mod result;
mod run;
mod session;
mod sessions;
mod start;
mod started;
mod target;
mod terminal;
mod upload;
mod work;

use std::process::ExitCode;

use aifo_host::new_id;
use aifo_kube::{Role, Subject};

pub(crate) use self::acp::{acp, check_acp, prompt, selected as selected_for_agent};
pub(crate) use self::cluster::{Cluster, target as kube_target, without_backend};
pub(crate) use self::relay::{Unusable, relay, unusable};
pub(crate) use self::run::{attach, reject_pod_flags, run as run_in_pod};
pub(crate) use self::session::launcher_image;
pub(crate) use self::sessions::{cleanup, list};
use crate::cli::{Kube, KubeCommand, KubeFetch, KubeRbac, KubeRender, default_workspace};
use crate::logging;

use crate::kube::session::{PodProcess, PodRequest};
use aifo_terminal::console;
use aifo_terminal::console::LogLevel;
use aifo_terminal::paint;

/// The first argument of the first process of the container `aifo`: `_pod SECS [SIZE COMMAND ARGS..]`.
pub(crate) const HOLD_IN_POD: &str = "_pod";
/// The first argument of the process that sends a signal to a client's command: `_signal NUMBER`.
pub(crate) const SIGNAL: &str = "_signal";
/// The first argument of the process that connects a client with the holder.
pub(crate) const RELAY: &str = "_relay";

pub(crate) async fn run(flags: Kube) -> anyhow::Result<ExitCode> {
    match flags.command {
        KubeCommand::Render(flags) => render(&flags),
        KubeCommand::Rbac(flags) => rbac(flags),
        KubeCommand::Fetch(flags) => fetch(&flags).await,
    }
}

/// `kube fetch`: fetches the files and commits of a session.
async fn fetch(flags: &KubeFetch) -> anyhow::Result<ExitCode> {
    logging::start(LogLevel::Warnings);
    let cluster = match Cluster::recorded(&flags.cluster, flags.session.as_deref()).await? {
        Some(cluster) => cluster,
        None => {
            let workspace = default_workspace();
            let given = flags.cluster.flags().with("--backend", vec!["kubernetes".to_owned()]);
            Cluster::of(&aifo_config::load(&workspace, &given)?, &workspace).await?
        }
    };
    let pod = cluster.find(flags.session.as_deref()).await?;
    let is_fetched = cluster.fetch_by_hand(&pod).await?;
    Ok(if is_fetched { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(flags: &KubeRender) -> anyhow::Result<ExitCode> {
    let run = &flags.run;
    logging::start(LogLevel::Warnings);
    let config = aifo_config::load(&run.session.project.workspace.path, &run.flags())?;
    let session = flags.session_id.clone().map_or_else(new_id, Ok)?;
    let process = match flags.no_tty {
        true => PodProcess::WithoutTerminal,
        false => PodProcess::OnTerminal,
    };
    let pod = session::describe(PodRequest::of_run(run, &config)?, session, &process)?;
    let text = pod.render()?;
    if !run.session.quiet {
        for warning in &pod.warnings {
            console::say(format_args!("WARNING: {warning}"));
        }
    }
    paint::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn rbac(flags: KubeRbac) -> anyhow::Result<ExitCode> {
    let subject = flags.subject;
    let subject = (subject.user.map(Subject::User))
        .or(subject.group.map(Subject::Group))
        .or(subject.service_account.map(Subject::ServiceAccount));
    if let Some(subject) = subject {
        paint::write(&Role { namespace: flags.namespace, subject }.render())?;
    }
    Ok(ExitCode::SUCCESS)
}
