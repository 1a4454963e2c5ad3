//! The runner for commands of the host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use aifo_process::ResourceLimit;
use aifo_sidecar::{
    Caches, Fleet, LocalBackend, LocalConfinement, Reporter, SidecarError, Startup, Transport,
};

/// The environment of host commands.
#[derive(Clone, Debug)]
pub struct HostRunner {
    /// The `aifo-shim` binary, which is the runner.
    pub runner_program: PathBuf,
    /// Their directory; a real path.
    pub workspace: PathBuf,
    /// Their PATH.
    pub path: OsString,
    /// Their limit on open files.
    pub open_files: ResourceLimit,
}

/// Creates a fleet without sidecars, for the runner of the host. It is not confined: its commands must
/// reach the host.
pub async fn host_fleet(host: HostRunner) -> Result<Fleet, Arc<SidecarError>> {
    let backend = LocalBackend {
        runner_program: host.runner_program,
        workspace: host.workspace,
        tmp: None,
        path: host.path,
        open_files: host.open_files,
        confinement: LocalConfinement::Unconfined,
        restrictions: Vec::new(),
        transport: Transport::Descriptors,
        caches: Caches::None,
        network: None,
    };
    // The first backend serves no kind.
    let (kinds, host) = (Box::new(backend.clone()), Box::new(backend));
    Fleet::start(kinds, host, Vec::new(), Startup::default(), Reporter::default()).await
}
