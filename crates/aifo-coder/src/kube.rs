//! `aifo-coder kube`: sessions as pods of Kubernetes (`spec/kubernetes.md`).

mod session;

use std::process::ExitCode;

use aifo_kube::{Role, Subject};

use crate::cli::{Kube, KubeCommand, KubeRbac, KubeRender};
use crate::config;
use crate::console::{self, LogLevel};
use crate::paint;

pub(crate) fn run(flags: Kube) -> anyhow::Result<ExitCode> {
    match flags.command {
        KubeCommand::Render(flags) => render(&flags),
        KubeCommand::Rbac(flags) => rbac(flags),
    }
}

fn render(flags: &KubeRender) -> anyhow::Result<ExitCode> {
    let run = &flags.run;
    console::start(LogLevel::Warnings);
    let given = run.state.add_to(run.smart.add_to(run.session.flags()));
    let config = config::load(&run.session.project.workspace.path, &given)?;
    let pod = session::describe(flags, &config)?;
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
