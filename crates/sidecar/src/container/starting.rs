//! Starts a container and connects to its runner.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use aifo_engine::{
    ContainerSpec, Flavor, Mount, is_missing_image, is_name_conflict, is_port_conflict,
};
use aifo_types::Kind;
use aifo_wire::Setup;
use tokio::io::Interest;
use tokio::process::Child;

use super::engine_stderr::EngineStderr;
use super::kind::{self, TMP, WORKSPACE};
use super::runner_listener::RunnerListener;
use super::{REMOVE_ATTEMPTS, REMOVE_PAUSE, Shared, engine_error};
use crate::error::SidecarError;
use crate::local::Transport;
use crate::progress::{OutdatedCause, Progress};
use crate::runner::{Runner, StackRole};
use crate::socket::on_reactor;
use crate::stack_server::ServedStack;

/// The end of an engine's command before its runner connected.
struct StartFailure {
    code: Option<i32>,
    stderr: Vec<String>,
}

/// The control connection of a container runner.
enum RunnerStreams {
    /// A unix socket.
    Socket(OwnedFd),
    /// The runner's stdout and stdin, through the engine's command.
    Pipes { reader: OwnedFd, writer: OwnedFd },
}

impl RunnerStreams {
    /// Waits for the runner's first byte, because the engine may have to pull the image before.
    /// Then the timeout for the runner answer begins.
    async fn after_first_byte(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        let watched = on_reactor(reader, Interest::READABLE)?;
        let readable = watched.readable().await.map(|_| ());
        readable?;
        Ok(RunnerStreams::Pipes { reader: watched.into_inner(), writer })
    }
}

/// Exit code of a runner that cannot write to a directory of `--writable` (`spec/runner.md#options`).
const NOT_WRITABLE: i32 = 3;

impl Shared {
    pub(super) async fn start_runner(
        &self,
        kind: Kind,
        progress: &Progress,
    ) -> Result<Runner, SidecarError> {
        self.check_image(&kind).await?;
        self.ensure_network(&kind, progress).await?;
        let repository = self.prepare_repository(&kind);
        let sockets = self.socket_covers();
        let spec = self.sidecar(&kind, &repository, &sockets);
        let is_agent = self.agent(&kind).is_some();
        let of = kind.clone();
        let runner = self.start_in_stack(kind, &spec, progress).await?;
        let has_lost_stack = self.stack_loss(&of).await;
        if is_agent {
            tokio::spawn(sockets.report_uncovered(runner.lost()));
            return Ok(runner);
        }
        Ok(runner.with_outdated(move || {
            match repository.is_current() && sockets.uncovered().next().is_none() {
                false => Some(OutdatedCause::ReplacedMount),
                true => has_lost_stack().then_some(OutdatedCause::LostStack),
            }
        }))
    }

    /// Errors: the kind's image is not on this machine, and is not to be pulled.
    async fn check_image(&self, kind: &Kind) -> Result<(), SidecarError> {
        let (engine, images) = (&self.config.engine, &self.config.images);
        let image = self.image(kind);
        if !images.never_pulled.contains(kind) || engine.has_image(&image).await {
            return Ok(());
        }
        let option = engine.flavor().build_option();
        let remedy = match images.is_usual(kind) && aifo_policy::kind_spec(kind).is_some() {
            true => format!("build it with: aifo-coder images build {option}{kind}"),
            false => format!("load it into {0}, or pull it with {0}", engine.flavor()),
        };
        Err(SidecarError::NoImage { kind: kind.clone(), image, remedy })
    }

