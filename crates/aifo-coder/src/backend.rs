//! A session's backend, from the configuration.

use std::path::Path;

use aifo_config::Config;
use aifo_engine::{Engine, EngineError};
use aifo_host::{TrustedPrograms, own_certificates};
use aifo_launch::{
    Admission, Attachments, BackendChoice, BackendRequest, ChoiceError, Containers, Fallback,
    SidecarBackend,
};
use aifo_network::LocalNames;
use aifo_sidecar::{Images, Net};
use aifo_terminal::console;
use anyhow::{Context, bail};

use crate::image_dialogue::{self, Dialogue};

/// Returns the configured backend, and the containers that kinds are attached to. Errors: a backend
/// chosen by name is not available, or a flag was given that only containers support.
pub(crate) async fn choose(
    config: &Config,
    workspace: &Path,
    fallback: Fallback,
    programs: &TrustedPrograms,
    mut dialogue: Dialogue,
) -> anyhow::Result<(SidecarBackend, Option<Attachments>)> {
    let attached = config.kinds.attached.iter();
    let attached = attached.map(|(kind, name)| (kind.clone(), name.value.clone())).collect();
    let request = BackendRequest {
        choice: config.backend.value,
        fallback,
        workspace,
        toolchains: &config.toolchains.value.list,
        attached: &attached,
    };
    let chosen = request.choose(programs, |engine| containers(engine, config), &mut dialogue).await;
    let mut chosen = chosen.map_err(|error| match error {
        ChoiceError::Engine(error) => {
            let may_be_local = !request.has_version_of_user();
            unavailable(&error, config.backend.value, may_be_local)
        }
        ChoiceError::Pod(error) => error.into(),
        ChoiceError::Kubernetes => error.into(),
        ChoiceError::Version(decision) => {
            anyhow::Error::msg(image_dialogue::unavailable(&decision).unwrap_or_default())
        }
    })?;
    match &mut chosen.backend {
        // Tools on this machine find these files by themselves.
        SidecarBackend::Containers(containers) => {
            warn_of_names(containers.net, config);
            if containers.net.is_by_name() {
                let (rules, unreachable) = config.network_rules(workspace);
                unreachable.iter().for_each(|url| tracing::warn!("{url}"));
                containers.rules = rules;
            }
            containers.admitted = config.admitted()?;
            let is_admitted = config.admit.iter().any(|it| it.value == Admission::CaBundle);
            // Without a network they are not needed.
            if !is_admitted && containers.net != Net::None {
                containers.missing_certificates = own_certificates(&|name| std::env::var_os(name));
            }
        }
        SidecarBackend::Pod(_) => {}
        SidecarBackend::Local => report_local(config, chosen.fallback_reason.as_deref())?,
    }
    let attachments = request.attachments(&chosen.backend, programs).await;
    let attachments =
        attachments.context("cannot attach to a container\nhint: start the engine that runs it")?;
    Ok((chosen.backend, attachments))
}

/// Logs why `auto` fell back to processes of this machine, since the user may rely on containers;
/// `--quiet` suppresses the line. Errors: a flag was given that only containers support.
fn report_local(config: &Config, fallback_reason: Option<&str>) -> anyhow::Result<()> {
    if let Some(flag) = config.container_flag() {
        bail!(
            "{flag} needs containers, but there are none: {}\n\
             hint: omit it, or choose an engine with --backend docker or podman",
            fallback_reason.unwrap_or("the backend is local")
        );
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
        let reason = reason.split("\nhint:").next().unwrap_or_default();
        tracing::info!(target: console::PROGRESS, "{reason}; tools run as processes of this machine");
    }
    Ok(())
}

/// Returns the network by name of local tools, if the user has set it.
pub(crate) fn local_names(config: &Config, workspace: &Path) -> Option<LocalNames> {
    config.has_local_names().then(|| LocalNames {
        net: config.net.value,
        rules: config.network_rules(workspace).0,
        host_ports: config.host_ports.value.clone(),
    })
}

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

/// Adds a hint to the error of an engine that is not available.
fn unavailable(error: &EngineError, choice: BackendChoice, may_be_local: bool) -> anyhow::Error {
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
    anyhow::anyhow!("{error}\nhint: {remedy}{local}")
}

/// Returns the container settings of the configuration.
pub(crate) fn containers(engine: Engine, config: &Config) -> Containers {
    let mut containers = Containers::of(engine);
    let named = config.kinds.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
    containers.images = Images {
        prefix: config.image_prefix.value.clone(),
        tag: config.image_tag.value.clone(),
        named: named.collect(),
        ..Images::default()
    };
    containers.request_versions(&config.toolchains.value.list);
    containers.net = config.net.value;
    containers.host_ports.clone_from(&config.host_ports.value);
    containers.agent_ports.clone_from(&config.agent_ports.value);
    containers.join.clone_from(&config.join.value);
    containers.sockets.clone_from(&config.sockets.value);
    containers.publish.clone_from(&config.publish.value);
    containers.pools.clone_from(&config.pools.value);
    let limits = &mut containers.limits;
    if let Some(memory) = config.memory.value {
        limits.memory = Some(memory).filter(|memory| *memory > 0);
    }
    if let Some(pids) = config.pids.value {
        limits.pids = Some(pids).filter(|pids| *pids > 0);
    }
    limits.cpus = config.cpus.value;
    containers
}
