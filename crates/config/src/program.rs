//! The program to run and its image: an agent of the table, or any command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aifo_agents::{
    AgentContainerConfig, AgentForges, AgentSettings, AgentSpec, ForgeSettings, KeySettings,
    ModelKeys, StateImport, StateMode, trusted_programs,
};
use aifo_egress::Name;
use aifo_launch::{BackendChoice, Containers, Fallback, SessionConfig, SidecarBackend};
use aifo_process::forbid_tracing;
use aifo_provider::UpstreamUrl;
use aifo_sidecar::Net;

use crate::session_error::SessionError;
use crate::table::Config;

/// A command with the agent table entry and image.
pub struct SessionProgram {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The table's entry; `None` for other commands.
    pub spec: Option<AgentSpec>,
    /// The image of its container; `None` if it runs on this machine.
    pub image: Option<ProgramImage>,
    /// Whose state the agent works with, and the part of the user's that a new state gets.
    state: (StateMode, StateImport),
    /// The settings for model keys; `None` if the agent gets the keys.
    keys: Option<KeySettings>,
    /// The settings for forges, likewise.
    forges: Option<ForgeSettings>,
    /// The flag of a limit of requests to models.
    limit: Option<&'static str>,
    /// PEM files of certificates beside this machine's.
    certificates: Vec<PathBuf>,
    /// Whether the agent reaches hosts that no setting of `[net]` names.
    has_default_rules: bool,
}

/// The image of an agent container.
pub struct ProgramImage {
    /// Its name.
    pub name: String,
    /// True if the user named it.
    is_named: bool,
}

impl SessionProgram {
    /// An agent of the table, run by this command.
    pub fn agent(
        spec: AgentSpec,
        command: Vec<OsString>,
        image: Option<&str>,
        config: &Config,
    ) -> Result<Self, SessionError> {
        let is_pod = config.backend.value == BackendChoice::Pod;
        let contained = is_pod || config.backend.value.engine().is_some();
        if !contained && image.is_some() {
            return Err(SessionError::ImageWithoutContainers);
        }
        let image = contained.then(|| match image {
            Some(name) => ProgramImage::named(name),
            None => {
                ProgramImage { name: config.agent_image(&spec), is_named: spec.image.is_some() }
            }
        });
        Ok(SessionProgram::of(command, Some(spec), image, config))
    }

    /// Any command. It is an agent if its program has an agent name, or if an image is given.
    pub fn command(command: Vec<OsString>, image: Option<&str>, config: &Config) -> Self {
        let program = command.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        let known = config.agent_named(&program).ok().cloned();
        let spec = known.or_else(|| image.is_some().then(|| AgentSpec::unknown(&program)));
        SessionProgram::of(command, spec, image.map(ProgramImage::named), config)
    }

    fn of(
        command: Vec<OsString>,
        spec: Option<AgentSpec>,
        image: Option<ProgramImage>,
        config: &Config,
    ) -> Self {
        SessionProgram {
            command,
            spec,
            image,
            state: (config.state.value, config.state_import.value),
            keys: config.key_settings(),
            forges: config.forge_settings(),
            limit: config.model_limit(),
            certificates: config.ca_bundle.value.iter().cloned().collect(),
            has_default_rules: config.net_defaults.value,
        }
    }

    /// The agent name, else the program's.
    pub fn name(&self) -> Option<&str> {
        let program = || Path::new(self.command.first()?).file_name()?.to_str();
        self.spec.as_ref().map(|spec| spec.name.as_str()).or_else(program)
    }

    /// Returns the backend of `auto` without containers: none if the agent needs one itself.
    pub fn fallback(&self) -> Fallback {
        if self.image.is_some() { Fallback::None } else { Fallback::Local }
    }

