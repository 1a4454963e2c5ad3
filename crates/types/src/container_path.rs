//! Fixed paths in containers, which launcher, sidecars and shim share.

/// The directory of the shims.
pub const SHIM_DIR: &str = "/opt/aifo/bin";
/// The shim's binary.
pub const SHIM: &str = "/opt/aifo/bin/aifo-shim";
/// The runner.
pub const RUNNER: &str = "/opt/aifo/bin/aifo-runner";
/// The directory of sockets: in an agent's container that of the proxy, in a sidecar that of the
/// runner.
pub const SOCKET_DIR: &str = "/run/aifo";
/// The directory of the launcher in a pod, below which it shares a directory with each container.
pub const POD_DIR: &str = "/run/aifo-pod";
/// The file beside a control socket that the launcher of a pod creates when it ends.
pub const LAUNCHER_ENDED: &str = "ended";
/// The directory of the control socket, in the agent container.
pub const AGENT_SOCKET_DIR: &str = "/run/aifo-agent";
/// The shim settings, in an agent container.
pub const SHIM_SETTINGS: &str = "/run/aifo/shim.env";
/// A directory of the agent's container that no tool has, for files that its programs map or execute and for
/// sockets.
pub const PRIVATE_DIR: &str = "/home/coder/.private";
