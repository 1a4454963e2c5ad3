//! Which backend a session gets.

use std::collections::HashMap;
use std::process::ExitCode;

use aifo_launch::{
    Containers, Engine, EngineError, Images, SessionConfig, SidecarBackend, missing_images,
};
use aifo_types::Kind;

use crate::config::{Backend, Config};
use crate::paint;

/// The backend that the configuration asks for. What was asked for by name and cannot be had is an
/// error; `auto` takes containers if an engine answers and has every image, or somebody named it.
pub(crate) async fn choose(config: &Config) -> anyhow::Result<SidecarBackend> {
    let wanted = config.containers.backend.value;
    let Some(choice) = wanted.engine() else { return Ok(SidecarBackend::Local) };
    let engine = match Engine::find(choice).await {
        Ok(engine) => engine,
        Err(EngineError::NotFound(_)) if wanted == Backend::Auto => {
            return Ok(SidecarBackend::Local);
        }
        Err(error) if wanted == Backend::Auto => {
            tracing::info!("{error}; tools run as processes of this machine");
            return Ok(SidecarBackend::Local);
        }
        Err(error) => {
            return Err(anyhow::Error::from(error).context(
                "no containers can be had\nhint: start the engine, or run tools as processes of this \
                 machine with --backend local",
            ));
        }
    };
    let containers = containers(engine, config);
    if wanted == Backend::Auto {
        let kinds = config.toolchains.value.iter();
        let unnamed: Vec<Kind> =
            kinds.filter(|kind| !config.containers.images.contains_key(*kind)).cloned().collect();
        let missing = missing_images(&containers, &unnamed).await;
        if !missing.is_empty() {
            tracing::info!(
                "{} has no image {}; tools run as processes of this machine",
                containers.engine.flavor(),
                missing.join(", ")
            );
            return Ok(SidecarBackend::Local);
        }
    }
    Ok(SidecarBackend::Containers(Box::new(containers)))
}

/// Prints the commands that a session of this configuration would give to its engine.
pub(crate) fn show_plan(config: &SessionConfig) -> anyhow::Result<ExitCode> {
    let commands = aifo_launch::plan(config)?;
    if commands.is_empty() {
        eprintln!("aifo-coder: no engine is needed: tools run as processes of this machine");
    }
    let lines: String = commands.iter().map(|command| format!("{command}\n")).collect();
    paint::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// What the configuration says about containers.
fn containers(engine: Engine, config: &Config) -> Containers {
    let told = &config.containers;
    let mut containers = Containers::of(engine);
    let named = told.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
    containers.images = Images {
        prefix: told.image_prefix.value.clone(),
        tag: told.image_tag.value.clone(),
        named: named.collect(),
        versions: HashMap::new(),
    };
    containers.net = told.net.value;
    containers.publish.clone_from(&told.publish.value);
    containers.caches = told.caches();
    let limits = &mut containers.limits;
    if let Some(memory) = told.memory.value {
        limits.memory = Some(memory).filter(|memory| *memory > 0);
    }
    if let Some(pids) = told.pids.value {
        limits.pids = Some(pids).filter(|pids| *pids > 0);
    }
    limits.cpus = told.cpus.value;
    containers
}
