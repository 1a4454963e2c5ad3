//! The image of each toolchain, and what decided it.

use std::path::Path;

use aifo_engine::{Engine, EngineError};
use aifo_host::Toolchain;
use aifo_launch::{ImageDecision, ImageReason, NoDialogue, ToolchainImages};
use aifo_types::{Kind, escape_line};
use serde::Serialize;

use crate::table::Config;

/// A toolchain's image.
#[derive(Debug, Serialize)]
pub struct ToolchainExplanation {
    kind: String,
    /// `None` if its tools run on this machine or in a container of the user.
    image: Option<String>,
    /// The version that the user or the project requests.
    version: Option<String>,
    /// A sentence.
    because: String,
}

/// Returns the image of each toolchain that starts with a session in a workspace. Errors: no engine is found.
pub async fn explain_toolchains(
    config: &Config,
    workspace: &Path,
) -> Result<Vec<ToolchainExplanation>, EngineError> {
    let toolchains = config.toolchains.value.initial();
    let Some(choice) = config.backend.value.engine() else {
        let local = toolchains.map(|toolchain| ToolchainExplanation {
            kind: toolchain.kind.to_string(),
            image: None,
            version: None,
            because: "the backend is local: the version on this machine runs".to_owned(),
        });
        return Ok(local.collect());
    };
    let programs = config.trusted_programs(workspace);
    let engine = Engine::find(choice, &programs).await?;
    let containers = config.containers(engine);
    let is_named = |kind: &Kind| {
        config.kinds.images.contains_key(kind) || config.kinds.attached.contains_key(kind)
    };
    let free: Vec<Toolchain> =
        toolchains.clone().filter(|toolchain| !is_named(&toolchain.kind)).cloned().collect();
    let images = ToolchainImages::decide(&containers, &free, workspace, &mut NoDialogue).await;
    let of_devcontainer = images.devcontainer.as_ref().map(|(devcontainer, answer)| {
        let again = devcontainer.record_path().map_or_else(String::new, |path| {
            format!("; to be asked again, remove '{}'", path.display())
        });
        let image = &devcontainer.image;
        match answer {
            Some(true) => format!("the project's devcontainer names it, as you agreed{again}"),
            Some(false) => format!("; you declined '{image}' of the project's devcontainer{again}"),
            None => format!(
                "; the project's devcontainer names '{image}', and a session on a terminal asks \
                 whether to use it"
            ),
        }
    });
    let explained = toolchains.map(|toolchain| {
        let kind = &toolchain.kind;
        let named = config.kinds.images.get(kind).map(|image| image.source.to_string());
        let decision = images.decisions.iter().find(|decision| decision.kind == *kind);
        let version = match decision {
            Some(decision) => decision.requested.as_ref().map(|it| it.version.to_string()),
            None => toolchain.version.as_ref().map(ToString::to_string),
        };
        let usual = Some(containers.images.of(kind));
        let of_devcontainer = of_devcontainer.as_deref().unwrap_or_default();
        let (image, because) = match (config.kinds.attached.get(kind), named, decision) {
            (Some(name), ..) => (None, format!("it runs in your container '{}'", name.value)),
            (None, Some(source), _) => (usual, format!("it is named by {source}")),
            (None, None, Some(decision)) => {
                let of_devcontainer =
                    if toolchain.version.is_some() { "" } else { of_devcontainer };
                (Some(decision.image.clone()), because(decision) + of_devcontainer)
            }
            (None, None, None) => {
                let image = images.devcontainer.as_ref().map(|(it, _)| it.image.clone());
                (image, of_devcontainer.to_owned())
            }
        };
        ToolchainExplanation { kind: kind.to_string(), image, version, because }
    });
    Ok(explained.collect())
}

impl ToolchainExplanation {
    /// Returns its lines, with control characters escaped.
    pub fn text(&self) -> String {
        let image = self.image.as_deref().unwrap_or("none");
        let lines = [("toolchain", &*self.kind), ("image", image), ("because", &self.because)];
        let line = |(key, value): (&str, &str)| {
            format!("{:<12}{}\n", format!("{key}:"), escape_line(value))
        };
        lines.map(line).concat()
    }
}

/// Returns the reason for an image, in a sentence.
fn because(decision: &ImageDecision) -> String {
    let Some(request) = decision.request() else {
        return "no file of the project requests a version".to_owned();
    };
    let rest = match &decision.reason {
        ImageReason::Usual => "the usual image is taken for a channel".to_owned(),
        ImageReason::Tag => "this image has it as its tag".to_owned(),
        ImageReason::Contains(version) => format!("this image has {version}"),
        ImageReason::Official => "the official image is on this machine".to_owned(),
        ImageReason::Pulled => "the official image was pulled".to_owned(),
        ImageReason::Pullable { .. } => "a session pulls the official image".to_owned(),
        ImageReason::Unavailable { .. } => {
            return decision.unavailable().unwrap_or_default().replace("\nhint: ", "; ");
        }
    };
    format!("{request}; {rest}")
}
