//! A trial session: calls tools as an agent does, measures them, and ends the session.

use std::path::Path;

use aifo_engine::{Engine, Flavor};
use aifo_launch::trial::{self, Measured, Trial, TrialError};
use aifo_launch::{Containers, SidecarBackend};
use aifo_sidecar::Net;
use aifo_types::Finding;

use super::CheckContext;

pub(super) async fn local(context: &CheckContext) -> Vec<Finding> {
    if context.named_engine().is_some() || context.is_cluster() {
        return Vec::new();
    }
    match measure(context, SidecarBackend::Local).await {
        Ok(measured) => measured.findings("local"),
        Err(error) => {
            vec![Finding::failure("local", &error, "resolve this error, then run the doctor again")]
        }
    }
}

pub(super) async fn docker(context: &CheckContext) -> Vec<Finding> {
    in_containers(context, Flavor::Docker).await
}

pub(super) async fn podman(context: &CheckContext) -> Vec<Finding> {
    in_containers(context, Flavor::Podman).await
}

async fn in_containers(context: &CheckContext, flavor: Flavor) -> Vec<Finding> {
    let Some(engine) = context.answering().filter(|engine| engine.flavor() == flavor) else {
        return Vec::new();
    };
    let check = format!("{flavor} trial");
    let images = candidates(engine, context).await;
    let mut lacking = Vec::new();
    let mut findings = Vec::new();
    let mut net = match context.config.net.value {
        net if net.is_by_name() => net,
        // Podman's networks need programs that are often missing; docker has started with its network.
        net if flavor == Flavor::Podman => net,
        _ => Net::None,
    };
    for image in images {
        let containers = |net| {
            let mut containers = Containers::of(engine.clone());
            containers.images.named.insert(trial::kind(), image.clone());
            containers.pools.clone_from(&context.config.pools.value);
            containers.net = net;
            SidecarBackend::Containers(Box::new(containers))
        };
        let mut measured = measure(context, containers(net)).await;
        let network = format!("{flavor} network");
        match &measured {
            Err(error) if net != Net::None => {
                findings.push(Finding::failure(network, error, network_remedy(net, error)));
                net = Net::None;
                measured = measure(context, containers(net)).await;
            }
            Ok(_) if net != Net::None && findings.is_empty() => {
                findings.push(Finding::ok(
                    network,
                    match net.is_by_name() {
                        true => "a container with a network by name starts",
                        false => "a container with a network starts",
                    },
                ));
            }
            _ => {}
        }
        match measured {
            Ok(measured) if !measured.has_cost() => lacking.push(image),
            Ok(measured) => {
                findings.extend(measured.findings(&format!("{flavor} ({image})")));
                return findings;
            }
            Err(error) => {
                findings.push(Finding::failure(check, &error, remedy(&error)));
                return findings;
            }
        }
    }
    let build = format!("aifo-coder images build {}", flavor.build_option());
    let fix = format!("build one with '{}', or pull one", build.trim_end());
    let text = match lacking[..] {
        [] => "no images found; nothing was measured".to_owned(),
        _ => format!("nothing was measured: no 'true' in {}", lacking.join(", ")),
    };
    findings.push(Finding::warn(check, text, fix));
    findings
}

/// A remedy for errors of engines that contain none.
fn remedy(error: &TrialError) -> &'static str {
    if error.to_string().contains("rlimit") {
        return "raise the hard limit on open files, or set default_ulimits in containers.conf";
    }
    "run the failed command in a terminal"
}

fn network_remedy(net: Net, error: &TrialError) -> &'static str {
    match error.to_string().contains("rlimit") {
        true => remedy(error),
        false if net.is_by_name() => "use --net open, or --net none",
        false => "install netavark and passt, or use --net none",
    }
}

/// Returns images for the trial: those of the toolchains, then any.
async fn candidates(engine: &Engine, context: &CheckContext) -> Vec<String> {
    let images_of_kinds = context.config.containers(engine.clone()).images;
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

async fn measure(context: &CheckContext, backend: SidecarBackend) -> Result<Measured, TrialError> {
    // Without a project, as in the home directory, this machine is measured all the same.
    let has_workspace = context.has_project() || context.workspace != Path::new(".");
    let workspace = has_workspace.then_some(context.workspace.as_path());
    Trial { shim: context.shim.as_ref().ok(), workspace, backend }.run().await
}
