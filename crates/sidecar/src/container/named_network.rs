//! Containers whose network stacks are served from outside (`spec/network.md#stacks`).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use aifo_engine::{ContainerSpec, Mount, Network};
use aifo_types::Kind;

use super::{Net, Shared};
use crate::error::SidecarError;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::stack_server::{RESOLVER, ServedStack, TOOLS};

/// The stack of the agent.
const AGENT: &str = "agent";

/// The name of the resolver's configuration in the directory of sockets. No kind has a dot.
const RESOLV_CONF: &str = "resolv.conf";

/// Lets the runner bind port 53, and ports of rules such as 443, without a capability.
const ALL_PORTS: &str = "net.ipv4.ip_unprivileged_port_start=0";

impl Shared {
    /// Returns the stack that a container's runner holds and the launcher serves, if there is one.
    fn own_stack(&self, spec: &ContainerSpec) -> Option<&'static str> {
        match self.config.net {
            Net::Names | Net::Learn if spec.kind == Kind::agent().as_str() => Some(AGENT),
            Net::Names | Net::Learn if spec.network == Network::None => Some(TOOLS),
            _ => None,
        }
    }

    /// Gives a container the resolver of its stack, and the right to bind every port of its own one.
    pub(super) fn resolve_names(&self, spec: &mut ContainerSpec) {
        let from = self.resolv_conf();
        spec.mounts.push(Mount::bind(&from, "/etc/resolv.conf", true));
        if spec.network == Network::None {
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

    /// Starts a container. If its runner holds a stack, the stack is served until the runner is lost.
    pub(super) async fn start_in_stack(
        &self,
        kind: Kind,
        spec: &ContainerSpec,
        progress: &Progress,
    ) -> Result<Runner, SidecarError> {
        let stack = self.own_stack(spec).zip(self.config.stacks.as_ref());
        let Some((name, server)) = stack else {
            return self
                .start_container(kind, spec, progress, None)
                .await
                .map(|(runner, _)| runner);
        };
        let started = self.start_container(kind.clone(), spec, progress, Some(&server.ports)).await;
        let (runner, served): (Runner, Option<ServedStack>) = started?;
        let Some(served) = served else {
            return Err(SidecarError::Protocol { kind, source: None });
        };
        server.spawn(name, served, runner.lost());
        Ok(runner)
    }
}