    /// Starts a container and returns when its runner has answered, with the clients of its network
    /// stack if it is served.
    pub(super) async fn start_container(
        &self,
        kind: Kind,
        spec: &ContainerSpec,
        progress: &Progress,
        role: StackRole<'_>,
    ) -> Result<(Runner, Option<ServedStack>), SidecarError> {
        let has_volumes = spec.mounts.iter().any(|mount| matches!(mount, Mount::Volume { .. }));
        let reached = match self.try_start(&kind, spec, progress).await? {
            Ok(reached) => reached,
            Err(failure) if failure.code == Some(NOT_WRITABLE) && has_volumes => {
                // The engine creates volumes as root's.
                self.chown_volumes(&kind, spec).await?;
                let again = self.try_start(&kind, spec, progress).await?;
                again.map_err(|failure| {
                    failure.into_error(&kind, spec, self.config.engine.flavor())
                })?
            }
            Err(failure) if failure.is_name_conflict() => {
                self.replace(&kind, spec, progress).await?
            }
            Err(failure) => {
                return Err(failure.into_error(&kind, spec, self.config.engine.flavor()));
            }
        };
        let setup = self.setup(spec);
        let connected = match reached {
            RunnerStreams::Socket(control) => {
                Runner::connect_in_role(kind, control, &setup, role).await
            }
            RunnerStreams::Pipes { reader, writer } => {
                let shares_kernel = self.config.engine.facts().shares_host_kernel();
                let connected =
                    Runner::connect_stream_in_role(kind, reader, writer, &setup, role).await;
                connected.map(|(runner, stack)| (runner.with_shared_kernel(shares_kernel), stack))
            }
        };
        if connected.is_err() {
            let left = std::slice::from_ref(&spec.name);
            // The failure to connect is the error to return.
            let _ = self.config.engine.remove_containers(left).await;
        }
        connected
    }

