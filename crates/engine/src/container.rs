//! One container that is to run: what it is made of, as arguments of `run`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::command::EngineCommand;
use crate::engine::{Engine, EngineError};
use crate::flavor::Flavor;
use crate::labels::{Label, Labels};

/// What a container is made of. It is removed by the engine as soon as its first process has ended,
/// whatever becomes of us.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// Its name, unique on the engine.
    pub name: String,
    /// The image it is made from; pulled if the engine does not have it.
    pub image: String,
    /// What it belongs to.
    pub labels: Labels,
    /// The kind of the sidecar.
    pub kind: String,
    /// The first process: a path in the container and its arguments. The image's own entry point and
    /// command count for nothing.
    pub entrypoint: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What it sees of the host, and where.
    pub mounts: Vec<Mount>,
    /// Variables over those of the image.
    pub variables: Vec<(OsString, Value)>,
    /// What it is connected to.
    pub network: Network,
    /// `--publish` of the engine's, as it was given.
    pub publish: Vec<String>,
    /// What it may use.
    pub limits: ContainerLimits,
    /// Whether its standard streams are ours.
    pub stdio: Stdio,
    /// Whom its processes run as.
    pub user: User,
    /// What it may do though it is not root's equal; as a rule nothing.
    pub capabilities: Vec<&'static str>,
}

/// Whom a container's processes run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user who starts it, so that files in the workspace stay that user's.
    Caller,
    /// The container's root, for the one thing nobody else can do: giving files away.
    Root,
}

/// Whether somebody talks to the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Nobody does; what it says to stderr is heard.
    Detached,
    /// Its stdin and stdout are the command's own.
    Attached,
}

/// A place in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A directory or file of the host.
    Bind {
        /// On the host; absolute.
        from: PathBuf,
        /// In the container.
        to: PathBuf,
        /// Nothing can be written there.
        read_only: bool,
    },
    /// A volume of the engine's, made if there is none of this name.
    Volume {
        /// Its name.
        name: String,
        /// In the container.
        to: PathBuf,
    },
    /// An empty place that is the processes' own and goes with the container.
    Scratch {
        /// In the container.
        to: PathBuf,
    },
}

impl Mount {
    /// A directory or file of the host.
    pub fn bind(from: &Path, to: impl AsRef<Path>, read_only: bool) -> Self {
        Mount::Bind { from: from.to_owned(), to: to.as_ref().to_owned(), read_only }
    }
}

/// A variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Harmless, and shown on the command line.
    Plain(OsString),
    /// Perhaps a secret: it travels in the environment of the engine's command.
    Hidden(OsString),
}

/// What a container is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A network of the engine's.
    Named(String),
    /// The network of another container, its `localhost` included.
    Of(String),
    /// The host's own.
    Host,
    /// Nothing but itself.
    None,
}

/// What a container may use. `None` is as much as there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerLimits {
    /// Bytes of memory; swap comes not on top.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Processors, in part: 1.5.
    pub cpus: Option<f64>,
}

impl Engine {
    /// The command that makes and starts a container, and stays with it until it has ended. Errors: a
    /// path that this engine's command line cannot carry.
    pub fn run(&self, spec: &ContainerSpec) -> Result<EngineCommand, EngineError> {
        let mut command = self.command().args(["run", "--rm", "--name", &spec.name]);
        for label in spec.labels.to_words() {
            command = command.args(["--label", &label]);
        }
        command = command.args(["--label", &format!("{}={}", Label::Kind.name(), spec.kind)]);
        command = match spec.stdio {
            Stdio::Detached => command.args(["--attach", "stderr"]),
            // Nothing of it is to be kept in a log: it is the bytes of tools.
            Stdio::Attached => command.args(["--interactive", "--log-driver", "none"]),
        };
        command = self.with_isolation(command, spec);
        for mount in &spec.mounts {
            command = self.with_mount(command, mount)?;
        }
        for (name, value) in &spec.variables {
            command = match value {
                Value::Plain(value) => {
                    let word = [name.as_os_str(), value.as_os_str()].join(OsStr::new("="));
                    command.arg("--env").arg(word)
                }
                Value::Hidden(value) => command.arg("--env").arg(name).variable(name, value),
            };
        }
        let command = command.arg("--entrypoint").arg(&spec.entrypoint).arg(&spec.image);
        Ok(command.args(&spec.args))
    }

