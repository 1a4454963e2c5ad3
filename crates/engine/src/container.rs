//! A container configuration, as arguments of `run`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::command::EngineCommand;
use crate::engine::{Engine, EngineError};
use crate::flavor::Flavor;
use crate::labels::{Label, Labels};

/// A container configuration. The engine removes the container when its first process ends,
/// even if the launcher has been killed.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// Its name, unique on the engine.
    pub name: String,
    /// The image; pulled if the engine does not have it.
    pub image: String,
    /// The labels of its session.
    pub labels: Labels,
    /// The kind of the sidecar.
    pub kind: String,
    /// The program of the first process; a path in the container. Replaces the image's entry point
    /// and command.
    pub entrypoint: PathBuf,
    /// The arguments of the first process.
    pub args: Vec<OsString>,
    /// Mounts of host directories, volumes and tmpfs.
    pub mounts: Vec<Mount>,
    /// Variables that are added to the image's, or replace them.
    pub variables: Vec<(OsString, Value)>,
    /// Its network.
    pub network: Network,
    /// Its host name, if not the engine's choice; only for a stack of its own.
    pub hostname: Option<&'static str>,
    /// Kernel parameters of its network stack, `NAME=VALUE`; only for a stack of its own.
    pub sysctls: Vec<&'static str>,
    /// Values of the engine's `--publish`, unchanged.
    pub publish: Vec<String>,
    /// Its resource limits.
    pub limits: ContainerLimits,
    /// The standard streams of its first process.
    pub stdio: Stdio,
    /// The user of its processes.
    pub user: User,
    /// Its capabilities; usually none.
    pub capabilities: Vec<&'static str>,
}

/// The user of a container's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user who starts it, so that new files in the workspace are that user's.
    Caller,
    /// The container root, to change the owner of files.
    Root,
}

/// The standard streams of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Only stderr is attached.
    Detached,
    /// stdin and stdout are those of the engine's command.
    Attached,
}

/// A mount in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// A directory or file of the host.
    Bind {
        /// On the host; absolute.
        from: PathBuf,
        /// In the container.
        to: PathBuf,
        /// True for a read-only mount.
        read_only: bool,
    },
    /// The engine volume, created if there is none of this name.
    Volume {
        /// Its name.
        name: String,
        /// In the container.
        to: PathBuf,
    },
    /// An empty tmpfs, owned by the container user.
    Scratch {
        /// In the container.
        to: PathBuf,
    },
}

impl Mount {
    /// Returns a bind mount.
    pub fn bind(from: &Path, to: impl AsRef<Path>, read_only: bool) -> Self {
        Mount::Bind { from: from.to_owned(), to: to.as_ref().to_owned(), read_only }
    }
}

/// A variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not secret; an argument of the engine's command.
    Plain(OsString),
    /// Possibly secret; in the environment of the engine's command.
    Hidden(OsString),
}

/// A container network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// The engine network.
    Named(String),
    /// The network stack of another container, with its `localhost`.
    Of(String),
    /// The host's network stack.
    Host,
    /// Loopback only.
    None,
}

/// The resource limits of a container. `None` is unlimited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerLimits {
    /// Bytes of memory. There is no swap.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Processors; a fraction such as 1.5 is allowed.
    pub cpus: Option<f64>,
    /// Limits of each process, by the engine name, such as `nofile`; soft and hard.
    pub ulimits: Vec<(&'static str, u64)>,
}

