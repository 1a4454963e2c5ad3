//! Sidecars in containers that the user runs.
//!
//! The runner is copied into the container and started there; its file is removed as soon as it runs.
//! Nothing is created on the engine, and the container is not changed.

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

/// The configuration of all attached sidecars.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// The engine that runs the containers.
    pub engine: Engine,
    /// The session id.
    pub session: String,
    /// The `aifo-shim` binary, which is also the runner; statically linked.
    pub runner_program: PathBuf,
    /// The session directory.
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
    /// Returns a backend without sidecars.
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

/// Why no runner could be started in a container.
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
    /// Returns the commands that attach these kinds, in order.
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
        // A runner of root's has removed its file itself.
        if runner.is_ok() && container.runs_as_root() {
            copy.present = false;
        } else {
            copy.remove().await;
        }
        let client_paths = [self.workspace.clone(), WORKSPACE.into()];
        let shares_kernel = self.engine.facts().shares_host_kernel();
        let translation = PathTranslation::new(client_paths, &workspace);
        Ok(runner?.with_translation(translation).with_shared_kernel(shares_kernel))
    }

    /// Copies the runner into the container.
    async fn copy_runner(&self, kind: &Kind, name: &str) -> Result<RunnerCopy, AttachFailure> {
        let staged = self.stage(kind).map_err(AttachFailure::new)?;
        // From here on there may be a file to remove.
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

    /// Creates a directory with the runner, named as in the container and executable by every user.
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
            // `/` exists in every container and is not a mount that the engine cannot write to.
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
            return Err(AttachFailure::new("the engine's command has no stdin or stdout"));
        };
        let reader = stdout.into_owned_fd().map_err(AttachFailure::new)?;
        let writer = stdin.into_owned_fd().map_err(AttachFailure::new)?;
        let workspace = vec![workspace.as_os_str().as_encoded_bytes().to_vec()];
        let setup = Setup { workspace, tmp: Vec::new(), kind: kind.to_string() };
        match Runner::connect_stream(kind.clone(), reader, writer, &setup).await {
            Ok(runner) => {
                // Reaps the command, which ends when the runner has ended.
                tokio::spawn(async move { stderr.wait(&mut child).await });
                Ok(runner)
            }
            Err(error) => {
                // The streams are closed, so the command ends.
                let _ = tokio::time::timeout(EXIT_TIMEOUT, stderr.wait(&mut child)).await;
                Err(stderr
                    .error_line()
                    .map_or_else(|| AttachFailure::new(error), AttachFailure::new))
            }
        }
    }
}

/// Time for an engine's command to print its error and end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The program acts as the runner if argv[0] has this name.
const PROGRAM: &str = "aifo-runner";

/// The runner file in a container, removed on drop.
struct RunnerCopy {
    engine: Engine,
    container: String,
    /// The directory that has only this file.
    directory: String,
    present: bool,
}

impl RunnerCopy {
    fn program(&self) -> String {
        format!("{}/{PROGRAM}", self.directory)
    }

    /// Returns the command that starts a guard and the runner. The guard ends the tools of a killed
    /// runner, as this container does not end with the runner.
    fn start(&self) -> EngineCommand {
        let words = [&self.program(), "guard", "--stream", "--unlink"];
        self.engine.exec(&self.container, ExecAs::ContainerUser, Stdio::Attached, words)
    }

    /// Returns the command that removes the file by itself: the container may have no other program.
    fn unlink(&self) -> EngineCommand {
        self.as_root(&[&self.program(), "unlink"])
    }

    fn as_root(&self, words: &[&str]) -> EngineCommand {
        self.engine.exec(&self.container, ExecAs::Root, Stdio::Detached, words)
    }

    /// Removes the file, also if it cannot be executed.
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
            // The start was cancelled; there is no task to wait for the command.
            let _ = self.engine.spawn_detached(&self.unlink());
        }
    }
}
