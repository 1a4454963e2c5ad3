//! From what a container is made of to a runner that has answered.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use aifo_engine::{ContainerSpec, Mount};
use aifo_types::Kind;
use aifo_wire::Setup;
use tokio::io::{AsyncBufReadExt, BufReader, Interest};
use tokio::process::{Child, ChildStderr};
use tokio::sync::watch;

use super::door::Door;
use super::kind::{self, TMP, WORKSPACE};
use super::{ATTEMPTS, PAUSE, Shared, engine_error};
use crate::backend::SidecarError;
use crate::local::Transport;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::socket::on_reactor;
use crate::translation::Translation;

/// How the engine's command ended while we waited for the runner.
struct Failure {
    code: Option<i32>,
    said: Vec<String>,
}

/// The way to a runner.
enum Reached {
    /// Its connection.
    Socket(OwnedFd),
    /// Its stdout and stdin, through the engine's command.
    Stream { reader: OwnedFd, writer: OwnedFd },
}

impl Reached {
    /// Returns when the runner has said something: before that an image may have to be pulled.
    async fn by_streams(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        let watched = on_reactor(reader, Interest::READABLE)?;
        let readable = watched.readable().await.map(|_| ());
        readable?;
        Ok(Reached::Stream { reader: watched.into_inner(), writer })
    }
}

/// The runner's, when a place it was given cannot be written to (`spec/runner.md#options`).
const NOT_WRITABLE: i32 = 3;

impl Shared {
    pub(super) async fn start_runner(
        &self,
        kind: Kind,
        progress: &Progress,
    ) -> Result<Runner, SidecarError> {
        self.ensure_network(&kind, progress).await?;
        let spec = self.sidecar(&kind);
        let is_agent = self.agent(&kind).is_some();
        let runner = self.bring_up(kind, &spec, progress).await?;
        Ok(match is_agent {
            // An agent has one name for the workspace, the one that its shims compare paths with.
            true => runner.translating(Translation::new(
                [self.config.workspace.clone()],
                Path::new(WORKSPACE),
            )),
            false => runner,
        })
    }

