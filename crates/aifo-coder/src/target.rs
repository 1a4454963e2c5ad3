//! The program to run and its image: an agent of the table, or any command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aifo_agents::{
    AgentContainerConfig, AgentSpec, KeySettings, ModelKeys, StateImport, StateMode,
    trusted_programs,
};
use aifo_config::Config;
use aifo_launch::{BackendChoice, Containers, Fallback, SessionConfig, SidecarBackend};
use aifo_process::forbid_tracing;
use aifo_sidecar::Net;
use anyhow::{Context, anyhow, bail};

use crate::{agents, progress};

/// A command with the agent's table entry and image.
pub(crate) struct Target {
    pub(crate) command: Vec<OsString>,
    /// The table's entry; `None` for other commands.
    pub(crate) spec: Option<AgentSpec>,
    /// The image of its container; `None` if it runs on this machine.
    pub(crate) image: Option<Image>,
    /// Whose state the agent works with, and the part of the user's that a new state gets.
    state: (StateMode, StateImport),
    /// The settings for model keys; `None` if the agent gets the keys.
    keys: Option<KeySettings>,
    /// The flag of a limit of requests to models.
    limit: Option<&'static str>,
    /// PEM files of certificates beside this machine's.
    certificates: Vec<PathBuf>,
    /// Whether the agent reaches hosts that no setting of `[net]` names.
    has_default_rules: bool,
}

/// The image of an agent's container.
pub(crate) struct Image {
    pub(crate) name: String,
    /// True if the user named it.
    is_named: bool,
}

impl Target {
    /// An agent of the table, run by this command.
    pub(crate) fn agent(
        spec: AgentSpec,
        command: Vec<OsString>,
        image: Option<&str>,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let is_pod = config.backend.value == BackendChoice::Pod;
        let contained = is_pod || config.backend.value.engine().is_some();
        if !contained && image.is_some() {
            bail!("--image needs containers, but --backend local has none");
        }
        let image = contained.then(|| match image {
            Some(name) => Image::named(name),
            None => Image { name: agents::image(&spec, config), is_named: spec.image.is_some() },
        });
        Ok(Target::of(command, Some(spec), image, config))
    }

    /// Any command. It is an agent if its program has an agent's name, or if an image is given.
    pub(crate) fn command(command: Vec<OsString>, image: Option<&str>, config: &Config) -> Self {
        let program = command.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        let known = config.agent_named(&program).ok().cloned();
        let spec = known.or_else(|| image.is_some().then(|| AgentSpec::unknown(&program)));
        Target::of(command, spec, image.map(Image::named), config)
    }

    fn of(
        command: Vec<OsString>,
        spec: Option<AgentSpec>,
        image: Option<Image>,
        config: &Config,
    ) -> Self {
        Target {
            command,
            spec,
            image,
            state: (config.state.value, config.state_import.value),
            keys: config.key_settings(),
            limit: config.model_limit(),
            certificates: config.ca_bundle.value.iter().cloned().collect(),
            has_default_rules: config.net_defaults.value,
        }
    }

    /// The agent's name, else the program's.
    pub(crate) fn name(&self) -> Option<&str> {
        let program = || Path::new(self.command.first()?).file_name()?.to_str();
        self.spec.as_ref().map(|spec| spec.name.as_str()).or_else(program)
    }

    /// Returns the backend of `auto` without containers: none if the agent needs one itself.
    pub(crate) fn fallback(&self) -> Fallback {
        if self.image.is_some() { Fallback::None } else { Fallback::Local }
    }

