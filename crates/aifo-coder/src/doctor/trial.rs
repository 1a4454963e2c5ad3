//! A session of our own, in which tools are called as an agent calls them: what comes of it is
//! measured, then it is taken down.

mod calls;

use aifo_launch::{
    CacheScope, CallLogs, Containers, Engine, Flavor, LaunchError, Net, Session, SessionConfig,
    SidecarBackend,
};
use aifo_types::{Kind, ToolName};

use self::calls::{Calls, Measured};
use super::CheckContext;
use super::report::Finding;
use crate::backend;

pub(super) async fn local(context: &CheckContext) -> Vec<Finding> {
    if context.wanted_engine().is_some() {
        return Vec::new();
    }
    match measure(context, SidecarBackend::Local).await {
        Ok(measured) => measured.findings("local"),
        Err(error) => vec![Finding::failure("local", &error, "see what it says")],
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
    let fix = "build ours with 'cargo xtask images build', or pull one";
    match lacking[..] {
        [] => vec![Finding::warn(check, "there is no image at all, so nothing was measured", fix)],
        _ => {
            let text = format!("nothing was measured: {} has no 'true'", lacking.join(", "));
            vec![Finding::warn(check, text, fix)]
        }
    }
}

/// What helps where the engine's own words do not.
fn remedy(error: &TrialError) -> &'static str {
    if error.to_string().contains("rlimit") {
        return "raise the hard limit on open files, or set default_ulimits in containers.conf";
    }
    "see what the engine says to the same by hand"
}

/// Images that can be tried: those of the toolchains, then any.
async fn candidates(engine: &Engine, context: &CheckContext) -> Vec<String> {
    let ours = backend::containers(engine.clone(), &context.config).images;
    let mut images = Vec::new();
    for kind in context.config.toolchains.value.kinds() {
        let image = ours.of(&kind);
        if engine.has_image(&image).await {
            images.push(image);
        }
    }
    let list = engine.command().args(["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"]);
    let told = engine.output(&list).await.unwrap_or_default();
    let told = String::from_utf8_lossy(&told).into_owned();
    images.extend(told.lines().filter(|image| !image.contains("<none>")).map(str::to_owned));
    images.truncate(MAX_IMAGES);
    images
}

/// Some images hold one program and nothing else; not all of them can be tried in time.
const MAX_IMAGES: usize = 3;

/// The kind that is only ours, for tools that no other kind has.
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
    config.call_logs = CallLogs::WithSession;
    let pids = match &backend {
        SidecarBackend::Local => None,
        SidecarBackend::Containers(containers) => containers.limits.pids,
    };
    config.backend = backend;
    let session = Session::start(config).await?;
    let calls = Calls::of(&session, shim.path(), &context.workspace, pids);
    // The session is served by this thread, so whoever calls has one of its own.
    let measured = tokio::task::spawn_blocking(move || calls.measure()).await;
    session.close().await;
    measured.map_err(|_| TrialError::Lost)
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("without aifo-shim nothing can be measured\nhint: see 'versions'")]
    NoShim,
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("the calls were not made to their end\nhint: see what was said before")]
    Lost,
}
