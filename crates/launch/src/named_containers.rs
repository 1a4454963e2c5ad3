//! Settings of containers that a network by name needs checked (`spec/network.md`).

use aifo_network::{InvalidPort, NetworkError, PublishedPort};

use crate::backend::Containers;
use crate::error::LaunchError;

impl Containers {
    /// Errors: the network that tools join does not exist.
    pub(crate) async fn check_join(&self) -> Result<(), LaunchError> {
        let Some(network) = self.join.as_ref().filter(|_| self.net.is_by_name()) else {
            return Ok(());
        };
        if self.engine.has_network(network).await {
            return Ok(());
        }
        let program = self.engine.flavor().program();
        Err(NetworkError(format!(
            "{program} has no network '{network}'\n\
             hint: start what creates it, such as compose; `{program} network ls` lists networks"
        ))
        .into())
    }

    /// Returns the ports that the launcher publishes. Errors: one is not valid, with a hint.
    pub(crate) fn published(&self) -> Result<Vec<PublishedPort>, LaunchError> {
        let values = self.publish.iter().map(|value| value.parse());
        let parsed: Result<_, InvalidPort> = values.collect();
        parsed.map_err(|error| NetworkError(error.to_string()).into())
    }
}
