//! The network of a session's containers.
//!
//! A network stack ends with the container that it was created for. A container of its own holds each
//! stack that sidecars of several kinds share, so that each sidecar can start and stop.

use std::sync::{Arc, PoisonError};

use aifo_engine::{
    ContainerSpec, EngineCommand, EngineError, Network, POD, container_name, network_name,
};
use aifo_types::Kind;
use tokio::sync::Mutex;

use super::{Net, Shared, engine_error, kind};
use crate::error::SidecarError;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::stack_sockets::StackSockets;

/// The container that holds the network, stopped on drop.
#[derive(Debug)]
pub(super) struct Pod {
    /// The container runner, if there is a container and it has started.
    holder: Option<Runner>,
    lost: u32,
}

impl Shared {
    /// Returns a stack network, which may not exist yet.
    fn pod(&self, stack: &str) -> Arc<Mutex<Option<Pod>>> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pods.entry(stack.to_owned()).or_default())
    }

    pub(super) fn network_name(&self) -> String {
        network_name(&self.config.labels.session)
    }

    /// Returns the name of the container that holds a stack.
    pub(super) fn pod_name(&self, stack: &str) -> String {
        container_name(&holder_kind(stack), &self.config.labels.session)
    }

    /// Returns the stacks that sidecars of these kinds join, each with its first kind.
    pub(super) fn stacks_of<'a>(&self, kinds: &'a [Kind]) -> Vec<(String, &'a Kind)> {
        let mut stacks: Vec<(String, &Kind)> = Vec::new();
        let joins = |kind: &&Kind| !self.holds_stack(kind.as_str());
        for kind in kinds.iter().filter(joins).filter(|_| self.has_pod()) {
            let stack = self.stack_of(kind.as_str());
            if !stacks.iter().any(|(known, _)| *known == stack) {
                stacks.push((stack, kind));
            }
        }
        stacks
    }

    pub(super) fn has_network(&self) -> bool {
        matches!(self.config.net, Net::Shared | Net::Separate)
    }

    pub(super) fn has_pod(&self) -> bool {
        self.config.net == Net::Shared || self.config.net.is_by_name()
    }

    /// Returns the commands that create the network for the first sidecar of these kinds.
    pub(super) fn pod_commands(&self, kinds: &[Kind]) -> Result<Vec<EngineCommand>, EngineError> {
        let engine = &self.config.engine;
        let mut commands = Vec::new();
        if self.has_network() {
            commands.push(engine.create_network(&self.network_name(), &self.config.labels));
        }
        for (stack, first) in self.stacks_of(kinds) {
            commands.push(engine.run(&self.pod_container(&stack, first))?);
        }
        Ok(commands)
    }

    /// Uses the image of the first sidecar, because the engine has it.
    fn pod_container(&self, stack: &str, first: &Kind) -> ContainerSpec {
        let image = self.image(first);
        let mut spec = kind::container(self, self.pod_name(stack), &holder_kind(stack), image);
        if self.config.net.is_by_name() {
            match &self.config.join {
                Some(network) => spec.network = Network::Named(network.clone()),
                None => self.resolve_names(&mut spec),
            }
            return spec;
        }
        spec.network = Network::Named(self.network_name());
        spec.publish.clone_from(&self.config.publish);
        self.isolate_network(&mut spec);
        spec
    }

    /// Creates the network for a sidecar of this kind, if it does not exist. A stack that a sidecar or the
    /// agent's container holds itself starts with it.
    pub(super) async fn ensure_network(
        &self,
        kind: &Kind,
        progress: &Progress,
    ) -> Result<(), SidecarError> {
        if self.config.net.is_by_name() {
            let written = self.write_resolv_conf(kind);
            written.map_err(|source| SidecarError::Start { kind: kind.clone(), source })?;
            if self.holds_stack(kind.as_str()) {
                return Ok(());
            }
        }
        let stack = self.stack_of(kind.as_str());
        let slot = self.pod(&stack);
        // Other stacks start meanwhile.
        let mut pod = slot.lock().await;
        let is_held = |pod: &Pod| pod.holder.as_ref().is_some_and(|holder| !holder.is_lost());
        let exists = pod.as_ref().is_some_and(|pod| is_held(pod) || !self.has_pod());
        if exists || !(self.has_network() || self.has_pod()) {
            return Ok(());
        }
        let engine = &self.config.engine;
        let lost = match &*pod {
            Some(pod) => {
                let lost = pod.lost.saturating_add(1);
                // Containers that share the lost stack keep running without a network.
                let freed = self.free_pod_name(&stack, lost).await;
                freed.map_err(|error| engine_error(kind, error))?;
                lost
            }
            None => {
                if self.has_network() {
                    let create = engine.create_network(&self.network_name(), &self.config.labels);
                    engine.output(&create).await.map_err(|error| engine_error(kind, error))?;
                }
                0
            }
        };
        // The network exists from here on, also if its container fails.
        *pod = Some(Pod { holder: None, lost });
        if self.has_pod() {
            let spec = self.pod_container(&stack, kind);
            let holder = self.start_in_stack(kind.clone(), &spec, progress).await?;
            let running = engine.wait_until_running(&spec.name).await;
            running.map_err(|error| engine_error(kind, error))?;
            *pod = Some(Pod { holder: Some(holder), lost });
        }
        Ok(())
    }

    /// Returns a check whether the stack that sidecars of this kind share was lost, after which nothing
    /// serves it. Only for [`Net::Names`]: another network lets them go on with what they have.
    pub(super) async fn stack_loss(&self, kind: &Kind) -> impl Fn() -> bool + Send + Sync + use<> {
        let slot = self.pod(&self.stack_of(kind.as_str()));
        let pod = slot.lock().await;
        let holder = pod.as_ref().and_then(|pod| pod.holder.as_ref());
        let loss = holder.filter(|_| self.config.net.is_by_name()).map(Runner::loss);
        move || loss.as_ref().is_some_and(|is_lost| is_lost())
    }

    /// Returns what opens sockets in a stack that sidecars share, if it has a holder. Must not be called by
    /// the start of one.
    pub(super) async fn holder_sockets(&self, stack: &str) -> Option<StackSockets> {
        let slot = self.pod(stack);
        let pod = slot.lock().await;
        let holder = pod.as_ref().and_then(|pod| pod.holder.as_ref());
        holder.map(Runner::stack_sockets)
    }

    /// Frees the name of a lost container. Podman does not remove a container whose stack is shared, so
    /// it is renamed and removed with the session.
    async fn free_pod_name(&self, stack: &str, lost: u32) -> Result<(), EngineError> {
        let (engine, name) = (&self.config.engine, self.pod_name(stack));
        let Err(error) = engine.remove_containers(std::slice::from_ref(&name)).await else {
            return Ok(());
        };
        let aside = format!("{name}-lost-{lost}");
        self.names().insert(aside.clone());
        let renamed = engine.output(&engine.command().args(["rename", &name, &aside])).await;
        renamed.map(drop).map_err(|_| error)
    }
}

/// Returns the kind of the container that holds a stack.
fn holder_kind(stack: &str) -> String {
    match stack.split_once(':') {
        Some((_, name)) => format!("{POD}.{name}"),
        None => POD.to_owned(),
    }
}
