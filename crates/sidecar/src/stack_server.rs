//! The interface to the launcher, which serves the network stacks of a session (`spec/network.md`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::listeners::StackListeners;
use crate::relayed_stack::RelayedStack;

/// The clients of a network stack, for a process outside of it.
#[derive(Debug)]
pub enum ServedStack {
    /// The sockets that they connect to.
    Passed(StackListeners),
    /// Their connections, from a runner that passes no descriptors.
    Relayed(RelayedStack),
}

/// Serves the network stacks of a session from outside.
#[derive(Clone)]
pub struct StackServer {
    /// The TCP ports that each stack listens on besides DNS.
    pub ports: Vec<u16>,
    /// Serves the stack of this name until the future is dropped, which closes every connection.
    pub serve: Arc<dyn Fn(&'static str, ServedStack) -> Serving + Send + Sync>,
}

impl StackServer {
    /// Serves a stack in a task of its own until `lost` completes, which closes its listeners and
    /// connections.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        stack: ServedStack,
        lost: impl Future<Output = ()> + Send + 'static,
    ) {
        let serving = (self.serve)(name, stack);
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = lost => {}
            }
        });
    }
}

/// The future that serves a stack.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for StackServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackServer").field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// The name of the stack of all tools.
pub(crate) const TOOLS: &str = "tools";

/// The resolver's configuration of a stack: it resolves names at its own loopback address.
pub(crate) const RESOLVER: &str = "nameserver 127.0.0.1\n";
