//! Chooses a session's backend.

use std::path::Path;
use std::process::ExitCode;

use aifo_launch::{
    Attachments, Choice, Containers, Engine, EngineError, Images, Net, SessionConfig,
    SidecarBackend, TrustedPrograms, missing_images, project_version,
};
use aifo_types::Kind;
use anyhow::{Context, bail};

use crate::config::{Backend, Config};
use crate::{console, paint};

/// The backend of `auto` without containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Processes of this machine.
    Local,
    /// An error: the agent needs a container, and so do its tools.
    None,
}

/// Returns the configured backend. `auto` takes containers if an engine answers and has every image
/// that the user did not name. Errors: a backend chosen by name is not available.
pub(crate) async fn choose(
    config: &Config,
    workspace: &Path,
    fallback: Fallback,
    programs: &TrustedPrograms,
) -> anyhow::Result<SidecarBackend> {
    let requested = config.backend.value;
    let Some(choice) = requested.engine() else {
        return local(config, "the backend is local");
    };
    let engine = match Engine::find(choice, programs).await {
        Ok(engine) => engine,
        Err(error) if requested == Backend::Auto && fallback == Fallback::None => bail!(
            "{error}\n\
             hint: {}; or run the agent on this machine, without isolation, with \
             --backend local",
            remedy(&error, "start docker or podman")
        ),
        Err(error) if requested == Backend::Auto => {
            return fall_back(config, &error.to_string());
        }
        Err(error) => bail!(
            "{error}\n\
             hint: {}, or run tools as processes of this machine with --backend local",
            remedy(&error, "start the engine")
        ),
    };
    let mut containers = containers(engine, config);
    follow_project(&mut containers, config, workspace).await;
    if requested == Backend::Auto && fallback == Fallback::Local {
        let kinds = config.toolchains.value.kinds().into_iter();
        let configured = &config.kinds;
        let needs_none = |kind: &Kind| {
            configured.images.contains_key(kind) || configured.attached.contains_key(kind)
        };
        let unnamed: Vec<Kind> = kinds.filter(|kind| !needs_none(kind)).collect();
        let missing = missing_images(&containers, &unnamed).await;
        if !missing.is_empty() {
            let flavor = containers.engine.flavor();
            let reason = format!(
                "{}{flavor} has no image {}",
                passed_over(&containers.engine),
                missing.join(", ")
            );
            return fall_back(config, &reason);
        }
    }
    // Only for containers: tools on this machine find these files by themselves.
    containers.admitted = config.admitted()?;
    Ok(SidecarBackend::Containers(Box::new(containers)))
}

/// `docker does not answer: REASON; `, if another engine would have been taken first.
pub(crate) fn passed_over(engine: &Engine) -> String {
    let reason = engine.passed_over().and_then(|reason| reason.lines().next());
    reason.map(|reason| format!("{reason}; ")).unwrap_or_default()
}

/// Returns the containers that kinds are attached to, and their engine.
pub(crate) async fn attached(
    config: &Config,
    backend: &SidecarBackend,
    programs: &TrustedPrograms,
) -> anyhow::Result<Option<Attachments>> {
    let configured = &config.kinds.attached;
    if configured.is_empty() {
        return Ok(None);
    }
    let engine = match backend {
        SidecarBackend::Containers(containers) => containers.engine.clone(),
        // Other kinds may run as processes of this machine.
        SidecarBackend::Local => Engine::find(Choice::Any, programs)
            .await
            .context("cannot attach to a container\nhint: start the engine that runs it")?,
    };
    let of_session =
        configured.iter().filter(|(kind, _)| config.toolchains.value.find(kind).is_some());
    let containers = of_session.map(|(kind, name)| (kind.clone(), name.value.clone()));
    Ok(Some(Attachments { engine, containers: containers.collect() }))
}

/// Falls back to processes of this machine and logs the reason, since the user may rely on containers.
/// `--quiet` suppresses the line.
fn fall_back(config: &Config, reason: &str) -> anyhow::Result<SidecarBackend> {
    let backend = local(config, reason)?;
    let reason = reason.split("\nhint:").next().unwrap_or_default();
    tracing::info!(target: console::PROGRESS, "{reason}; tools run as processes of this machine");
    Ok(backend)
}

/// Returns the local backend. Errors: a flag was given that only containers support.
fn local(config: &Config, reason: &str) -> anyhow::Result<SidecarBackend> {
    if let Some(flag) = config.container_flag() {
        bail!(
            "{flag} needs containers, but there are none: {reason}\n\
             hint: omit it, or choose an engine with --backend docker or podman"
        );
    }
    if config.net.value == Net::None {
        tracing::warn!(
            "containers.net = \"none\" ({}) has no effect: tools run as processes of this machine",
            config.net.source
        );
    }
    Ok(SidecarBackend::Local)
}

/// Applies the versions that the project's files request, if the configuration sets none and the engine
/// has the image. A missing image is no error.
async fn follow_project(containers: &mut Containers, config: &Config, workspace: &Path) {
    for toolchain in &config.toolchains.value.list {
        let kind = &toolchain.kind;
        let is_given =
            containers.images.named.contains_key(kind) || config.kinds.attached.contains_key(kind);
        if toolchain.version.is_some() || is_given {
            continue;
        }
        let Some(version) = project_version(kind, workspace) else { continue };
        let usual = containers.images.of(kind);
        containers.images.versions.insert(kind.clone(), version.to_string());
        let image = containers.images.of(kind);
        if !containers.engine.has_image(&image).await {
            containers.images.versions.remove(kind);
            tracing::info!("no image '{image}' for the project's {kind}; using '{usual}'");
        }
    }
}

/// The hint for an engine that does not answer: `usual`, or the socket's permissions.
fn remedy(error: &EngineError, usual: &'static str) -> &'static str {
    match error.to_string().to_ascii_lowercase().contains("permission denied") {
        true => "join the group that owns the engine's socket, or use podman or a rootless docker",
        false => usual,
    }
}

/// Prints the engine commands of a session with this configuration.
pub(crate) async fn show_plan(config: &SessionConfig) -> anyhow::Result<ExitCode> {
    let commands = aifo_launch::plan(config).await?;
    if commands.is_empty() {
        console::say("no engine needed: tools run as processes of this machine");
    }
    let lines: String = commands.iter().map(|command| format!("{command}\n")).collect();
    paint::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the container settings of the configuration.
pub(crate) fn containers(engine: Engine, config: &Config) -> Containers {
    let mut containers = Containers::of(engine);
    let named = config.kinds.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
    let asked = config.toolchains.value.list.iter().filter_map(|toolchain| {
        Some((toolchain.kind.clone(), toolchain.version.as_ref()?.to_string()))
    });
    containers.images = Images {
        prefix: config.image_prefix.value.clone(),
        tag: config.image_tag.value.clone(),
        named: named.collect(),
        versions: asked.collect(),
    };
    containers.net = config.net.value;
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
