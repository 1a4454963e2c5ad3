//! `prompt` and `acp` in a pod: the command runs in the pod, with this process's descriptors
//! (`spec/kubernetes.md#without-a-terminal`).

use std::process::ExitCode;

use aifo_launch::BackendChoice;
use anyhow::bail;
use clap::ValueEnum;

use super::run::{run_piped, validate};
use super::session::{PodRequest, Target};
use crate::cli::{Acp, AcpAgent, Prompt, UsageError};
use crate::config::{self, Config};
use crate::console::LogLevel;
use crate::settings;

/// Returns the configuration if its backend is a cluster; `None` also for an invalid one, which the start
/// on this machine reports: the bridge as the answer to `initialize`. Errors: a flag does not hold in a pod.
pub(crate) fn selected(flags: &AcpAgent) -> anyhow::Result<Option<Config>> {
    let workspace = &flags.session.project.workspace.path;
    let config = config::load(workspace, &flags.flags());
    if !config.is_ok_and(|config| config.backend.value == BackendChoice::Kubernetes) {
        return Ok(None);
    }
    let unusable = [
        ("--wire-log", flags.wire_log.is_some(), "omit it: the pod's files end with it"),
        ("--cwd", flags.cwd.is_some(), "omit it: the agent's directory is the workspace"),
        ("--agent-command", flags.agent_command.is_some(), "name an agent"),
    ];
    if let Some((flag, _, remedy)) = unusable.iter().find(|(_, is_given, _)| *is_given) {
        bail!(UsageError(format!("{flag} has no effect in a pod\nhint: {remedy}")));
    }
    validate(&flags.flags())?;
    settings::load(&flags.session, &flags.flags(), LogLevel::Warnings).map(Some)
}

/// The options of a command in the pod.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn option(&mut self, name: &str, value: Option<String>) {
        self.0.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }

    fn value_of<T: ValueEnum>(value: &T) -> Option<String> {
        value.to_possible_value().map(|value| value.get_name().to_owned())
    }

    fn of(command: &str, flags: &AcpAgent, request: &PodRequest<'_>) -> Self {
        let mut words = Words(vec![command.to_owned()]);
        words.0.extend(request.options());
        for kind in flags.yes_to.add_to(config::Flags::default()).words("--yes-to") {
            words.option("--yes-to", Some(kind.clone()));
        }
        words
    }
}

/// Runs a prompt in a pod of its own.
pub(crate) async fn prompt(flags: Prompt, config: Config) -> anyhow::Result<ExitCode> {
    let (agent, text) = flags.split()?;
    if flags.resume.is_some() {
        let hint = "omit it: an agent's sessions end with the pod";
        bail!(UsageError(format!("--resume has no effect in a pod\nhint: {hint}")));
    }
    let request = request(&flags.agent, agent.unwrap_or_default(), &config)?;
    let mut words = Words::of("prompt", &flags.agent, &request);
    words.option("--format", Words::value_of(&flags.format));
    words.option("--timeout", flags.timeout.map(|secs| secs.to_string()));
    words.option("--idle-timeout", Some(flags.idle_timeout.to_string()));
    words.0.push("--".to_owned());
    words.0.push(request.target.spec.name.clone());
    words.0.push(text.unwrap_or("-").to_owned());
    run_piped(&flags.agent.session, request, words.0).await
}

/// Runs an agent for an editor in a pod of its own.
pub(crate) async fn acp(flags: Acp, config: Config) -> anyhow::Result<ExitCode> {
    let (name, args) = flags.words()?;
    let request = request(&flags.agent, &name.unwrap_or_default(), &config)?;
    let mut words = Words::of("acp", &flags.agent, &request);
    words.option("--files", flags.files.as_ref().and_then(Words::value_of));
    words.option("--terminals", flags.terminals.as_ref().and_then(Words::value_of));
    for method in &flags.allow_request {
        words.option("--allow-request", Some(method.clone()));
    }
    words.0.push(request.target.spec.name.clone());
    if !args.is_empty() {
        bail!(UsageError(
            "a login in a pod ends with it\nhint: put keys into the secret of --keys-secret"
                .to_owned()
        ));
    }
    run_piped(&flags.agent.session, request, words.0).await
}

fn request<'a>(
    flags: &'a AcpAgent,
    agent: &str,
    config: &'a Config,
) -> anyhow::Result<PodRequest<'a>> {
    let target = Target::agent(agent, flags.start.image.clone(), config)?;
    let workspace = &flags.session.project.workspace.path;
    Ok(PodRequest { config, flags: &flags.pod, given: flags.flags(), workspace, target })
}
