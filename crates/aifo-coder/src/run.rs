//! `aifo-coder run`: a session around one agent, or any command.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_launch::{
    Agent, AgentEnd, AgentPlace, AgentSpec, Session, SessionConfig, SidecarBackend, WorkspaceLock,
    given_variables,
};
use aifo_types::{Ending, exit};
use anyhow::{Context, bail};

use crate::agents;
use crate::backend::{self, Fallback};
use crate::banner;
use crate::cli::{Run, Words};
use crate::config::Config;
use crate::console::{self, Chatter};
use crate::progress;
use crate::settings;
use crate::start::{EndSignals, Started, start};

pub(crate) async fn run(flags: Run) -> anyhow::Result<ExitCode> {
    // An agent's user interface has the terminal to itself unless somebody asks.
    let given = flags.smart.add_to(flags.session.flags());
    let config = settings::load(&flags.session, &given, Chatter::Warnings)?;
    let wanted = Wanted::of(&flags, &config)?;
    let mut agent = Agent::new(wanted.command.clone()).context("there is no command to run")?;
    let name = match &wanted.spec {
        Some(spec) => Some(spec.name.clone()),
        None => agent.name().into_string().ok(),
    };
    for (name, value) in config.smart_for(name.as_deref()).variables() {
        agent.set(name, value);
    }
    let mut session = match wanted.image {
        None => settings::session_config(&flags.session, &config).await?,
        Some(_) => settings::session_config_with(&flags.session, &config, Fallback::None).await?,
    };
    if let (Some(image), Some(spec)) = (&wanted.image, &wanted.spec) {
        into_container(&mut session, image, spec, flags.image.is_some()).await?;
    }
    if flags.session.containers.dry_run {
        return backend::show_plan(&session);
    }
    let _lock = match wanted.spec.is_some() && !flags.force_share {
        true => Some(WorkspaceLock::take(&session.workspace)?),
        false => None,
    };
    let backend = session.backend.clone();
    let summary = backend.summary(session.confinement);
    let mut signals = EndSignals::listen()?;
    let session = match start(session, &mut signals).await? {
        Started::Up(session) => *session,
        Started::CalledOff(signal) => return Ok(called_off(signal)),
    };
    tracing::info!("{summary}");
    let Some(spec) = &wanted.spec else { return in_session(session, &agent).await };
    let findings = tokio::select! {
        findings = agent.check(&session) => findings,
        signal = signals.told() => {
            session.close().await;
            return Ok(called_off(signal));
        }
    };
    let is_quiet = flags.session.quiet;
    if let (false, Some(image), SidecarBackend::Containers(containers)) =
        (is_quiet, &wanted.image, &backend)
    {
        eprint!("{}", banner::before(&session, spec, image, containers));
    }
    for finding in findings.context("the agent's place cannot be looked at")? {
        eprintln!("aifo-coder: WARNING: {}", console::plain(&finding.to_string()));
    }
    let end = agent.run(&session).await;
    let id = session.id().to_owned();
    let tally = session.close().await;
    if let Some(text) = banner::after(tally, &id).filter(|_| !is_quiet) {
        eprintln!("aifo-coder: {text}");
    }
    ended(end?, &agent)
}

/// What is to be run, and where.
struct Wanted {
    command: Vec<OsString>,
    /// What is known of it; nothing of a command that is no agent's.
    spec: Option<AgentSpec>,
    /// The image of its container; none if it runs on this machine.
    image: Option<String>,
}

impl Wanted {
    fn of(flags: &Run, config: &Config) -> anyhow::Result<Self> {
        let line: Vec<OsString> = std::env::args_os().collect();
        let (name, args) = match flags.words(&line) {
            Words::Agent(name, args) => (name, args),
            Words::Command(words) => {
                let program = words.first().map(Path::new).and_then(Path::file_name);
                let program = program.unwrap_or_default().to_string_lossy();
                let known = config.agent_named(&program).ok().cloned();
                // Whatever is to be in a container of its own is an agent.
                let unknown = || flags.image.is_some().then(|| AgentSpec::unknown(&program));
                let (spec, image) = (known.or_else(unknown), flags.image.clone());
                return Ok(Wanted { command: words.to_vec(), spec, image });
            }
        };
        let name = name.to_string_lossy();
        if name.starts_with('-') {
            bail!("there is no option '{name}'\nhint: see 'aifo-coder run --help'");
        }
        let spec = config.agent_named(&name)?.clone();
        // What the user says too is not said twice: not every agent takes that.
        let own = spec.command.iter().map(OsString::from).filter(|word| !args.contains(word));
        let command: Vec<OsString> = own.chain(args.iter().cloned()).collect();
        let contained = config.containers.backend.value.engine().is_some();
        if !contained && flags.image.is_some() {
            bail!("--image is for an agent in a container, and --backend local has none");
        }
        let image = flags.image.clone().unwrap_or_else(|| agents::image(&spec, config));
        Ok(Wanted { command, spec: Some(spec), image: contained.then_some(image) })
    }
}

/// Adds to a session what its agent needs in a container.
async fn into_container(
    session: &mut SessionConfig,
    image: &str,
    spec: &AgentSpec,
    is_named: bool,
) -> anyhow::Result<()> {
    if let SidecarBackend::Containers(containers) = &session.backend {
        let is_ours = !is_named && spec.image.is_none() && containers.images.prefix.is_empty();
        if is_ours && !containers.engine.has_image(image).await {
            bail!(
                "{} has no image '{image}'\n\
                 hint: build it with `cargo xtask images build agent-{}`, or name another with --image",
                containers.engine.flavor(),
                spec.name
            );
        }
    }
    let mut forwarding = session.forwarding.clone();
    for name in spec.variables.iter().cloned().chain(given_variables()) {
        // What nobody may set was refused where it was written, or is left out.
        let _ = forwarding.allow(&name);
    }
    session.agent_forwarding = forwarding;
    session.local_python = session.local_python.take().or_else(|| spec.local_python.clone());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    session.reporter = progress::reporter(settings::at_start(session) + 1);
    session.agent = Some(AgentPlace { spec: spec.clone(), image: image.to_owned(), home });
    Ok(())
}

/// What a command would have ended with that was started and got this signal.
pub(crate) fn called_off(signal: u8) -> ExitCode {
    ExitCode::from(Ending::Signaled(signal).exit_code())
}

/// Runs a command to its end, and ends the session then.
pub(crate) async fn in_session(session: Session, agent: &Agent) -> anyhow::Result<ExitCode> {
    let end = agent.run(&session).await;
    session.close().await;
    ended(end?, agent)
}

fn ended(end: AgentEnd, agent: &Agent) -> anyhow::Result<ExitCode> {
    match end {
        AgentEnd::Ended(ending) => Ok(ExitCode::from(ending.exit_code())),
        AgentEnd::NotStarted(error) => {
            let code = match error.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            };
            let program = agent.program();
            console::fail(
                &anyhow::Error::from(error).context(format!("cannot run '{}'", program.display())),
            );
            Ok(ExitCode::from(code))
        }
    }
}