impl Engine {
    /// Returns the command that creates and starts a container and ends with it. Errors: a path that
    /// contains a line break.
    pub fn run(&self, spec: &ContainerSpec) -> Result<EngineCommand, EngineError> {
        let mut command = self.command().args(["run", "--rm", "--name", &spec.name]);
        for label in spec.labels.to_words() {
            command = command.args(["--label", &label]);
        }
        command = command.args(["--label", &format!("{}={}", Label::Kind.name(), spec.kind)]);
        command = match spec.stdio {
            Stdio::Detached => command.args(["--attach", "stderr"]),
            // The streams carry the tools' bytes, which the engine must not log.
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
            User::Caller => {
                let facts = (self.flavor(), self.facts().rootless);
                command.args(caller_options(facts, &spec.network))
            }
            User::Root => command.args(["--user", "0:0"]),
        };
        command = match &spec.network {
            Network::Named(name) => command.args(["--network", name]),
            Network::Of(name) => command.args(["--network", &format!("container:{name}")]),
            Network::Host => command.args(["--network", "host"]),
            Network::None => command.args(["--network", "none"]),
        };
        if let Some(hostname) = spec.hostname {
            command = command.args(["--hostname", hostname]);
        }
        for sysctl in &spec.sysctls {
            command = command.args(["--sysctl", sysctl]);
        }
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
        for (name, limit) in &limits.ulimits {
            command = command.args(["--ulimit", &format!("{name}={limit}:{limit}")]);
        }
        // The image's health check does not apply to the runner.
        command.arg("--no-healthcheck").args(["--workdir", "/"])
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
        let docker = self.flavor() == Flavor::Docker;
        let fields = match mount {
            Mount::Bind { from, to, read_only } => {
                let mut fields = vec!["type=bind".into(), field("source", from), target(to)];
                fields.extend(read_only.then(|| "readonly".into()));
                fields
            }
            Mount::Volume { name, to } => {
                vec!["type=volume".into(), field("source", Path::new(name)), target(to)]
            }
            Mount::Scratch { to } if docker => {
                let mut word = to.as_os_str().to_owned();
                word.push(format!(":exec,mode=0700,{ids}"));
                return Ok(command.arg("--tmpfs").arg(word));
            }
            // `chown=true` makes the container user the owner.
            Mount::Scratch { to } => {
                let options = ["type=tmpfs", "tmpfs-mode=0700", "chown=true"].map(OsString::from);
                options.into_iter().chain([target(to)]).collect()
            }
        };
        Ok(command.arg("--mount").arg(record(&fields)?))
    }
}

/// Returns the options that make the processes the caller's on the host. A container that joins the network
/// stack of another one joins its user namespace, too: only there may it mount `/sys`.
fn caller_options((flavor, rootless): (Flavor, bool), network: &Network) -> Vec<String> {
    let ids = format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
    match (flavor, rootless) {
        (_, false) => vec!["--user".to_owned(), ids],
        // The caller is root in the user namespace of a rootless docker.
        (Flavor::Docker, true) => vec!["--user".to_owned(), "0:0".to_owned()],
        (Flavor::Podman, true) => {
            let namespace = match network {
                Network::Of(name) => format!("container:{name}"),
                _ => "keep-id".to_owned(),
            };
            vec!["--userns".to_owned(), namespace, "--user".to_owned(), ids]
        }
    }
}

fn target(path: &Path) -> OsString {
    field("destination", path)
}

fn field(name: &str, path: &Path) -> OsString {
    let mut field = OsString::from(name);
    field.push("=");
    field.push(path);
    field
}

/// Joins the fields of `--mount`, which both engines read as a CSV record.
fn record(fields: &[OsString]) -> Result<OsString, EngineError> {
    let mut record = Vec::new();
    for field in fields {
        let bytes = field.as_bytes();
        if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(EngineError::UnmountablePath(PathBuf::from(field)));
        }
        if !record.is_empty() {
            record.push(b',');
        }
        if bytes.iter().any(|byte| matches!(byte, b',' | b'"')) {
            let doubled = bytes.iter().flat_map(|byte| match byte {
                b'"' => &b"\"\""[..],
                other => std::slice::from_ref(other),
            });
            record.push(b'"');
            record.extend(doubled);
            record.push(b'"');
        } else {
            record.extend_from_slice(bytes);
        }
    }
    Ok(OsString::from_vec(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let of = |fields: &[&str]| {
            let fields: Vec<OsString> = fields.iter().map(OsString::from).collect();
            record(&fields).map(|record| record.into_string().unwrap()).ok()
        };
        assert_eq!(of(&["type=bind", "source=/a"]).as_deref(), Some("type=bind,source=/a"));
        let quoted = of(&["source=/a,b", "destination=/c\"d", "readonly"]);
        let expected = "\"source=/a,b\",\"destination=/c\"\"d\",readonly";
        assert_eq!(quoted.as_deref(), Some(expected));
        assert_eq!(of(&["source=/a\nb"]), None);
    }

    #[test]
    fn a_joined_stack_of_rootless_podman_has_its_user_namespace() {
        let of = |rootless, network: &Network| {
            caller_options((Flavor::Podman, rootless), network).join(" ")
        };
        let stack = Network::Of("aifo-pod-1".to_owned());
        assert!(of(true, &stack).starts_with("--userns container:aifo-pod-1 --user "));
        for network in [Network::None, Network::Named("n".to_owned())] {
            assert!(of(true, &network).starts_with("--userns keep-id --user "));
        }
        assert!(of(false, &stack).starts_with("--user "));
    }
}
