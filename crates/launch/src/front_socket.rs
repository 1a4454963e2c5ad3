//! The listening socket of a session proxy.

use std::path::Path;

use aifo_host::{DirectoryError, SessionDir, create_private_directory};
use aifo_proxy::Listener;
use aifo_types::Endpoint;
use nix::unistd::getuid;

use crate::error::LaunchError;

/// The listening socket of the proxy.
pub(crate) struct FrontSocket {
    pub(crate) listener: Listener,
    /// The socket's directory, if the session created it.
    pub(crate) directory: Option<SessionDir>,
}

impl FrontSocket {
    /// Listens in `frontend`, the session directory, unless there is an address.
    pub(crate) fn open(listen: Option<Endpoint>, frontend: &Path) -> Result<Self, LaunchError> {
        let mut directory = None;
        let endpoint = match listen {
            None => {
                if !frontend.is_dir() {
                    create_private_directory(frontend)?;
                }
                Endpoint::Unix(frontend.join("exec.sock"))
            }
            Some(Endpoint::Unix(path)) => {
                directory = create_missing_parent(&path)?;
                Endpoint::Unix(path)
            }
            Some(tcp) => tcp,
        };
        Ok(FrontSocket { listener: Listener::bind(&endpoint, getuid())?, directory })
    }
}

/// Creates the directory of a socket with mode 0700, if it does not exist.
fn create_missing_parent(socket: &Path) -> Result<Option<SessionDir>, LaunchError> {
    let Some(parent) = socket.parent().filter(|parent| !parent.exists()) else { return Ok(None) };
    let made = SessionDir::create(parent.to_owned()).map(Some);
    Ok(made.map_err(|source| DirectoryError::new(parent, source))?)
}
