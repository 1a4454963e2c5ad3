//! The runner that commands of the host run under.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use aifo_process::ResourceLimit;
use aifo_sidecar::{
    Caches, Fleet, LocalBackend, LocalConfinement, Reporter, SidecarError, Startup, Transport,
};

/// What commands of the host are to find.
#[derive(Clone, Debug)]
pub struct Host {
    /// The `aifo-shim` binary, which is the runner.
    pub runner_program: PathBuf,
    /// Where they run; a real path.
    pub workspace: PathBuf,
    /// Their PATH.
    pub path: OsString,
    /// Their limit on open files.
    pub open_files: ResourceLimit,
}

/// A fleet without sidecars, for the host's own runner. Nothing confines what runs there: a command is
/// served because it is to reach the host.
pub async fn host_fleet(host: Host) -> Result<Fleet, Arc<SidecarError>> {
    let backend = LocalBackend {
        runner_program: host.runner_program,
        workspace: host.workspace,
        tmp: None,
        path: host.path,
        open_files: host.open_files,
        confinement: LocalConfinement::Unconfined,
        transport: Transport::Descriptors,
        caches: Caches::None,
    };
    // No kind is ever asked of the first.
    let (kinds, host) = (Box::new(backend.clone()), Box::new(backend));
    Fleet::start(kinds, host, Vec::new(), Startup::AtOnce, Reporter::default()).await
}
