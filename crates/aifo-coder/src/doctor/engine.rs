//! Checks of container engines and their images.

use aifo_engine::{Engine, EngineStatus};
use aifo_launch::BackendChoice;
use aifo_types::Finding;

use super::CheckContext;

pub(super) fn engines(context: &CheckContext) -> Vec<Finding> {
    let of = |status: &EngineStatus| match context.is_unused(status) {
        true => {
            let flavor = status.flavor;
            let text = format!("not used; to check it: aifo-coder doctor --backend {flavor}");
            vec![Finding::ok(flavor.to_string(), text)]
        }
        false => status.findings(),
    };
    let mut findings: Vec<_> = context.engines.iter().flat_map(of).collect();
    if let Some(flavor) = context.named_engine().filter(|_| findings.is_empty()) {
        let fix = format!("install {flavor}, or use another --backend");
        findings.push(Finding::fail(flavor.to_string(), "not found in PATH", fix));
    }
    if findings.is_empty() && context.config.backend.value == BackendChoice::Auto {
        findings.push(Finding::warn(
            "engines",
            "found neither docker nor podman in PATH; tools run as processes of this machine",
            "install one of them to isolate tools from your files",
        ));
    }
    findings
}

/// Checks the images of the session's kinds.
pub(super) async fn images(context: &CheckContext) -> Vec<Finding> {
    match context.answering() {
        Some(engine) => images_of(engine, context).await.into_iter().collect(),
        None => Vec::new(),
    }
}

async fn images_of(engine: &Engine, context: &CheckContext) -> Option<Finding> {
    let kinds: Vec<_> =
        context.config.toolchains.value.initial().map(|it| it.kind.clone()).collect();
    let containers = context.config.containers(engine.clone());
    let missing = containers.missing_images(&kinds).await;
    let missing: Vec<_> = missing.into_iter().map(|(_, image)| image).collect();
    let check = format!("{} images", engine.flavor());
    match (kinds.len(), missing.as_slice()) {
        (0, _) => None,
        (count, []) => Some(Finding::ok(check, format!("present for all {count} toolchains"))),
        (_, missing) => Some(Finding::warn(
            check,
            format!("missing: {}", missing.join(", ")),
            format!(
                "build them with '{}', or name others with --toolchain-image",
                format!("aifo-coder images build {}", engine.flavor().build_option()).trim_end()
            ),
        )),
    }
}
