//! Containers whose network stacks are served from outside (`spec/network.md#stacks`).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aifo_engine::{ContainerSpec, Mount, Network};
use aifo_types::Kind;

use super::Shared;
use crate::error::SidecarError;
use crate::listeners::RESOLVER;
use crate::local::Transport;
use crate::progress::Progress;
use crate::runner::{Runner, StackRole};
use crate::stack_server::{AGENT_STACK, ServedStack, TOOLS_STACK, WatchIntervals, serve_until};

/// The name of the resolver's configuration in the directory of sockets. No kind has a dot.
const RESOLV_CONF: &str = "resolv.conf";

/// Lets the runner bind port 53, and ports of rules such as 443, without a capability.
const ALL_PORTS: &str = "net.ipv4.ip_unprivileged_port_start=0";

/// The host name of a stack, which resolves to 127.0.0.1; the engine's choice would have no address. It
/// has no dot: resolvers also search names in the domain of the host.
const HOSTNAME: &str = "localhost";

/// Time for the processes of a lost sidecar to end.
const LOSS_PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// Returns the network stack of a kind's containers.
    pub(super) fn stack_of(&self, kind: &str) -> String {
        if !self.config.net.is_by_name() {
            return TOOLS_STACK.to_owned();
        }
        if kind == Kind::agent().as_str() {
            return AGENT_STACK.to_owned();
        }
        let stacks = self.config.stacks.as_ref().zip(Kind::parse(kind).ok());
        stacks.map_or_else(|| TOOLS_STACK.to_owned(), |(stacks, kind)| stacks.stack_of(&kind))
    }

    /// Returns whether a kind's container holds its network stack: the agent's, and, where sockets pass, a
    /// sidecar that shares the stack with no other kind.
    pub(super) fn holds_stack(&self, kind: &str) -> bool {
        let config = &self.config;
        if !config.net.is_by_name() {
            return false;
        }
        let is_alone = || {
            let stacks = config.stacks.as_ref().zip(Kind::parse(kind).ok());
            stacks.is_some_and(|(stacks, kind)| stacks.has_own_stack(&kind))
        };
        // Frames of a stack would delay those of its calls.
        let passes_sockets = config.transport == Transport::Descriptors;
        let may_hold = passes_sockets && config.join.is_none();
        kind == Kind::agent().as_str() || may_hold && is_alone()
    }

    /// Returns whether a container stack is served from outside, with no network of the engine.
    pub(super) fn is_served(&self, spec: &ContainerSpec) -> bool {
        let is_agent = spec.kind == Kind::agent().as_str();
        self.config.net.is_by_name() && (is_agent || self.config.join.is_none())
    }

    /// Gives a container the resolver of its stack, and its own stack a host name and the right to bind
    /// every port.
    pub(super) fn resolve_names(&self, spec: &mut ContainerSpec) {
        let from = self.resolv_conf();
        spec.mounts.push(Mount::bind(&from, "/etc/resolv.conf", true));
        if spec.network == Network::None {
            spec.hostname = Some(HOSTNAME);
            spec.sysctls.push(ALL_PORTS);
        }
    }

    fn resolv_conf(&self) -> PathBuf {
        self.config.sockets.join(RESOLV_CONF)
    }

    /// Writes the resolver's configuration that containers mount, for the start of this kind.
    pub(super) fn write_resolv_conf(&self, kind: &Kind) -> io::Result<()> {
        let path = self.resolv_conf();
        if path.exists() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.config.sockets)?;
        // Another start may do the same: neither may mount a file without content.
        let own = self.config.sockets.join(format!("{RESOLV_CONF}.{kind}"));
        std::fs::write(&own, RESOLVER)?;
        std::fs::rename(own, path)
    }

    /// Starts a container of this kind, or the one that holds the kind's stack. If its runner holds a
    /// stack, the stack is served until the runner is lost.
    pub(super) async fn start_in_stack(
        &self,
        kind: Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Runner, SidecarError> {
        let stack = self.stack_of(kind.as_str());
        let server = self.config.stacks.as_ref().filter(|_| self.config.net.is_by_name());
        let Some(server) = server else {
            // The agent's model keys have a listener in its stack, whatever its network is.
            let role = match kind == Kind::agent() {
                true => StackRole::Joined,
                false => StackRole::None,
            };
            let started = self.start_container(kind, spec, progress, role).await;
            return started.map(|(runner, _)| runner);
        };
        let is_agent = stack == AGENT_STACK;
        // The container that only holds a stack has another kind.
        let runs_tools = spec.kind == kind.as_str();
        let joins_stack = matches!(spec.network, Network::Of(_));
        let ports = server.ports(&stack);
        let role = match (joins_stack, &ports) {
            (true, _) => StackRole::None,
            (false, None) => StackRole::Joined,
            (false, Some(ports)) => StackRole::Served(ports),
        };
        let started = self.start_container(kind.clone(), spec, progress, role).await;
        let (runner, clients): (Runner, Option<ServedStack>) = started?;
        let report = {
            let (server, stack) = (Arc::clone(server), stack.clone());
            move |report, listeners| server.report(&stack, report, listeners)
        };
        runner.receive_listeners(report);
        if runs_tools {
            runner.watch_listeners(match is_agent {
                true => WatchIntervals::AGENT,
                false => WatchIntervals::TOOLS,
            });
        }
        if joins_stack {
            self.report_after_loss(&stack, &runner).await;
            return Ok(runner);
        }
        let serving = server.serve(&stack, clients, runner.stack_sockets());
        serve_until(serving, runner.lost());
        Ok(runner)
    }

    /// Has the holder of the stack report its listeners when a sidecar is lost, whose tools may have
    /// listened.
    async fn report_after_loss(&self, stack: &str, sidecar: &Runner) {
        let Some(sockets) = self.holder_sockets(stack).await else { return };
        let lost = sidecar.lost();
        tokio::spawn(async move {
            lost.await;
            // The kernel closes the runner connection before it kills the other processes.
            tokio::time::sleep(LOSS_PAUSE).await;
            sockets.report_listeners();
        });
    }
}
