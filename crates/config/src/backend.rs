//! A session's backend, from the configuration.

use std::path::Path;

use aifo_engine::{Engine, EngineError};
use aifo_host::{TrustedPrograms, own_certificates};
use aifo_launch::{
    Admission, Attachments, BackendChoice, BackendRequest, ChoiceError, ChosenBackend, Containers,
    Fallback, ImageDialogue, MissingImage, SidecarBackend,
};
use aifo_network::LocalNames;
use aifo_sidecar::{Images, Net};
use aifo_terminal::console;

use crate::session_error::SessionError;
use crate::source::Source;
use crate::table::Config;

impl Config {
    /// Returns the configured backend, and the containers that kinds are attached to. Errors: a backend
    /// chosen by name is not available, or a flag was given that only containers support.
    pub async fn choose_backend(
        &self,
        workspace: &Path,
        fallback: Fallback,
        programs: &TrustedPrograms,
        dialogue: &mut impl ImageDialogue,
    ) -> Result<(ChosenBackend, Option<Attachments>), SessionError> {
        let attached = self.kinds.attached.iter();
        let attached = attached.map(|(kind, name)| (kind.clone(), name.value.clone())).collect();
        let request = BackendRequest {
            choice: self.backend.value,
            fallback,
            workspace,
            toolchains: &self.toolchains.value.list,
            on_demand: &self.toolchains.value.on_demand,
            are_detected: matches!(self.toolchains.source, Source::Detected(_)),
            attached: &attached,
        };
        let chosen = request.choose(programs, |engine| self.containers(engine), dialogue).await;
        let mut chosen = chosen.map_err(|error| match error {
            ChoiceError::Engine(error) => {
                let may_be_local = !request.has_version_of_user();
                let hint = remedy(&error, self.backend.value, may_be_local);
                SessionError::Engine { error, hint }
            }
            error => SessionError::Backend(error),
        })?;
        match &mut chosen.backend {
            // Tools on this machine find these files by themselves.
            SidecarBackend::Containers(containers) => {
                warn_of_names(containers.net, self);
                if containers.net.is_by_name() {
                    let (rules, unreachable) = self.network_rules(workspace);
                    unreachable.iter().for_each(|url| tracing::warn!("{url}"));
                    containers.rules = rules;
                }
                containers.admitted = self.admitted()?;
                containers.settings = self.tool_settings(workspace, &containers.admitted);
                report_without_image(&containers.engine, &chosen.without_image);
                warn_of_left_out(containers);
                let is_admitted = self.admit.iter().any(|it| it.value == Admission::CaBundle);
                // Without a network they are not needed.
                if !is_admitted && containers.net != Net::None {
                    containers.missing_certificates =
                        own_certificates(&|name| std::env::var_os(name));
                }
            }
            SidecarBackend::Pod(_) => {}
            SidecarBackend::Local => report_local(self, chosen.fallback_reason.as_deref())?,
        }
        let attachments = request.attachments(&chosen.backend, programs).await;
        let attachments = attachments.map_err(SessionError::Attach)?;
        Ok((chosen, attachments))
    }

    /// Returns the network by name of local tools, if the user has set it.
    pub fn local_names(&self, workspace: &Path) -> Option<LocalNames> {
        self.has_local_names().then(|| LocalNames {
            net: self.net.value,
            rules: self.network_rules(workspace).0,
            host_ports: self.host_ports.value.clone(),
        })
    }

    /// Returns the container settings of the configuration.
    pub fn containers(&self, engine: Engine) -> Containers {
        let mut containers = Containers::of(engine);
        let named =
            self.kinds.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
        containers.images = Images {
            prefix: self.image_prefix.value.clone(),
            tag: self.image_tag.value.clone(),
            named: named.collect(),
            never_pulled: self.toolchains.value.on_demand.clone(),
            ..Images::default()
        };
        containers.request_versions(&self.toolchains.value.list);
        containers.net = self.net.value;
        containers.host_ports.clone_from(&self.host_ports.value);
        containers.agent_ports.clone_from(&self.agent_ports.value);
        containers.join.clone_from(&self.join.value);
        containers.sockets.clone_from(&self.sockets.value);
        containers.publish.clone_from(&self.publish.value);
        containers.pools.clone_from(&self.pools.value);
        let limits = &mut containers.limits;
        if let Some(memory) = self.memory.value {
            limits.memory = Some(memory).filter(|memory| *memory > 0);
        }
        if let Some(pids) = self.pids.value {
            limits.pids = Some(pids).filter(|pids| *pids > 0);
        }
        limits.cpus = self.cpus.value;
        containers
    }
}