    /// Configures a session for an agent in a container. Does nothing for one on this machine.
    /// Errors: the default image is missing.
    pub(crate) async fn configure(&self, session: &mut SessionConfig) -> anyhow::Result<()> {
        let (Some(image), Some(spec)) = (&self.image, &self.spec) else {
            return match (&self.spec, self.limit) {
                (Some(_), Some(limit)) => Err(without_effect(limit, "it runs on this machine")),
                _ => Ok(()),
            };
        };
        if let SidecarBackend::Containers(containers) = &mut session.backend {
            self.allow_hosts(spec, containers);
            let is_default = !image.is_named && containers.images.prefix.is_empty();
            if is_default && !containers.engine.has_image(&image.name).await {
                bail!(
                    "{} has no image '{}'\n\
                     hint: build it with `aifo-coder images build {}{}`, or name another with \
                     --image",
                    containers.engine_text(),
                    image.name,
                    containers.engine.flavor().build_option(),
                    spec.name
                );
            }
        }
        // In a pod, the user's home is on another machine.
        let is_pod = matches!(session.backend, SidecarBackend::Pod(_));
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute() && !is_pod);
        let (state, state_import) = self.state;
        if state == StateMode::Host && !spec.state.is_empty() {
            tracing::warn!("{}", host_state_warning(spec));
        }
        let has_copy = state == StateMode::Own && !spec.state.is_empty();
        let keys = self.model_keys(spec, session, home.as_deref().filter(|_| has_copy))?;
        if let Some(limit) = self.limit {
            let variable = |name: &str| std::env::var(name).ok();
            let own =
                keys.as_ref().map(|keys| keys.own_credential(spec, home.as_deref(), variable));
            let reason = match own {
                None => "aifo adds no key to its requests".to_owned(),
                Some(Some(credential)) => format!("it also gets {credential}"),
                Some(None) => String::new(),
            };
            if !reason.is_empty() {
                return Err(without_effect(limit, &reason));
            }
        }
        session.contain_agent(AgentContainerConfig {
            keys,
            spec: spec.clone(),
            image: image.name.clone(),
            home,
            state,
            state_import,
        });
        session.reporter = progress::reporter(session.starts());
        Ok(())
    }

    /// Returns the user's keys that the agent works with, without having them. `home` has the login that the
    /// agent gets a copy of.
    fn model_keys(
        &self,
        spec: &AgentSpec,
        session: &SessionConfig,
        home: Option<&Path>,
    ) -> anyhow::Result<Option<ModelKeys>> {
        let has_own_stack = match &session.backend {
            SidecarBackend::Local => false,
            // In this machine's own network, several sessions would have the same port.
            SidecarBackend::Containers(containers) => containers.net != Net::Host,
            SidecarBackend::Pod(_) => true,
        };
        let Some(keys) = self.keys.as_ref().filter(|_| has_own_stack) else { return Ok(None) };
        let programs = trusted_programs(&session.workspace);
        let variable = |name: &str| std::env::var(name).ok();
        let keys = ModelKeys::collect(spec, keys, &programs, &self.certificates, home, variable)?;
        if keys.is_some() {
            // Not for this session only: the key may stay in freed memory.
            forbid_tracing().context("cannot protect the memory that has the model's key")?;
        }
        Ok(keys)
    }

    /// Allows the agent the hosts that its variables name.
    fn allow_hosts(&self, spec: &AgentSpec, containers: &mut Containers) {
        if !self.has_default_rules {
            return;
        }
        let (rules, ports) = (&mut containers.rules, &containers.host_ports);
        let unreachable = spec.allow_urls(rules, ports, &|name| std::env::var_os(name));
        if containers.net.is_by_name() {
            unreachable.iter().for_each(|url| tracing::warn!("{url}"));
        }
    }
}

/// The error that an agent could exceed a limit: not all of its requests to models pass through aifo.
pub(crate) fn without_effect(limit: &str, reason: &str) -> anyhow::Error {
    anyhow!(
        "{limit} does not limit this agent: {reason}\n\
         hint: run it in a container, with nothing but keys that aifo adds ('aifo-coder agents' lists \
         them), or with {limit} 0"
    )
}

fn host_state_warning(spec: &AgentSpec) -> String {
    let state: Vec<_> = spec.state.iter().map(|path| format!("~/{}", path.display())).collect();
    let (state, name) = (state.join(", "), &spec.name);
    format!(
        "WARNING: the agent can write to your {state}; {name} on this machine runs commands that \
         are configured there, without a container"
    )
}

impl Image {
    fn named(name: &str) -> Self {
        Image { name: name.to_owned(), is_named: true }
    }
}
