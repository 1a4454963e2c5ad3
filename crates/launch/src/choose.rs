//! Chooses the backend of a session (`spec/containers.md#choosing`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use aifo_engine::{Choice, Engine, EngineError, Flavor, Programs};
use aifo_host::{PodError, PodSession, Toolchain};
use aifo_types::Kind;

use crate::attachments::Attachments;
use crate::backend::{Containers, MissingImage, SidecarBackend};
use crate::pins::ImageDecision;
use crate::toolchain_images::{ImageDialogue, ToolchainImages};

/// The requested backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// In containers if an engine answers and has an image, else by the [`Fallback`].
    Auto,
    /// In containers of this engine.
    Engine(Flavor),
    /// As child processes.
    Local,
    /// In containers of the launcher's pod.
    Pod,
    /// In containers of a pod that another launcher of this program runs in.
    Kubernetes,
}

impl BackendChoice {
    /// Returns the engines to use; `None` for the local backend.
    pub fn engine(self) -> Option<Choice> {
        match self {
            BackendChoice::Auto => Some(Choice::Any),
            BackendChoice::Engine(flavor) => Some(Choice::Only(flavor)),
            BackendChoice::Local | BackendChoice::Pod | BackendChoice::Kubernetes => None,
        }
    }
}

/// The backend of [`BackendChoice::Auto`] without containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Processes of this machine.
    Local,
    /// An error: the agent needs a container, and so do its tools.
    None,
}

/// Errors of a choice.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The engine is not available.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The launcher is not in a pod.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A command cannot start a session in a cluster.
    #[error(
        "this command starts sessions on this machine only\n\
         hint: name a backend of this machine with --backend docker, podman or local; sessions in a \
         cluster start with: aifo-coder run --backend kubernetes"
    )]
    Kubernetes,
    /// No image has a version that the user requests.
    #[error("{}", .0.unavailable().unwrap_or_default())]
    Version(Box<ImageDecision>),
}

/// The settings that a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct BackendRequest<'a> {
    /// The requested backend.
    pub choice: BackendChoice,
    /// The alternative of `Auto`.
    pub fallback: Fallback,
    /// The project root.
    pub workspace: &'a Path,
    /// The session toolchains, whose versions select images.
    pub toolchains: &'a [Toolchain],
    /// Those of them that need an image only when they are called.
    pub on_demand: &'a BTreeSet<Kind>,
    /// Whether the project's files show them; those whose image is missing then wait for a call too.
    pub are_detected: bool,
    /// The user's own containers, by kind; these kinds need no image.
    pub attached: &'a BTreeMap<Kind, String>,
}

/// A chosen backend.
#[derive(Clone, Debug)]
pub struct ChosenBackend {
    /// The backend.
    pub backend: SidecarBackend,
    /// Why `Auto` fell back to processes of this machine.
    pub fallback_reason: Option<String>,
    /// The kinds whose image is missing: their first call looks for it again.
    pub without_image: Vec<MissingImage>,
}