    /// Starts a container in place of a lost one of the same name. Retries while the name is in use,
    /// because an engine does not report when it has removed the old container.
    async fn replace(
        &self,
        kind: &Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<RunnerStreams, SidecarError> {
        let engine = &self.config.engine;
        let mut attempts = REMOVE_ATTEMPTS;
        loop {
            let removed = engine.remove_containers(std::slice::from_ref(&spec.name)).await;
            removed.map_err(|error| engine_error(kind, error))?;
            attempts -= 1;
            match self.try_start(kind, spec, progress).await? {
                Ok(reached) => return Ok(reached),
                Err(failure) if failure.is_name_conflict() && attempts > 0 => {
                    tokio::time::sleep(REMOVE_PAUSE).await;
                }
                Err(failure) => {
                    return Err(failure.into_error(kind, spec, self.config.engine.flavor()));
                }
            }
        }
    }

    fn setup(&self, spec: &ContainerSpec) -> Setup {
        use std::os::unix::ffi::OsStrExt;
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let mounted = |at: &str| {
            spec.mounts
                .iter()
                .any(|mount| matches!(mount, Mount::Bind { to, .. } if to == Path::new(at)))
        };
        // The container that only holds the network has neither directory.
        let workspace = match mounted(WORKSPACE) {
            true => vec![WORKSPACE.into(), bytes(&self.config.workspace)],
            false => vec![b"/".to_vec()],
        };
        let tmp = match mounted(TMP) {
            true => vec![TMP.into(), bytes(&self.config.tmp)],
            false => Vec::new(),
        };
        Setup { workspace, tmp, kind: spec.kind.clone() }
    }

    /// Starts a container once. Returns the connection to its runner, or how the engine's command ended.
    async fn try_start(
        &self,
        kind: &Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Result<RunnerStreams, StartFailure>, SidecarError> {
        let failed = |source: io::Error| SidecarError::Start { kind: kind.clone(), source };
        let mut cancelled = self.cancelled.subscribe();
        if *cancelled.borrow_and_update() {
            return Err(SidecarError::NotRunning(kind.clone()));
        }
        // The socket must exist before the runner connects.
        let listener = match self.config.transport {
            Transport::Descriptors => {
                Some(RunnerListener::bind(&self.config.sockets.join(&spec.kind)).map_err(failed)?)
            }
            Transport::Stream => None,
        };
        let mut child = self.spawn(kind, spec)?;
        let mut stderr = EngineStderr::new(child.stderr.take(), Some(progress));
        let streams = child.stdout.take().zip(child.stdin.take());
        let reached = async {
            match (listener, streams) {
                (Some(listener), _) => Ok(RunnerStreams::Socket(listener.accept_runner().await?)),
                (None, Some((stdout, stdin))) => {
                    RunnerStreams::after_first_byte(stdout.into_owned_fd()?, stdin.into_owned_fd()?)
                        .await
                }
                (None, None) => Err(io::ErrorKind::NotConnected.into()),
            }
        };
        tokio::select! {
            // A command that has ended has no runner.
            biased;
            code = stderr.wait_unless_cancelled(&mut child, &mut cancelled) => {
                let code = code.map_err(failed)?;
                Ok(Err(StartFailure { code, stderr: stderr.into_lines() }))
            }
            reached = reached => {
                let reached = reached.map_err(failed)?;
                let carries = matches!(reached, RunnerStreams::Pipes { .. });
                if carries || !self.config.engine.container_outlives_command() {
                    // The runner's later stderr is not progress.
                    stderr.stop_progress();
                    tokio::spawn(async move { stderr.wait(&mut child).await });
                }
                Ok(Ok(reached))
            }
        }
    }

    /// Runs a container as root that gives the volumes of another container to the caller.
    async fn chown_volumes(&self, kind: &Kind, of: &ContainerSpec) -> Result<(), SidecarError> {
        let spec = kind::owner(self, of);
        let mut child = self.spawn(kind, &spec)?;
        let mut stderr = EngineStderr::new(child.stderr.take(), None);
        let code = stderr.wait_unless_cancelled(&mut child, &mut self.cancelled.subscribe()).await;
        match code.map_err(|source| SidecarError::Start { kind: kind.clone(), source })? {
            Some(0) => Ok(()),
            code => Err(StartFailure { code, stderr: stderr.into_lines() }.into_error(
                kind,
                &spec,
                self.config.engine.flavor(),
            )),
        }
    }

    fn spawn(&self, kind: &Kind, spec: &ContainerSpec) -> Result<Child, SidecarError> {
        let engine = &self.config.engine;
        let command = engine.run(spec).map_err(|error| engine_error(kind, error))?;
        tracing::debug!(%command, "engine");
        self.names().insert(spec.name.clone());
        let attached = spec.stdio == aifo_engine::Stdio::Attached;
        engine
            .spawn(&command, attached)
            .map_err(|source| SidecarError::Start { kind: kind.clone(), source })
    }
}

impl StartFailure {
    fn is_name_conflict(&self) -> bool {
        self.stderr.iter().any(|line| is_name_conflict(line))
    }

    fn into_error(self, kind: &Kind, spec: &ContainerSpec, flavor: Flavor) -> SidecarError {
        let error = aifo_engine::error_line(&self.stderr.join("\n"));
        let reason = match (error, self.code) {
            (Some(error), _) => error,
            (None, Some(code)) => {
                format!("its runner ended with exit code {code} and no error output")
            }
            (None, None) => "the engine's command was killed".to_owned(),
        };
        let hint = hint(&reason, kind, spec, flavor);
        SidecarError::Container { kind: kind.clone(), image: spec.image.clone(), reason, hint }
    }
}

/// Returns a line `hint: ..` with its leading line break, or an empty text.
fn hint(reason: &str, kind: &Kind, spec: &ContainerSpec, flavor: Flavor) -> String {
    let is_ours = spec.image.rsplit('/').next().is_some_and(|name| name.starts_with("aifo-"));
    if is_missing_image(reason) && !is_ours {
        return format!(
            "\nhint: the image is not on this machine and cannot be pulled; check its name, or load \
             it into {flavor}"
        );
    }
    if is_missing_image(reason) {
        let (name, flag) = match *kind == Kind::agent() {
            true => ("AGENT", "--image"),
            false => (kind.as_str(), "--toolchain-image"),
        };
        return format!(
            "\nhint: the image is not on this machine and cannot be pulled; build it with \
             `aifo-coder images build {}{name}`, or name another with {flag}",
            flavor.build_option()
        );
    }
    let known = if reason.contains("not writable") {
        "\nhint: a cache volume belongs to another user; see `aifo-coder cache`, or leave caches out \
         with --no-toolchain-cache"
    } else if reason.contains("in none of the engine's pools") {
        "\nhint: set pools of [containers] in your own file to podman's default_subnet_pools, for \
         example pools = [\"172.30.0.0/16\"]"
    } else if !spec.publish.is_empty() && is_port_conflict(reason) {
        "\nhint: publish another port of the host"
    } else {
        ""
    };
    known.to_owned()
}