    /// Starts a container and returns when its runner has answered.
    pub(super) async fn bring_up(
        &self,
        kind: Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Runner, SidecarError> {
        let keeps = spec.mounts.iter().any(|mount| matches!(mount, Mount::Volume { .. }));
        let reached = match self.attempt(&kind, spec, progress).await? {
            Ok(reached) => reached,
            Err(failure) if failure.code == Some(NOT_WRITABLE) && keeps => {
                // Volumes that the engine has just made are root's.
                self.give_away(&kind, spec).await?;
                let again = self.attempt(&kind, spec, progress).await?;
                again.map_err(|failure| failure.told_of(&kind, spec))?
            }
            Err(failure) if failure.is_taken() => self.replace(&kind, spec, progress).await?,
            Err(failure) => return Err(failure.told_of(&kind, spec)),
        };
        let setup = self.setup(spec);
        let connected = match reached {
            Reached::Socket(control) => Runner::connect(kind, control, &setup).await,
            Reached::Stream { reader, writer } => {
                Runner::connect_stream(kind, reader, writer, &setup).await
            }
        };
        if connected.is_err() {
            let left = std::slice::from_ref(&spec.name);
            // It is the failure to connect that has to be told.
            let _ = self.config.engine.remove_containers(left).await;
        }
        connected
    }

    /// Starts a container in the place of one that was lost, and may be on its way out still: an engine
    /// that removes it already does not say when it is gone.
    async fn replace(
        &self,
        kind: &Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Reached, SidecarError> {
        let engine = &self.config.engine;
        let mut attempts = ATTEMPTS;
        loop {
            let removed = engine.remove_containers(std::slice::from_ref(&spec.name)).await;
            removed.map_err(|error| engine_error(kind, error))?;
            attempts -= 1;
            match self.attempt(kind, spec, progress).await? {
                Ok(reached) => return Ok(reached),
                Err(failure) if failure.is_taken() && attempts > 0 => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure.told_of(kind, spec)),
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
        // Whoever only holds the network sees neither.
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

    /// Starts a container once: the way to its runner, or what came instead.
    async fn attempt(
        &self,
        kind: &Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Result<Reached, Failure>, SidecarError> {
        let failed = |source: io::Error| SidecarError::Start { kind: kind.clone(), source };
        let mut called_off = self.called_off.subscribe();
        if *called_off.borrow_and_update() {
            return Err(SidecarError::NotRunning(kind.clone()));
        }
        // Before the runner looks for it.
        let door = match self.config.transport {
            Transport::Descriptors => {
                Some(Door::open(&self.config.sockets.join(&spec.kind)).map_err(failed)?)
            }
            Transport::Stream => None,
        };
        let mut child = self.spawn(kind, spec)?;
        let mut said = Said::of(child.stderr.take(), Some(progress));
        let streams = child.stdout.take().zip(child.stdin.take());
        let reached = async {
            match (door, streams) {
                (Some(door), _) => Ok(Reached::Socket(door.answer().await?)),
                (None, Some((stdout, stdin))) => {
                    Reached::by_streams(stdout.into_owned_fd()?, stdin.into_owned_fd()?).await
                }
                (None, None) => Err(io::ErrorKind::NotConnected.into()),
            }
        };
        tokio::select! {
            // Of a command that has ended there is nothing to be reached.
            biased;
            code = said.until_end_unless(&mut child, &mut called_off) => {
                let code = code.map_err(failed)?;
                Ok(Err(Failure { code, said: said.lines }))
            }
            reached = reached => {
                let reached = reached.map_err(failed)?;
                let carries = matches!(reached, Reached::Stream { .. });
                if carries || !self.config.engine.outlives_its_command() {
                    // It is up: what the runner says from now on is no progress.
                    said.progress = None;
                    tokio::spawn(async move { said.until_end(&mut child).await });
                }
                Ok(Ok(reached))
            }
        }
    }

    /// Has root give the volumes of a container to the caller.
    async fn give_away(&self, kind: &Kind, of: &ContainerSpec) -> Result<(), SidecarError> {
        let spec = kind::owner(self, of);
        let mut child = self.spawn(kind, &spec)?;
        let mut said = Said::of(child.stderr.take(), None);
        let code = said.until_end_unless(&mut child, &mut self.called_off.subscribe()).await;
        match code.map_err(|source| SidecarError::Start { kind: kind.clone(), source })? {
            Some(0) => Ok(()),
            code => Err(Failure { code, said: said.lines }.told_of(kind, &spec)),
        }
    }

    fn spawn(&self, kind: &Kind, spec: &ContainerSpec) -> Result<Child, SidecarError> {
        let engine = &self.config.engine;
        let command = engine.run(spec).map_err(|error| engine_error(kind, error))?;
        tracing::debug!(%command, "engine");
        let attached = spec.stdio == aifo_engine::Stdio::Attached;
        engine
            .spawn(&command, attached)
            .map_err(|source| SidecarError::Start { kind: kind.clone(), source })
    }
}

impl Failure {
    /// The name is in use: a container of it is on its way out, or was left by somebody.
    fn is_taken(&self) -> bool {
        self.said.iter().any(|line| line.contains("is already in use"))
    }

    fn told_of(self, kind: &Kind, spec: &ContainerSpec) -> SidecarError {
        let said = aifo_engine::last_words(&self.said.join("\n"));
        let reason = match (said, self.code) {
            (Some(said), _) => said,
            (None, Some(code)) => format!("its runner ended with {code} and no word"),
            (None, None) => "the engine's command was killed".to_owned(),
        };
        let hint = hint(&reason, kind, spec);
        SidecarError::Container { kind: kind.clone(), image: spec.image.clone(), reason, hint }
    }
}

/// What helps, where it is known.
fn hint(reason: &str, kind: &Kind, spec: &ContainerSpec) -> String {
    let missing = [
        "No such image",
        "pull access denied",
        "short-name",
        "unauthorized",
        "not found",
        "dial tcp",
        "no such host",
        "lookup ",
        "initializing source",
        "manifest unknown",
    ];
    // Of another container; of another program.
    let taken = ["port is already allocated", "address already in use"];
    let speaks_of = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if speaks_of(&missing) {
        let (name, flag) = match *kind == Kind::agent() {
            true => ("agent-NAME", "--image"),
            false => (kind.as_str(), "--toolchain-image"),
        };
        return format!(
            "\nhint: the image is not on this machine and cannot be pulled; build it with \
             `cargo xtask images build {name}`, or name another with {flag}"
        );
    }
    let known = if speaks_of(&["not writable"]) {
        "\nhint: a cache volume belongs to another user; see `aifo-coder cache`, or leave caches out \
         with --no-toolchain-cache"
    } else if speaks_of(&["in none of the engine's pools"]) {
        "\nhint: say in your own file what podman takes networks from, as its default_subnet_pools do: \
         pools = [\"172.30.0.0/16\"] of [containers]"
    } else if !spec.publish.is_empty() && speaks_of(&taken) {
        "\nhint: publish another port of the host"
    } else {
        ""
    };
    known.to_owned()
}

/// What the engine's command says: progress of a pull, complaints, the runner's own words.
pub(super) struct Said {
    stderr: Option<BufReader<ChildStderr>>,
    /// What has been heard of the line that comes.
    line: Vec<u8>,
    lines: Vec<String>,
    stage: Stage,
    /// Who hears of it at once.
    progress: Option<Progress>,
}

/// How far the command has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It fetches the image, which may take minutes.
    Pulling,
    /// It makes the container, or that runs.
    Making,
}

/// Of what was said, so much is kept.
const MAX_LINES: usize = 32;

impl Said {
    pub(super) fn of(stderr: Option<ChildStderr>, progress: Option<&Progress>) -> Self {
        let (line, lines) = (Vec::new(), Vec::new());
        let (stderr, progress) = (stderr.map(BufReader::new), progress.cloned());
        Said { stderr, line, lines, stage: Stage::Making, progress }
    }

    /// What it said at last.
    pub(super) fn last_words(&self) -> Option<String> {
        aifo_engine::last_words(&self.lines.join("\n"))
    }

    /// Listens until the command has ended, and returns its exit code.
    pub(super) async fn until_end(&mut self, child: &mut Child) -> io::Result<Option<i32>> {
        while self.hear().await? {}
        Ok(child.wait().await?.code())
    }

    /// The same, but a pull that is called off is given up.
    async fn until_end_unless(
        &mut self,
        child: &mut Child,
        called_off: &mut watch::Receiver<bool>,
    ) -> io::Result<Option<i32>> {
        loop {
            let is_pulling = self.stage == Stage::Pulling;
            tokio::select! {
                more = self.hear() => if !more? { break },
                _ = called_off.wait_for(|off| *off), if is_pulling => {
                    // The engine stops when its command does. Somebody else may hold stderr open.
                    child.start_kill()?;
                    break;
                }
            }
        }
        Ok(child.wait().await?.code())
    }

    /// Hears a line; `false` if there are no more.
    async fn hear(&mut self) -> io::Result<bool> {
        let Some(stderr) = &mut self.stderr else { return Ok(false) };
        if stderr.read_until(b'\n', &mut self.line).await? == 0 {
            return Ok(false);
        }
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        tracing::debug!("{line}");
        if let Some(progress) = &self.progress {
            progress.line(&line);
        }
        // Of docker and of podman.
        let starts = |beginnings: [&str; 2]| beginnings.iter().any(|it| line.starts_with(it));
        if starts(["Unable to find image", "Trying to pull"]) {
            self.stage = Stage::Pulling;
        } else if starts(["Status: ", "Writing manifest"]) {
            self.stage = Stage::Making;
        }
        self.lines.push(line);
        if self.lines.len() > MAX_LINES {
            self.lines.remove(0);
        }
        Ok(true)
    }
}