impl BackendRequest<'_> {
    /// Finds an engine, checks its images, and decides those that the project files choose. `containers`
    /// returns the settings of containers, with
    /// the images that the user named. Errors: the engine is not available, and there is no fallback; no
    /// image has a version that the user requests.
    pub async fn choose(
        &self,
        programs: &impl Programs,
        containers: impl FnOnce(Engine) -> Containers,
        dialogue: &mut impl ImageDialogue,
    ) -> Result<ChosenBackend, ChoiceError> {
        if self.choice == BackendChoice::Kubernetes {
            return Err(ChoiceError::Kubernetes);
        }
        if self.choice == BackendChoice::Pod {
            let backend = SidecarBackend::Pod(PodSession::of_environment()?);
            return Ok(ChosenBackend::of(backend));
        }
        let may_fall_back = self.choice == BackendChoice::Auto
            && self.fallback == Fallback::Local
            && !self.has_version_of_user();
        let Some(engines) = self.choice.engine() else { return Ok(ChosenBackend::local(None)) };
        let engine = match Engine::find(engines, programs).await {
            Ok(engine) => engine,
            Err(error) if may_fall_back => {
                return Ok(ChosenBackend::local(Some(error.to_string())));
            }
            Err(error) => return Err(error.into()),
        };
        let mut containers = containers(engine);
        containers.request_versions(self.toolchains);
        let undecided = self.toolchains.iter().filter(|it| !self.is_named(&it.kind, &containers));
        let undecided: Vec<Toolchain> = undecided.cloned().collect();
        let images =
            ToolchainImages::decide(&containers, &undecided, self.workspace, dialogue).await;
        // With a prefix, the engine may pull them.
        let may_wait = may_fall_back || (self.are_detected && containers.images.prefix.is_empty());
        let mut without_image = Vec::new();
        if may_wait {
            let is_all;
            (without_image, is_all) = self.missing(&containers, &images, dialogue.may_pull()).await;
            if is_all && may_fall_back {
                let names: Vec<_> = without_image.into_iter().map(|(_, image)| image).collect();
                let reason =
                    format!("{} has no image {}", containers.engine_text(), names.join(", "));
                return Ok(ChosenBackend::local(Some(reason)));
            }
            // Without the version that the user requests, the session does not start.
            without_image.retain(|(kind, _)| !self.has_version(kind));
        }
        containers.images.never_pulled.extend(without_image.iter().map(|(kind, _)| kind.clone()));
        images.apply(&mut containers, dialogue).await.map_err(ChoiceError::Version)?;
        let backend = SidecarBackend::Containers(Box::new(containers));
        Ok(ChosenBackend { without_image, ..ChosenBackend::of(backend) })
    }

    /// Finds the images that the engine lacks of the kinds that start with the session, or of all if each waits for
    /// a call; and whether none of these kinds has one.
    async fn missing(
        &self,
        containers: &Containers,
        images: &ToolchainImages,
        may_pull: bool,
    ) -> (Vec<MissingImage>, bool) {
        let has_initial = self.initial().next().is_some();
        let mut kinds: Vec<_> = self.toolchains.iter().map(|it| it.kind.clone()).collect();
        kinds.retain(|kind| !has_initial || !self.on_demand.contains(kind));
        let needed = kinds.len();
        kinds.retain(|kind| !self.is_named(kind, containers) && !images.is_found(kind, may_pull));
        let missing = containers.missing_images(&kinds).await;
        let is_all = needed > 0 && missing.len() == needed;
        // A kind on demand is refused by its own call.
        (if has_initial || is_all { missing } else { Vec::new() }, is_all)
    }

    fn has_version(&self, kind: &Kind) -> bool {
        self.toolchains.iter().any(|it| it.kind == *kind && it.version.is_some())
    }

    /// Returns whether the user requests a version, which processes of this machine cannot provide.
    pub fn has_version_of_user(&self) -> bool {
        let is_attached = |toolchain: &Toolchain| self.attached.contains_key(&toolchain.kind);
        self.initial().any(|it| it.version.is_some() && !is_attached(it))
    }

    /// Returns the toolchains that start with the session.
    fn initial(&self) -> impl Iterator<Item = &Toolchain> {
        self.toolchains.iter().filter(|toolchain| !self.on_demand.contains(&toolchain.kind))
    }

    /// Returns whether the user named the image or the container of a kind.
    fn is_named(&self, kind: &Kind, containers: &Containers) -> bool {
        containers.images.named.contains_key(kind) || self.attached.contains_key(kind)
    }

    /// Returns the attached containers of the session's kinds, with the backend's engine or else any.
    /// Errors: no engine is available.
    pub async fn attachments(
        &self,
        backend: &SidecarBackend,
        programs: &impl Programs,
    ) -> Result<Option<Attachments>, EngineError> {
        if self.attached.is_empty() {
            return Ok(None);
        }
        let engine = match backend {
            SidecarBackend::Containers(containers) => containers.engine.clone(),
            // Other kinds may run as processes of this machine.
            SidecarBackend::Local | SidecarBackend::Pod(_) => {
                Engine::find(Choice::Any, programs).await?
            }
        };
        let mut containers = self.attached.clone();
        containers.retain(|kind, _| self.toolchains.iter().any(|it| it.kind == *kind));
        Ok(Some(Attachments { engine, containers }))
    }
}

impl ChosenBackend {
    fn of(backend: SidecarBackend) -> Self {
        ChosenBackend { backend, fallback_reason: None, without_image: Vec::new() }
    }

    fn local(fallback_reason: Option<String>) -> Self {
        ChosenBackend { fallback_reason, ..ChosenBackend::of(SidecarBackend::Local) }
    }
}