/// Logs the user's settings that tools of the session's start do not get.
fn warn_of_left_out(containers: &Containers) {
    let waiting = &containers.images.never_pulled;
    for settings in containers.settings.iter().filter(|it| !waiting.contains(&it.kind)) {
        for what in &settings.left_out {
            let kind = &settings.kind;
            tracing::warn!("tools of {kind} do not get a setting of yours: {what}");
        }
    }
}

/// Logs which tools are refused until their image exists.
fn report_without_image(engine: &Engine, missing: &[MissingImage]) {
    if let Some((_, image)) = missing.first() {
        let names: Vec<_> = missing.iter().map(|(kind, _)| kind.as_str()).collect();
        let (kinds, flavor) = (names.join(", "), engine.flavor());
        tracing::info!(
            target: console::PROGRESS,
            "{flavor} has no image {image}; tools of {kinds} are refused until it has one: aifo-coder setup"
        );
    }
}

/// Logs why `auto` fell back to processes of this machine, since the user may rely on containers;
/// `--quiet` suppresses the line. Errors: a flag was given that only containers support.
fn report_local(config: &Config, fallback_reason: Option<&str>) -> Result<(), SessionError> {
    if let Some(flag) = config.container_flag() {
        return Err(SessionError::WithoutContainers {
            flag: flag.to_string(),
            reason: fallback_reason.unwrap_or("the backend is local").to_owned(),
        });
    }
    if config.has_local_names() {
        warn_of_names(config.net.value, config);
    }
    if config.net.value == Net::None {
        tracing::warn!(
            "containers.net = \"none\" ({}) has no effect: tools run as processes of this machine",
            config.net.source
        );
    }
    if let Some(reason) = fallback_reason {
        let (reason, hint) = reason.split_once("\nhint:").unwrap_or((reason, SETUP));
        tracing::info!(
            target: console::PROGRESS,
            "{reason}; all tools run as processes of this machine;{hint}"
        );
    }
    Ok(())
}

/// The hint for a reason without one.
const SETUP: &str = " to run them in containers, see: aifo-coder setup";

/// Logs settings of a network by name that do not hold.
fn warn_of_names(net: Net, config: &Config) {
    if !net.is_by_name() {
        let sources = config.names.flag().into_iter();
        let ports = [&config.host_ports, &config.agent_ports].into_iter();
        let ports = ports.filter(|ports| !ports.value.is_empty()).map(|ports| &ports.source);
        let join = config.join.value.is_some().then_some(&config.join.source);
        for source in sources.chain(ports).chain(join) {
            tracing::warn!("{source} has no effect with this network; use --net names");
        }
        return;
    }
    for (kind, container) in &config.kinds.attached {
        let text = format!("{kind} tools have the network of container '{}'", container.value);
        match config.net.is_builtin() {
            true => tracing::info!("{text}"),
            false => tracing::warn!("{text}, whatever --net is"),
        }
    }
}

/// Returns the remedy of an engine that is not available.
fn remedy(error: &EngineError, choice: BackendChoice, may_be_local: bool) -> String {
    let is_forbidden = error.to_string().to_ascii_lowercase().contains("permission denied");
    let remedy = match (is_forbidden, choice) {
        (true, _) => {
            "join the group that owns the engine's socket, or use podman or a rootless docker"
        }
        (false, BackendChoice::Auto) => "start docker or podman",
        (false, _) => "start the engine",
    };
    let local = match choice {
        _ if !may_be_local => "; without the version, tools can run as processes of this machine",
        BackendChoice::Auto => {
            "; or run the agent on this machine, without isolation, with --backend local"
        }
        _ => ", or run tools as processes of this machine with --backend local",
    };
    format!("{remedy}{local}")
}
