//! The network that the containers of a session share.
//!
//! A network stack lives as long as the container that it was made for. So that any sidecar may come
//! and go, it is made for one that does nothing else.

use aifo_engine::{ContainerSpec, EngineCommand, EngineError, Network};
use aifo_types::Kind;

use super::{Net, Shared, engine_error, kind};
use crate::backend::SidecarError;
use crate::runner::Runner;

/// What holds the network. It ends with this.
#[derive(Debug)]
pub(super) struct Pod {
    /// Of the container, where there is one.
    holder: Option<Runner>,
}

/// The kind of the container that only holds the network. No tool is ever routed there.
const KIND: &str = "net";

impl Shared {
    pub(super) fn network_name(&self) -> String {
        format!("aifo-net-{}", self.config.labels.session)
    }

    pub(super) fn pod_name(&self) -> String {
        format!("aifo-pod-{}", self.config.labels.session)
    }

    pub(super) fn has_network(&self) -> bool {
        matches!(self.config.net, Net::Shared | Net::Separate)
    }

    pub(super) fn has_pod(&self) -> bool {
        self.config.net == Net::Shared
    }

    /// What brings the network up for a first sidecar of one of these kinds.
    pub(super) fn pod_commands(&self, kinds: &[Kind]) -> Result<Vec<EngineCommand>, EngineError> {
        let engine = &self.config.engine;
        let mut commands = Vec::new();
        if self.has_network() {
            commands.push(engine.create_network(&self.network_name(), &self.config.labels));
        }
        if let Some(first) = kinds.first().filter(|_| self.has_pod()) {
            commands.push(engine.run(&self.pod_container(first))?);
        }
        Ok(commands)
    }

    /// Any image does; that of the first sidecar is there.
    fn pod_container(&self, first: &Kind) -> ContainerSpec {
        let image = self.config.images.of(first);
        let mut spec = kind::container(self, self.pod_name(), KIND, image);
        spec.network = Network::Named(self.network_name());
        spec.publish.clone_from(&self.config.publish);
        spec
    }

    /// Brings the network up for a sidecar of this kind, unless it is.
    pub(super) async fn ensure_network(&self, kind: &Kind) -> Result<(), SidecarError> {
        let mut pod = self.pod.lock().await;
        let is_up = |pod: &Pod| pod.holder.as_ref().is_none_or(|holder| !holder.is_lost());
        if pod.as_ref().is_some_and(is_up) || !self.has_network() {
            return Ok(());
        }
        let engine = &self.config.engine;
        if pod.take().is_some() {
            // Whoever shares the lost stack has no way out any more, but goes on.
            let removed = engine.remove_containers(&[self.pod_name()]).await;
            removed.map_err(|error| engine_error(kind, error))?;
        } else {
            let create = engine.create_network(&self.network_name(), &self.config.labels);
            engine.output(&create).await.map_err(|error| engine_error(kind, error))?;
        }
        let holder = match self.has_pod() {
            true => {
                let holder = self.bring_up(kind.clone(), &self.pod_container(kind)).await?;
                let running = engine.wait_until_running(&self.pod_name()).await;
                running.map_err(|error| engine_error(kind, error))?;
                Some(holder)
            }
            false => None,
        };
        *pod = Some(Pod { holder });
        Ok(())
    }
}
