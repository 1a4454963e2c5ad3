//! Decides the images of toolchains that the user configured none for: by the project's devcontainer and
//! by the versions that the user or its files request (`spec/cli.md#versions`).

use std::path::Path;

use aifo_host::{Devcontainer, Toolchain};
use aifo_types::Kind;

use crate::backend::Containers;
use crate::pins::{ImageDecision, ImageReason, decide_image};

/// The questions and reports of a decision. The default methods ask, pull and report nothing.
pub trait ImageDialogue {
    /// Asks the user whether to use the image of a devcontainer, and records the answer. `None` if the
    /// user cannot answer.
    fn ask(&mut self, _devcontainer: &Devcontainer) -> Option<bool> {
        None
    }

    /// Returns whether a missing official image is pulled.
    fn may_pull(&self) -> bool {
        false
    }

    /// Reports the begin, a line, or with `None` the end of a pull.
    fn report_pull(&mut self, _decision: &ImageDecision, _line: Option<&str>) {}

    /// Reports that the image of a kind was decided.
    fn report_decision(&mut self, _decision: &ImageDecision) {}
}

/// Asks, pulls and reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDialogue;

impl ImageDialogue for NoDialogue {}

/// The decisions for the toolchains of a session.
#[derive(Debug)]
pub struct ToolchainImages {
    /// The kinds that the user configured neither an image nor a version for.
    kinds: Vec<Kind>,
    /// The image of the project's devcontainer, and the user's answer.
    pub devcontainer: Option<(Devcontainer, Option<bool>)>,
    /// The decisions by versions; only those of the user's if the devcontainer's image is used.
    pub decisions: Vec<ImageDecision>,
}

impl ToolchainImages {
    /// Decides the images of these toolchains. Pulls nothing.
    pub async fn decide(
        containers: &Containers,
        toolchains: &[Toolchain],
        workspace: &Path,
        dialogue: &mut impl ImageDialogue,
    ) -> Self {
        let kinds = toolchains.iter().filter(|toolchain| toolchain.version.is_none());
        let kinds: Vec<Kind> = kinds.map(|toolchain| toolchain.kind.clone()).collect();
        let devcontainer = if kinds.is_empty() { None } else { Devcontainer::of(workspace) };
        let devcontainer = devcontainer.map(|it| {
            let answer = it.answer().or_else(|| dialogue.ask(&it));
            (it, answer)
        });
        let mut images = ToolchainImages { kinds, devcontainer, decisions: Vec::new() };
        let has_agreed = images.agreed().is_some();
        let Containers { engine, images: names, .. } = containers;
        for toolchain in toolchains.iter().filter(|it| !has_agreed || it.version.is_some()) {
            images.decisions.push(decide_image(engine, names, toolchain, workspace).await);
        }
        images
    }

    /// Returns the image of the devcontainer that the user agreed to use.
    fn agreed(&self) -> Option<&str> {
        match &self.devcontainer {
            Some((devcontainer, Some(true))) => Some(&devcontainer.image),
            _ => None,
        }
    }

    /// Returns whether a kind has an image: another than its usual one, or one that is pulled.
    pub(crate) fn is_found(&self, kind: &Kind, may_pull: bool) -> bool {
        let of_kind = self.decisions.iter().find(|decision| decision.kind == *kind);
        match of_kind.map(|decision| &decision.reason) {
            Some(ImageReason::Pullable { .. }) => may_pull,
            Some(reason) => matches!(reason, ImageReason::Tag | ImageReason::Official),
            None => self.agreed().is_some() && self.kinds.contains(kind),
        }
    }

    /// Sets the images of containers. Pulls missing official ones if the dialogue permits it. Errors: no
    /// image has a version that the user requests.
    pub(crate) async fn apply(
        self,
        containers: &mut Containers,
        dialogue: &mut impl ImageDialogue,
    ) -> Result<(), Box<ImageDecision>> {
        if let Some(image) = self.agreed().map(str::to_owned) {
            let named = self.kinds.into_iter().map(|kind| (kind, image.clone()));
            containers.images.named.extend(named);
        }
        for mut decision in self.decisions {
            let may_pull = !containers.images.never_pulled.contains(&decision.kind);
            if !may_pull && decision.lacks_version_of_user() {
                // Its first call is refused.
                continue;
            }
            let is_pullable = matches!(decision.reason, ImageReason::Pullable { .. });
            if is_pullable && may_pull && dialogue.may_pull() {
                let before = decision.clone();
                dialogue.report_pull(&before, Some(""));
                let progress = |line: &str| dialogue.report_pull(&before, Some(line));
                decision = decision.pulled(&containers.engine, progress).await;
                dialogue.report_pull(&decision, None);
            }
            if decision.lacks_version_of_user() {
                return Err(Box::new(decision));
            }
            dialogue.report_decision(&decision);
            if decision.reason != ImageReason::Usual {
                containers.images.named.insert(decision.kind, decision.image);
            }
        }
        Ok(())
    }
}
