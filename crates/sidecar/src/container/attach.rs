//! Sidecars in containers that the user runs already.
//!
//! The runner is brought in, started there, and its file removed as soon as it runs. Nothing of ours is
//! made on the engine, and nothing of the container's is changed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aifo_engine::{Engine, EngineCommand, ExecAs, Stdio};
use aifo_types::Kind;
use aifo_wire::Setup;

use super::engine_stderr::EngineStderr;
use super::kind::WORKSPACE;
use crate::backend::{Backend, Starting};
use crate::error::SidecarError;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::translation::PathTranslation;

/// What attached sidecars have in common.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// The engine that runs the containers.
    pub engine: Engine,
    /// The session's id.
    pub session: String,
    /// The `aifo-shim` binary, which is the runner; statically linked.
    pub runner_program: PathBuf,
    /// The session's own directory.
    pub directory: PathBuf,
    /// The workspace root; a real path.
    pub workspace: PathBuf,
    /// The name of the container for each kind.
    pub containers: BTreeMap<Kind, String>,
}

/// Attached sidecars for some kinds, and another backend for the others.
pub struct AttachBackend {
    config: Arc<AttachConfig>,
    others: Box<dyn Backend>,
}

impl AttachBackend {
    /// A backend that has started nothing yet.
    pub fn new(config: AttachConfig, others: Box<dyn Backend>) -> Self {
        AttachBackend { config: Arc::new(config), others }
    }
}

impl Backend for AttachBackend {
    fn start(&self, kind: Kind, progress: Progress) -> Starting {
        let Some(container) = self.config.containers.get(&kind).cloned() else {
            return self.others.start(kind, progress);
        };
        let config = Arc::clone(&self.config);
        Box::pin(async move {
            let attached = config.attach(&kind, &container).await;
            attached.map_err(|AttachFailure { reason, hint }| SidecarError::Attach {
                kind,
                container,
                reason,
                hint,
            })
        })
    }
}

/// Why a container does not take a runner.
struct AttachFailure {
    reason: String,
    hint: String,
}

impl AttachFailure {
    fn new(reason: impl ToString) -> Self {
        AttachFailure { reason: reason.to_string(), hint: String::new() }
    }

    fn hint(self, hint: &str) -> Self {
        AttachFailure { hint: format!("\nhint: {hint}"), ..self }
    }
}

impl AttachConfig {
    /// The commands that attach these kinds, in order.
    pub fn plan(&self) -> Vec<EngineCommand> {
        let of = |(kind, container): (&Kind, &String)| {
            let copy = self.copy(kind, container);
            [
                self.engine.inspect_container(container),
                self.engine.copy_into(&self.staging_path(kind), container, "/"),
                copy.start(),
                copy.unlink(),
            ]
        };
        self.containers.iter().flat_map(of).collect()
    }

    async fn attach(&self, kind: &Kind, name: &str) -> Result<Runner, AttachFailure> {
        let container = self.engine.user_container(name).await.map_err(AttachFailure::new)?;
        if !container.is_running() {
            let hint = format!("start it: {} start {name}", self.engine.flavor());
            return Err(AttachFailure::new(format!("it is {}", container.state)).hint(&hint));
        }
        let workspace = container.path_inside(&self.workspace).ok_or_else(|| {
            AttachFailure::new(format!("it does not see '{}'", self.workspace.display()))
                .hint("mount the project's directory into it")
        })?;
        let mut copy = self.copy_runner(kind, name).await?;
        let runner = self.start(kind, &workspace, &copy).await;
        // Who runs as root has removed it itself by now.
        if runner.is_ok() && container.runs_as_root() {
            copy.present = false;
        } else {
            copy.remove().await;
        }
        let client_paths = [self.workspace.clone(), WORKSPACE.into()];
        Ok(runner?.with_translation(PathTranslation::new(client_paths, &workspace)))
    }

    /// Puts the runner where it can be started from.
    async fn copy_runner(&self, kind: &Kind, name: &str) -> Result<RunnerCopy, AttachFailure> {
        let staged = self.stage(kind).map_err(AttachFailure::new)?;
        // From now on there may be something to remove.
        let mut copy = self.copy(kind, name);
        copy.present = true;
        let command = self.engine.copy_into(&staged, name, "/");
        tracing::debug!(%command, "engine");
        let copied = self.engine.output(&command).await;
        copied.map_err(|error| {
            copy.present = false;
            AttachFailure::new(error)
                .hint("a container that cannot be written to cannot be attached")
        })?;
        Ok(copy)
    }

