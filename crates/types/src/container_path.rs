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
/// The shim's settings, in an agent's container.
pub const SHIM_SETTINGS: &str = "/run/aifo/shim.env";