    fn with_isolation(&self, mut command: EngineCommand, spec: &ContainerSpec) -> EngineCommand {
        command = command.args(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        for capability in &spec.capabilities {
            command = command.args(["--cap-add", capability]);
        }
        command = match spec.user {
            User::Caller => command.args(self.caller()),
            User::Root => command.args(["--user", "0:0"]),
        };
        command = match &spec.network {
            Network::Named(name) => command.args(["--network", name]),
            Network::Of(name) => command.args(["--network", &format!("container:{name}")]),
            Network::Host => command.args(["--network", "host"]),
            Network::None => command.args(["--network", "none"]),
        };
        for publish in &spec.publish {
            command = command.args(["--publish", publish]);
        }
        let limits = &spec.limits;
        if let Some(memory) = limits.memory {
            let memory = memory.to_string();
            command = command.args(["--memory", &memory, "--memory-swap", &memory]);
        }
        if let Some(pids) = limits.pids {
            command = command.args(["--pids-limit", &pids.to_string()]);
        }
        if let Some(cpus) = limits.cpus {
            command = command.args(["--cpus", &cpus.to_string()]);
        }
        // Nobody is to wait for a check that an image brings along.
        command.arg("--no-healthcheck").args(["--workdir", "/"])
    }

    /// As whom a container runs so that its processes are the caller's outside.
    fn caller(&self) -> Vec<String> {
        let ids = format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
        match (self.flavor(), self.facts().rootless) {
            (_, false) => vec!["--user".to_owned(), ids],
            // The caller is the root of the namespace that such an engine runs in.
            (Flavor::Docker, true) => vec!["--user".to_owned(), "0:0".to_owned()],
            (Flavor::Podman, true) => {
                vec!["--userns".to_owned(), "keep-id".to_owned(), "--user".to_owned(), ids]
            }
        }
    }

    fn with_mount(
        &self,
        command: EngineCommand,
        mount: &Mount,
    ) -> Result<EngineCommand, EngineError> {
        let ids = match (self.flavor(), self.facts().rootless) {
            (Flavor::Docker, true) => "uid=0,gid=0".to_owned(),
            _ => format!("uid={},gid={}", nix::unistd::getuid(), nix::unistd::getgid()),
        };
        Ok(match mount {
            Mount::Bind { from, to, read_only } => {
                let mut word = OsString::from("type=bind,source=");
                word.push(self.mount_field(from)?);
                word.push(",destination=");
                word.push(self.mount_field(to)?);
                if *read_only {
                    word.push(",readonly");
                }
                command.arg("--mount").arg(word)
            }
            Mount::Volume { name, to } => {
                let mut word = OsString::from("type=volume,source=");
                word.push(name);
                word.push(",destination=");
                word.push(self.mount_field(to)?);
                command.arg("--mount").arg(word)
            }
            Mount::Scratch { to } => match self.flavor() {
                Flavor::Docker => {
                    let mut word = to.as_os_str().to_owned();
                    word.push(format!(":exec,mode=0700,{ids}"));
                    command.arg("--tmpfs").arg(word)
                }
                Flavor::Podman => {
                    // The owner of a tmpfs is the container's user by this one word.
                    let mut word =
                        OsString::from("type=tmpfs,tmpfs-mode=0700,chown=true,destination=");
                    word.push(self.mount_field(to)?);
                    command.arg("--mount").arg(word)
                }
            },
        })
    }

    /// A path as part of `--mount`, whose parts are separated by commas.
    fn mount_field(&self, path: &Path) -> Result<OsString, EngineError> {
        let text = path.to_string_lossy();
        if text.contains([',', '"', '\n']) {
            return Err(EngineError::UnmountablePath(path.to_owned()));
        }
        Ok(path.as_os_str().to_owned())
    }
}
