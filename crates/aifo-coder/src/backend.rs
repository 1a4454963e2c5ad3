//! Which backend a session gets.

use std::path::Path;
use std::process::ExitCode;

use aifo_launch::{
    Attachments, Choice, Containers, Engine, EngineError, Images, SessionConfig, SidecarBackend,
    TrustedPrograms, missing_images, project_version,
};
use aifo_types::Kind;
use anyhow::{Context, bail};

use crate::config::{Backend, Config};
use crate::{console, paint};

/// What `auto` may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Processes of this machine, if there are no containers.
    Local,
    /// Nothing: the agent is to be in a container, so its tools are as well.
    None,
}

/// The backend that the configuration asks for. What was asked for by name and cannot be had is an
/// error; `auto` takes containers if an engine answers and has every image, or somebody named it.
pub(crate) async fn choose(
    config: &Config,
    workspace: &Path,
    fallback: Fallback,
    programs: &TrustedPrograms,
) -> anyhow::Result<SidecarBackend> {
    let requested = config.containers.backend.value;
    let Some(choice) = requested.engine() else {
        return local(config, "the backend is local");
    };
    let engine = match Engine::find(choice, programs).await {
        Ok(engine) => engine,
        Err(error) if requested == Backend::Auto && fallback == Fallback::None => bail!(
            "{error}\n\
             hint: {}; or run the agent on this machine, which isolates nothing of it, with \
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
        let configured = &config.containers;
        let needs_none = |kind: &Kind| {
            configured.images.contains_key(kind) || configured.attached.contains_key(kind)
        };
        let unnamed: Vec<Kind> = kinds.filter(|kind| !needs_none(kind)).collect();
        let missing = missing_images(&containers, &unnamed).await;
        if !missing.is_empty() {
            let flavor = containers.engine.flavor();
            let reason = format!("{flavor} has no image {}", missing.join(", "));
            return fall_back(config, &reason);
        }
    }
    // Only now: as processes of this machine, tools find these things by themselves.
    containers.admitted = config.containers.registries.admitted()?;
    Ok(SidecarBackend::Containers(Box::new(containers)))
}

/// The containers that kinds are attached to, and the engine that runs them.
pub(crate) async fn attached(
    config: &Config,
    backend: &SidecarBackend,
    programs: &TrustedPrograms,
) -> anyhow::Result<Option<Attachments>> {
    let configured = &config.containers.attached;
    if configured.is_empty() {
        return Ok(None);
    }
    let engine = match backend {
        SidecarBackend::Containers(containers) => containers.engine.clone(),
        // The others may well be processes of this machine.
        SidecarBackend::Local => Engine::find(Choice::Any, programs)
            .await
            .context("no container can be attached\nhint: start the engine that runs it")?,
    };
    let of_session =
        configured.iter().filter(|(kind, _)| config.toolchains.value.find(kind).is_some());
    let containers = of_session.map(|(kind, name)| (kind.clone(), name.value.clone()));
    Ok(Some(Attachments { engine, containers: containers.collect() }))
}

/// Takes processes of this machine in place of containers that cannot be had, and says so and why: the
/// user may rely on containers. `--quiet` is the wish not to read it.
fn fall_back(config: &Config, reason: &str) -> anyhow::Result<SidecarBackend> {
    let backend = local(config, reason)?;
    let reason = reason.split("\nhint:").next().unwrap_or_default();
    tracing::info!(target: console::PROGRESS, "{reason}; tools run as processes of this machine");
    Ok(backend)
}

/// Processes of this machine, for this reason. Errors: a flag asks for something that only containers
/// can do.
fn local(config: &Config, reason: &str) -> anyhow::Result<SidecarBackend> {
    if let Some(flag) = config.containers.container_flag() {
        bail!(
            "{flag} holds for containers only, and there are none: {reason}\n\
             hint: leave it out, or choose an engine with --backend docker or podman"
        );
    }
    Ok(SidecarBackend::Local)
}

/// Takes the versions that the project's files ask for, where nobody else does and the engine has such
/// an image: they are the project's wish, and no reason to start nothing.
async fn follow_project(containers: &mut Containers, config: &Config, workspace: &Path) {
    for toolchain in &config.toolchains.value.list {
        let kind = &toolchain.kind;
        let is_given = containers.images.named.contains_key(kind)
            || config.containers.attached.contains_key(kind);
        if toolchain.version.is_some() || is_given {
            continue;
        }
        let Some(version) = project_version(kind, workspace) else { continue };
        let usual = containers.images.of(kind);
        containers.images.versions.insert(kind.clone(), version.to_string());
        let image = containers.images.of(kind);
        if !containers.engine.has_image(&image).await {
            containers.images.versions.remove(kind);
            tracing::info!(
                "there is no image '{image}' for the project's {kind}, taking '{usual}'"
            );
        }
    }
}

/// What may help against an engine that does not answer: `usual`, unless it runs and is for others.
fn remedy(error: &EngineError, usual: &'static str) -> &'static str {
    match error.to_string().to_ascii_lowercase().contains("permission denied") {
        true => "join the group that owns the engine's socket, or use podman or a rootless docker",
        false => usual,
    }
}

/// Prints the commands that a session of this configuration would give to its engine.
pub(crate) fn show_plan(config: &SessionConfig) -> anyhow::Result<ExitCode> {
    let commands = aifo_launch::plan(config)?;
    if commands.is_empty() {
        console::say("no engine is needed: tools run as processes of this machine");
    }
    let lines: String = commands.iter().map(|command| format!("{command}\n")).collect();
    paint::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// What the configuration says about containers.
pub(crate) fn containers(engine: Engine, config: &Config) -> Containers {
    let configured = &config.containers;
    let mut containers = Containers::of(engine);
    let named = configured.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
    let asked = config.toolchains.value.list.iter().filter_map(|toolchain| {
        Some((toolchain.kind.clone(), toolchain.version.as_ref()?.to_string()))
    });
    containers.images = Images {
        prefix: configured.image_prefix.value.clone(),
        tag: configured.image_tag.value.clone(),
        named: named.collect(),
        versions: asked.collect(),
    };
    containers.net = configured.net.value;
    containers.publish.clone_from(&configured.publish.value);
    containers.pools.clone_from(&configured.pools.value);
    let limits = &mut containers.limits;
    if let Some(memory) = configured.memory.value {
        limits.memory = Some(memory).filter(|memory| *memory > 0);
    }
    if let Some(pids) = configured.pids.value {
        limits.pids = Some(pids).filter(|pids| *pids > 0);
    }
    limits.cpus = configured.cpus.value;
    containers
}
