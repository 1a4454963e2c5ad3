//! Confinement of local tools, and its summary for the user.

use std::path::Path;

use aifo_process::{Enforcement, enforcement};
use aifo_sidecar::{LocalConfinement, namespace_obstacle};

use crate::error::LaunchError;

/// The requested confinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfinementMode {
    /// As far as the kernel supports it; the summary shows how far.
    #[default]
    Auto,
    /// Required: without it the session does not start.
    Required,
    /// A namespace, as far as possible with Landlock, too: without the namespace the session does not
    /// start.
    Namespace,
    /// None.
    Off,
}

/// The network of local tools, in a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// This machine's.
    Machine,
    /// A network by name.
    Names,
}

impl ConfinementMode {
    /// Returns the confinement of local tools. `runner_program` is tried out if a namespace is
    /// requested.
    pub(crate) fn local(
        self,
        runner_program: &Path,
        workspace: &Path,
    ) -> Result<LocalConfinement, LaunchError> {
        match (self, enforcement()) {
            (ConfinementMode::Namespace, _) => {
                match namespace_obstacle(runner_program, workspace) {
                    None => Ok(LocalConfinement::Namespace),
                    Some(reason) => Err(LaunchError::NoNamespace(reason)),
                }
            }
            (ConfinementMode::Off, _) | (ConfinementMode::Auto, Enforcement::Nothing) => {
                Ok(LocalConfinement::Unconfined)
            }
            (ConfinementMode::Required, Enforcement::Nothing) => Err(LaunchError::NoConfinement),
            _ => Ok(LocalConfinement::Confined),
        }
    }

    /// Describes in one line what is enforced for local sidecars on this machine.
    pub fn summary(self, access: NetworkAccess) -> String {
        let network = match access {
            NetworkAccess::Machine => "use the network",
            NetworkAccess::Names => "reach permitted names only",
        };
        match (self, enforcement()) {
            (ConfinementMode::Off, _) => {
                format!(
                    "tools are not confined, as asked: they can write whatever you can and {network}"
                )
            }
            (ConfinementMode::Namespace, Enforcement::WritesAndSignals) => format!(
                "tools write only to the workspace, the session's temporary directory and caches, and \
                 signal only each other (namespace, Landlock); they can read whatever you can but \
                 ~/.ssh, ~/.aws, ~/.gnupg, ~/.config/gcloud and ~/.kube, and {network}"
            ),
            (ConfinementMode::Namespace, _) => format!(
                "tools write only to the workspace, the session's temporary directory and caches \
                 (namespace); they can read whatever you can but ~/.ssh, ~/.aws, ~/.gnupg, \
                 ~/.config/gcloud and ~/.kube, {network} and send signals to your processes"
            ),
            (_, Enforcement::Nothing) => format!(
                "tools are not confined: this kernel does not support it (Landlock), so they can \
                 write whatever you can and {network}"
            ),
            (_, Enforcement::Writes) => format!(
                "tools write only to the workspace, the session's temporary directory and caches \
                 (Landlock); they can read whatever you can, {network} and send signals to \
                 your processes"
            ),
            (_, Enforcement::WritesAndSignals) => format!(
                "tools write only to the workspace, the session's temporary directory and caches, \
                 and signal only each other (Landlock); they can read whatever you can and {network}"
            ),
        }
    }
}