    /// The runner in a directory of the name that it gets in the container, for whoever may run it there.
    fn stage(&self, kind: &Kind) -> io::Result<PathBuf> {
        let directory = self.staging_path(kind);
        DirBuilder::new().recursive(true).mode(0o755).create(&directory)?;
        let program = directory.join(PROGRAM);
        fs::copy(&self.runner_program, &program)?;
        for path in [&directory, &program] {
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        Ok(directory)
    }

    fn staging_path(&self, kind: &Kind) -> PathBuf {
        self.directory.join("attach").join(self.directory_name(kind))
    }

    fn directory_name(&self, kind: &Kind) -> String {
        format!(".aifo-{}-{kind}", self.session)
    }

    fn copy(&self, kind: &Kind, container: &str) -> RunnerCopy {
        RunnerCopy {
            engine: self.engine.clone(),
            container: container.to_owned(),
            // That is in every container, and never a file system of its own that the engine does not
            // reach.
            directory: format!("/{}", self.directory_name(kind)),
            present: false,
        }
    }

    async fn start(
        &self,
        kind: &Kind,
        workspace: &Path,
        copy: &RunnerCopy,
    ) -> Result<Runner, AttachFailure> {
        let command = copy.start();
        tracing::debug!(%command, "engine");
        let mut child = self.engine.spawn(&command, true).map_err(AttachFailure::new)?;
        let mut stderr = EngineStderr::new(child.stderr.take(), None);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(AttachFailure::new("its streams are not ours"));
        };
        let reader = stdout.into_owned_fd().map_err(AttachFailure::new)?;
        let writer = stdin.into_owned_fd().map_err(AttachFailure::new)?;
        let workspace = vec![workspace.as_os_str().as_encoded_bytes().to_vec()];
        let setup = Setup { workspace, tmp: Vec::new(), kind: kind.to_string() };
        match Runner::connect_stream(kind.clone(), reader, writer, &setup).await {
            Ok(runner) => {
                // It ends when the runner has, and is collected then.
                tokio::spawn(async move { stderr.wait(&mut child).await });
                Ok(runner)
            }
            Err(error) => {
                // Its streams are closed, so it ends.
                let _ = tokio::time::timeout(EXIT_TIMEOUT, stderr.wait(&mut child)).await;
                Err(stderr
                    .error_line()
                    .map_or_else(|| AttachFailure::new(error), AttachFailure::new))
            }
        }
    }
}

/// How long it may take an engine to say why something could not be executed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// By this name the program knows that it is the runner.
const PROGRAM: &str = "aifo-runner";

/// The runner's file in a container. It is removed when this is dropped.
struct RunnerCopy {
    engine: Engine,
    container: String,
    /// Its directory, which is only for it.
    directory: String,
    present: bool,
}

impl RunnerCopy {
    fn program(&self) -> String {
        format!("{}/{PROGRAM}", self.directory)
    }

    /// A guard stands above the runner: unlike in a container of ours nothing else would end the tools
    /// of one that was killed.
    fn start(&self) -> EngineCommand {
        let words = [&self.program(), "guard", "--stream", "--unlink"];
        self.engine.exec(&self.container, ExecAs::ContainerUser, Stdio::Attached, words)
    }

    /// A container may have no program but this one that could remove it.
    fn unlink(&self) -> EngineCommand {
        self.as_root(&[&self.program(), "unlink"])
    }

    fn as_root(&self, words: &[&str]) -> EngineCommand {
        self.engine.exec(&self.container, ExecAs::Root, Stdio::Detached, words)
    }

    /// Removes it, whether it could be executed or not.
    async fn remove(mut self) {
        self.present = false;
        let Err(error) = self.engine.output(&self.unlink()).await else { return };
        let remove = self.as_root(&["rm", "-rf", &self.directory]);
        if self.engine.output(&remove).await.is_err() {
            tracing::warn!(
                container = self.container,
                "'{}' could not be removed: {error}",
                self.directory
            );
        }
    }
}

impl Drop for RunnerCopy {
    fn drop(&mut self) {
        if self.present {
            // Called off on the way: nobody is left to wait for it.
            let _ = self.engine.spawn_detached(&self.unlink());
        }
    }
}
