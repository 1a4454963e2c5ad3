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

use super::kind::WORKSPACE;
use super::starting::Said;
use crate::backend::{Backend, SidecarError, Starting};
use crate::progress::Progress;
use crate::runner::Runner;
use crate::translation::Translation;

/// What attached sidecars have in common.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// The engine that runs the containers.
    pub engine: Engine,
    /// The session's id.
    pub session: String,
    /// The `aifo-shim` binary, which is the runner; statically linked.
    pub runner_program: PathBuf,
    /// The session's own folder.
    pub folder: PathBuf,
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
            attached.map_err(|Refused { reason, hint }| SidecarError::Attach {
                kind,
                container,
                reason,
                hint,
            })
        })
    }
}

/// Why a container does not take a runner.
struct Refused {
    reason: String,
    hint: String,
}

impl Refused {
    fn new(reason: impl ToString) -> Self {
        Refused { reason: reason.to_string(), hint: String::new() }
    }

    fn hint(self, hint: &str) -> Self {
        Refused { hint: format!("\nhint: {hint}"), ..self }
    }
}

impl AttachConfig {
    /// The commands that attach these kinds, in order.
    pub fn plan(&self) -> Vec<EngineCommand> {
        let of = |(kind, container): (&Kind, &String)| {
            let copy = self.copy(kind, container);
            [
                self.engine.inspect_container(container),
                self.engine.copy_into(&self.staged(kind), container, "/"),
                copy.start(),
                copy.unlink(),
            ]
        };
        self.containers.iter().flat_map(of).collect()
    }

    async fn attach(&self, kind: &Kind, name: &str) -> Result<Runner, Refused> {
        let container = self.engine.user_container(name).await.map_err(Refused::new)?;
        if !container.is_running() {
            let hint = format!("start it: {} start {name}", self.engine.flavor());
            return Err(Refused::new(format!("it is {}", container.state)).hint(&hint));
        }
        let workspace = container.path_inside(&self.workspace).ok_or_else(|| {
            Refused::new(format!("it does not see '{}'", self.workspace.display()))
                .hint("mount the project's folder into it")
        })?;
        let mut copy = self.bring_in(kind, name).await?;
        let runner = self.start(kind, &workspace, &copy).await;
        // Who runs as root has removed it itself by now.
        if runner.is_ok() && container.runs_as_root() {
            copy.is_there = false;
        } else {
            copy.remove().await;
        }
        let theirs = [self.workspace.clone(), WORKSPACE.into()];
        Ok(runner?.translating(Translation::new(theirs, &workspace)))
    }

    /// Puts the runner where it can be started from.
    async fn bring_in(&self, kind: &Kind, name: &str) -> Result<Copy, Refused> {
        let staged = self.stage(kind).map_err(Refused::new)?;
        // From now on there may be something to remove.
        let mut copy = self.copy(kind, name);
        copy.is_there = true;
        let command = self.engine.copy_into(&staged, name, "/");
        tracing::debug!(%command, "engine");
        let copied = self.engine.output(&command).await;
        copied.map_err(|error| {
            copy.is_there = false;
            Refused::new(error).hint("a container that cannot be written to cannot be attached")
        })?;
        Ok(copy)
    }

    /// The runner in a folder of the name that it gets in the container, for whoever may run it there.
    fn stage(&self, kind: &Kind) -> io::Result<PathBuf> {
        let folder = self.staged(kind);
        DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
        let program = folder.join(PROGRAM);
        fs::copy(&self.runner_program, &program)?;
        for path in [&folder, &program] {
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        Ok(folder)
    }

    fn staged(&self, kind: &Kind) -> PathBuf {
        self.folder.join("attach").join(self.folder_name(kind))
    }

    fn folder_name(&self, kind: &Kind) -> String {
        format!(".aifo-{}-{kind}", self.session)
    }

    fn copy(&self, kind: &Kind, container: &str) -> Copy {
        Copy {
            engine: self.engine.clone(),
            container: container.to_owned(),
            // That is in every container, and never a file system of its own that the engine does not
            // reach.
            folder: format!("/{}", self.folder_name(kind)),
            is_there: false,
        }
    }

    async fn start(&self, kind: &Kind, workspace: &Path, copy: &Copy) -> Result<Runner, Refused> {
        let command = copy.start();
        tracing::debug!(%command, "engine");
        let mut child = self.engine.spawn(&command, true).map_err(Refused::new)?;
        let mut said = Said::of(child.stderr.take(), None);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Refused::new("its streams are not ours"));
        };
        let reader = stdout.into_owned_fd().map_err(Refused::new)?;
        let writer = stdin.into_owned_fd().map_err(Refused::new)?;
        let workspace = vec![workspace.as_os_str().as_encoded_bytes().to_vec()];
        let setup = Setup { workspace, tmp: Vec::new(), kind: kind.to_string() };
        match Runner::connect_stream(kind.clone(), reader, writer, &setup).await {
            Ok(runner) => {
                // It ends when the runner has, and is collected then.
                tokio::spawn(async move { said.until_end(&mut child).await });
                Ok(runner)
            }
            Err(error) => {
                // Its streams are closed, so it ends.
                let _ = tokio::time::timeout(LAST_WORDS, said.until_end(&mut child)).await;
                Err(said.last_words().map_or_else(|| Refused::new(error), Refused::new))
            }
        }
    }
}

/// How long it may take an engine to say why something could not be executed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// By this name the program knows that it is the runner.
const PROGRAM: &str = "aifo-runner";

/// The runner's file in a container. It is removed when this is dropped.
struct Copy {
    engine: Engine,
    container: String,
    /// Its folder, which is only for it.
    folder: String,
    is_there: bool,
}

impl Copy {
    fn program(&self) -> String {
        format!("{}/{PROGRAM}", self.folder)
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
        self.is_there = false;
        let Err(error) = self.engine.output(&self.unlink()).await else { return };
        let by_its_own = self.as_root(&["rm", "-rf", &self.folder]);
        if self.engine.output(&by_its_own).await.is_err() {
            tracing::warn!(
                container = self.container,
                "'{}' could not be removed: {error}",
                self.folder
            );
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.is_there {
            // Called off on the way: nobody is left to wait for it.
            let _ = self.engine.spawn_detached(&self.unlink());
        }
    }
}
