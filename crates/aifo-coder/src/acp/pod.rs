//! `prompt` and `acp` in a pod: the command runs in the pod, with this process's descriptors
//! (`spec/kubernetes.md#without-a-terminal`).

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use aifo_config::{Config, UsageError};
use aifo_kube::client::{AgentFiles, Input, PodRequest, PodTarget, Turns, run_piped, validate};
use aifo_launch::BackendChoice;
use aifo_terminal::console::LogLevel;
use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::cli::{Acp, AcpAgent, Prompt, ServedBy};
use crate::settings;

/// Returns the configuration if its backend is a cluster; `None` also for an invalid one, which the start
/// on this machine reports: the bridge as the answer to `initialize`. Errors: a flag does not hold in a pod.
pub(crate) fn selected(flags: &AcpAgent) -> anyhow::Result<Option<Config>> {
    let workspace = &flags.session.project.workspace.path;
    let config = aifo_config::load_for_session(workspace, &flags.flags());
    if !config.is_ok_and(|config| config.backend.value == BackendChoice::Kubernetes) {
        return Ok(None);
    }
    let unusable = [
        ("--wire-log", flags.wire_log.is_some(), "omit it: the pod's files end with it"),
        ("--cwd", flags.cwd.is_some(), "omit it: the agent's directory is the workspace"),
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
        for kind in flags.yes_to.add_to(aifo_config::Flags::default()).words("--yes-to") {
            words.option("--yes-to", Some(kind.clone()));
        }
        words.option("--stream", flags.stream.map(|mode| mode.as_str().to_owned()));
        words.0.extend(flags.session.quiet.then(|| "--quiet".to_owned()));
        words
    }

    /// Adds the agent: as options of its command, or after `separator` its name, and `rest`.
    fn ended_by(
        mut self,
        request: &PodRequest<'_>,
        separator: &[String],
        rest: &[String],
    ) -> Vec<String> {
        let target = &request.target.words;
        let is_command = target.len() > 1;
        let parts = match is_command {
            true => [target.as_slice(), separator],
            false => [separator, target.as_slice()],
        };
        self.0.extend(parts.into_iter().flatten().chain(rest).cloned());
        self.0
    }
}

/// Runs a prompt in a pod of its own.
pub(crate) async fn prompt(flags: Prompt, config: Config) -> anyhow::Result<ExitCode> {
    let (agent, text) = flags.split()?;
    if flags.resume.is_some() {
        let hint = "omit it: an agent's sessions end with the pod";
        bail!(UsageError(format!("--resume has no effect in a pod\nhint: {hint}")));
    }
    let request = request(&flags.agent, agent, &config)?;
    let mut words = Words::of("prompt", &flags.agent, &request);
    words.option("--format", Words::value_of(&flags.format));
    words.option("--timeout", flags.timeout.map(|secs| secs.to_string()));
    words.option("--idle-timeout", Some(flags.idle_timeout.to_string()));
    words.0.extend(flags.fail_on_denied.then(|| "--fail-on-denied".to_owned()));
    let text = text.unwrap_or("-");
    let input = if text == "-" { Input::Stdin } else { Input::None };
    let words = words.ended_by(&request, &["--".to_owned()], &[text.to_owned()]);
    // The workspace is fetched at the end of the command, which is that of its turn.
    run_piped(request, (input, words), Turns::Unseen).await
}

/// Rejects what an agent in a pod cannot do for an editor.
pub(crate) fn check_acp(args: &[OsString]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!(UsageError(
            "a login in a pod ends with it\nhint: put keys into the secret of --keys-secret"
                .to_owned()
        ));
    }
    if std::io::stdin().is_terminal() {
        bail!(UsageError(
            "stdin is a terminal, but an editor is on pipes\n\
             hint: run the agent here with: aifo-coder run --backend kubernetes"
                .to_owned()
        ));
    }
    Ok(())
}

/// Runs an agent for an editor in a pod of its own.
pub(crate) async fn acp(
    flags: &Acp,
    name: Option<&str>,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    for (flag, server) in [("--files", flags.files), ("--terminals", flags.terminals)] {
        if server == Some(ServedBy::Editor) {
            bail!(UsageError(format!(
                "{flag} editor has no effect in a pod\n\
                 hint: omit it: the agent's files and terminals are in the pod"
            )));
        }
    }
    let request = request(&flags.agent, name, config)?;
    let mut words = Words::of("acp", &flags.agent, &request);
    words.option("--files", flags.files.as_ref().and_then(Words::value_of));
    words.option("--terminals", flags.terminals.as_ref().and_then(Words::value_of));
    for method in &flags.allow_request {
        words.option("--allow-request", Some(method.clone()));
    }
    let workspace = request.workspace;
    let real = workspace
        .canonicalize()
        .with_context(|| format!("no directory '{}'", workspace.display()))?;
    let real = real.to_str().context("the workspace's path is not valid UTF-8")?;
    words.option("--editor-workspace", Some(real.to_owned()));
    let words = words.ended_by(&request, &[], &[]);
    run_piped(request, (Input::Stdin, words), Turns::Seen).await
}

fn request<'a>(
    flags: &'a AcpAgent,
    agent: Option<&str>,
    config: &'a Config,
) -> anyhow::Result<PodRequest<'a>> {
    let image = flags.start.image.clone();
    let target = match &flags.agent_command {
        Some(line) => PodTarget::acp_command(line, image, config)?,
        None => PodTarget::agent(agent.unwrap_or_default(), image, config)?,
    };
    let workspace = &flags.session.project.workspace.path;
    Ok(PodRequest {
        config,
        options: flags.pod.options(),
        given: flags.flags(),
        workspace,
        target,
        files: AgentFiles::Served,
        is_dry: flags.session.containers.dry_run,
        is_quiet: flags.session.quiet,
    })
}
