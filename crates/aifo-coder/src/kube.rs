//! `aifo-coder kube`: sessions as pods of Kubernetes (`spec/kubernetes.md`).

use std::ffi::OsString;
use std::process::ExitCode;

use aifo_config::{Config, UsageError};
use aifo_host::new_id;
use aifo_kube::client::{
    AgentFiles, Cluster, PodProcess, PodRequest, PodTarget, describe, validate, without_backend,
};
use aifo_kube::{Role, Subject};
use aifo_terminal::console::{self, LogLevel};
use aifo_terminal::paint;

use crate::cli::{
    Kube, KubeCommand, KubeFetch, KubeRbac, KubeRender, PodFlags, Run, RunTarget,
    default_workspace, reject_option,
};
use crate::logging;

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
    let cluster = match Cluster::recorded(&flags.cluster.flags(), flags.session.as_deref()).await? {
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
    let config = aifo_config::load_for_session(&run.session.project.workspace.path, &run.flags())?;
    let session = flags.session_id.clone().map_or_else(new_id, Ok)?;
    let process = match flags.no_tty {
        true => PodProcess::WithoutTerminal,
        false => PodProcess::OnTerminal,
    };
    let pod = describe(request(run, &config)?, session, &process)?;
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

/// `run --backend kubernetes`: a session in a pod (`spec/kubernetes.md#run`).
pub(crate) async fn run_in_pod(flags: &Run, config: &Config) -> anyhow::Result<ExitCode> {
    validate(&flags.flags())?;
    aifo_kube::client::run(request(flags, config)?, flags.detach).await
}

fn request<'a>(run: &'a Run, config: &'a Config) -> anyhow::Result<PodRequest<'a>> {
    Ok(PodRequest {
        config,
        options: run.pod.options(),
        given: run.flags(),
        workspace: &run.session.project.workspace.path,
        target: target(run, config)?,
        files: AgentFiles::Unserved,
        is_dry: run.session.containers.dry_run,
        is_quiet: run.session.quiet,
    })
}

/// Returns the agent or command of `run`.
fn target(run: &Run, config: &Config) -> anyhow::Result<PodTarget> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let image = run.start.image.clone();
    match run.target(&line) {
        RunTarget::Agent(name, args) => {
            reject_option("run", Some(name))?;
            PodTarget::agent(&name.to_string_lossy(), image, config)?.with(args)
        }
        RunTarget::Command(command) => PodTarget::command(command, image, config),
    }
}

/// Errors: a flag for pods was given to a session of this machine.
pub(crate) fn reject_pod_flags(flags: &PodFlags) -> Result<(), UsageError> {
    flags.given().map_or(Ok(()), |flag| Err(without_backend(flag)))
}