    /// Names a session, and configures it for an agent in a container.
    /// Errors: the default image is missing.
    pub async fn configure(&self, session: &mut SessionConfig) -> Result<(), SessionError> {
        session.name = self.name().unwrap_or_default().to_owned();
        let (Some(image), Some(spec)) = (&self.image, &self.spec) else {
            return match (&self.spec, self.limit) {
                (Some(_), Some(limit)) => Err(without_effect(limit, "it runs on this machine")),
                _ => Ok(()),
            };
        };
        // In a pod, the user's home is on another machine.
        let is_pod = matches!(session.backend, SidecarBackend::Pod(_));
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute() && !is_pod);
        if let SidecarBackend::Containers(containers) = &mut session.backend {
            // An agent can write the user's own state.
            let settings = home.as_deref().filter(|_| self.state.0 == StateMode::Own);
            let settings = AgentSettings::of(spec, settings, &session.workspace);
            self.allow_hosts(spec, &settings, containers);
            let is_default = !image.is_named && containers.images.prefix.is_empty();
            if is_default && !containers.engine.has_image(&image.name).await {
                return Err(SessionError::MissingImage {
                    engine: containers.engine_text(),
                    image: image.name.clone(),
                    build: format!("{}{}", containers.engine.flavor().build_option(), spec.name),
                });
            }
        }
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
        let forges = self.agent_forges(session).await?;
        session.contain_agent(AgentContainerConfig {
            keys,
            forges,
            spec: spec.clone(),
            image: image.name.clone(),
            home,
            state,
            state_import,
        });
        Ok(())
    }

    /// Returns the user's keys that the agent works with, without having them. `home` has the login that the
    /// agent gets a copy of.
    fn model_keys(
        &self,
        spec: &AgentSpec,
        session: &SessionConfig,
        home: Option<&Path>,
    ) -> Result<Option<ModelKeys>, SessionError> {
        let Some(keys) = self.keys.as_ref().filter(|_| has_own_stack(session)) else {
            return Ok(None);
        };
        let programs = trusted_programs(&session.workspace);
        let variable = |name: &str| std::env::var(name).ok();
        let keys = ModelKeys::collect(spec, keys, &programs, &self.certificates, home, variable)?;
        if keys.is_some() {
            // Not for this session only: the key may stay in freed memory.
            forbid_tracing().map_err(|error| SessionError::Tracing(error.into()))?;
        }
        Ok(keys)
    }

    /// Returns the forges of the project's remotes at which the user has a credential.
    async fn agent_forges(
        &self,
        session: &SessionConfig,
    ) -> Result<Option<AgentForges>, SessionError> {
        let SidecarBackend::Containers(containers) = &session.backend else { return Ok(None) };
        let is_reachable = !matches!(containers.net, Net::Host | Net::None);
        let Some(forges) = self.forges.as_ref().filter(|_| is_reachable) else { return Ok(None) };
        let is_denied = |url: &UpstreamUrl| {
            let name = Name::parse(url.host().as_bytes());
            name.is_ok_and(|name| {
                !containers.rules.explain_agent(&name, url.port()).denials.is_empty()
            })
        };
        let programs = trusted_programs(&session.workspace);
        let variable = |name: &str| std::env::var(name).ok();
        let (workspace, certificates) = (&session.workspace, &self.certificates);
        let collecting =
            AgentForges::collect(forges, workspace, &programs, certificates, is_denied, variable);
        let forges = collecting.await?;
        if forges.is_some() {
            forbid_tracing().map_err(|error| SessionError::Tracing(error.into()))?;
        }
        Ok(forges)
    }

    /// Allows the agent the hosts that its variables and settings name.
    fn allow_hosts(&self, spec: &AgentSpec, settings: &AgentSettings, containers: &mut Containers) {
        let variable = |name: &str| std::env::var_os(name);
        for line in settings.withheld_variables(spec, &variable) {
            tracing::warn!("{line}");
        }
        if !self.has_default_rules {
            return;
        }
        let (rules, ports) = (&mut containers.rules, &containers.host_ports);
        let unreachable = spec.allow_urls(rules, ports, settings, &variable);
        if containers.net.is_by_name() {
            unreachable.iter().for_each(|url| tracing::warn!("{url}"));
        }
    }
}

/// Returns whether the agent has a localhost of its own: in this machine's network, several sessions would have the same
/// port.
fn has_own_stack(session: &SessionConfig) -> bool {
    match &session.backend {
        SidecarBackend::Local => false,
        SidecarBackend::Containers(containers) => containers.net != Net::Host,
        SidecarBackend::Pod(_) => true,
    }
}

/// Returns the error that an agent could exceed a limit: not all of its requests to models pass through aifo.
pub fn without_effect(limit: &str, reason: &str) -> SessionError {
    SessionError::Limit { limit: limit.to_owned(), reason: reason.to_owned() }
}

fn host_state_warning(spec: &AgentSpec) -> String {
    let state: Vec<_> = spec.state.iter().map(|path| format!("~/{}", path.display())).collect();
    let (state, name) = (state.join(", "), &spec.name);
    format!(
        "WARNING: the agent can write to your {state}; {name} on this machine runs commands that \
         are configured there, without a container"
    )
}

impl ProgramImage {
    fn named(name: &str) -> Self {
        ProgramImage { name: name.to_owned(), is_named: true }
    }
}

impl Config {
    /// Returns the default image of an agent container.
    pub fn agent_image(&self, spec: &AgentSpec) -> String {
        let (prefix, tag) = (&self.image_prefix.value, &self.image_tag.value);
        let ours = || format!("{prefix}aifo-agent-{}:{tag}", spec.name);
        spec.image.clone().unwrap_or_else(ours)
    }
}
