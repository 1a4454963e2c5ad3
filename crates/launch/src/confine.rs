//! Confinement of local tools, and its summary for the user.

use aifo_process::{Enforcement, enforcement};
use aifo_sidecar::LocalConfinement;

use crate::error::LaunchError;

/// The requested confinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfinementMode {
    /// As far as the kernel supports it; the summary shows how far.
    #[default]
    Auto,
    /// Required: without it the session does not start.
    Required,
    /// None.
    Off,
}

impl ConfinementMode {
    pub(crate) fn local(self) -> Result<LocalConfinement, LaunchError> {
        match (self, enforcement()) {
            (ConfinementMode::Off, _) | (ConfinementMode::Auto, Enforcement::Nothing) => {
                Ok(LocalConfinement::Unconfined)
            }
            (ConfinementMode::Required, Enforcement::Nothing) => Err(LaunchError::NoConfinement),
            _ => Ok(LocalConfinement::Confined),
        }
    }

    /// Describes in one line what is enforced for local sidecars on this machine.
    pub fn summary(self) -> &'static str {
        match (self, enforcement()) {
            (ConfinementMode::Off, _) => {
                "tools are not confined, as asked: they can write whatever you can"
            }
            (_, Enforcement::Nothing) => {
                "tools are not confined: this kernel does not support it (Landlock), so they can \
                 write whatever you can"
            }
            (_, Enforcement::Writes) => {
                "tools write only to the workspace, the session's temporary directory and caches \
                 (Landlock); they can read whatever you can, use the network and send signals to \
                 your processes"
            }
            (_, Enforcement::WritesAndSignals) => {
                "tools write only to the workspace, the session's temporary directory and caches, \
                 and signal only each other (Landlock); they can read whatever you can and use \
                 the network"
            }
        }
    }
}
