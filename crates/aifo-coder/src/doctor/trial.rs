//! A trial session: calls tools as an agent does, measures them, and ends the session.

mod calls;

use aifo_launch::{
    CacheScope, CallLogRetention, Containers, Engine, Flavor, LaunchError, Net, Session,
    SessionConfig, SidecarBackend,
};
use aifo_types::{Kind, ToolName};

use self::calls::{Calls, Measured};
use super::CheckContext;
use super::report::Finding;
use crate::backend;

pub(super) async fn local(context: &CheckContext) -> Vec<Finding> {
    if context.named_engine().is_some() {
        return Vec::new();
    }
    match measure(context, SidecarBackend::Local).await {
        Ok(measured) => measured.findings("local"),
        Err(error) => vec![Finding::failure("local", &error, "see the error")],
    }
}

pub(super) async fn docker(context: &CheckContext) -> Vec<Finding> {
    in_containers(context, Flavor::Docker).await
}

pub(super) async fn podman(context: &CheckContext) -> Vec<Finding> {
    in_containers(context, Flavor::Podman).await
}

async fn in_containers(context: &CheckContext, flavor: Flavor) -> Vec<Finding> {
    let Some(engine) = context.answering().find(|engine| engine.flavor() == flavor) else {
        return Vec::new();
    };
    let check = format!("{flavor} trial");
    let images = candidates(engine, context).await;
    let mut lacking = Vec::new();
    for image in images {
        let mut containers = Containers::of(engine.clone());
        containers.images.named.insert(kind(), image.clone());
        containers.net = Net::None;
        match measure(context, SidecarBackend::Containers(Box::new(containers))).await {
            Ok(Measured { cost: None, .. }) => lacking.push(image),
            Ok(measured) => return measured.findings(&format!("{flavor} ({image})")),
            Err(error) => return vec![Finding::failure(check, &error, remedy(&error))],
        }
    }
    let fix = "build one with 'aifo-coder images build', or pull one";
    match lacking[..] {
        [] => vec![Finding::warn(check, "no images found; nothing was measured", fix)],
        _ => {
            let text = format!("nothing was measured: no 'true' in {}", lacking.join(", "));
            vec![Finding::warn(check, text, fix)]
        }
    }
}

/// A remedy for errors of engines that contain none.
fn remedy(error: &TrialError) -> &'static str {
    if error.to_string().contains("rlimit") {
        return "raise the hard limit on open files, or set default_ulimits in containers.conf";
    }
    "run the engine's command by hand"
}

/// Returns images for the trial: those of the toolchains, then any.
async fn candidates(engine: &Engine, context: &CheckContext) -> Vec<String> {
    let images_of_kinds = backend::containers(engine.clone(), &context.config).images;
    let mut images = Vec::new();
    for kind in context.config.toolchains.value.kinds() {
        let image = images_of_kinds.of(&kind);
        if engine.has_image(&image).await {
            images.push(image);
        }
    }
    let list = engine.command().args(["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"]);
    let listed = engine.output(&list).await.unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    images.extend(listed.lines().filter(|image| !image.contains("<none>")).map(str::to_owned));
    images.truncate(MAX_IMAGES);
    images
}

/// Some images hold a single program, and time does not allow to try all.
const MAX_IMAGES: usize = 3;

/// A kind for the trial only.
fn kind() -> Kind {
    Kind::parse("doctor").unwrap_or_else(|_| Kind::host())
}

async fn measure(context: &CheckContext, backend: SidecarBackend) -> Result<Measured, TrialError> {
    let shim = context.shim.as_ref().map_err(|_| TrialError::NoShim)?;
    let mut config = SessionConfig::new(&context.workspace, shim.clone());
    config.toolchains = vec![kind().into()];
    let tools = calls::TOOLS.iter().filter_map(|tool| ToolName::parse(tool.as_bytes()).ok());
    config.policy.allow(&kind(), tools);
    config.caches = CacheScope::None;
    config.call_logs = CallLogRetention::SessionOnly;
    let pids = match &backend {
        SidecarBackend::Local => None,
        SidecarBackend::Containers(containers) => containers.limits.pids,
    };
    config.backend = backend;
    let session = Session::start(config).await?;
    let calls = Calls::of(&session, shim.path(), &context.workspace, pids);
    // This thread serves the session, so the calls are made on another one.
    let measured = tokio::task::spawn_blocking(move || calls.measure()).await;
    session.close().await;
    measured.map_err(|_| TrialError::Lost)
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("cannot measure without aifo-shim\nhint: see 'versions'")]
    NoShim,
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("trial calls did not complete\nhint: see the messages above")]
    Lost,
}
