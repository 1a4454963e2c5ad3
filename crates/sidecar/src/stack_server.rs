//! The interface to the launcher, which serves the network stacks of a session (`spec/network.md`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use aifo_types::Kind;
use aifo_wire::{Listener, ListenerReport};

use crate::listeners::StackListeners;
use crate::relayed_stack::RelayedStack;
use crate::stack_sockets::StackSockets;

/// The stack of tools whose kind has none of its own.
pub const TOOLS_STACK: &str = "tools";
/// The agent stack.
pub const AGENT_STACK: &str = "agent";

/// The clients of a network stack, for a process outside of it.
#[derive(Debug)]
pub enum ServedStack {
    /// The sockets that they connect to.
    Passed(StackListeners),
    /// Their connections, from a runner that passes no descriptors.
    Relayed(RelayedStack),
}

/// Serves the network stacks of a session from outside.
pub trait StackServer: fmt::Debug + Send + Sync {
    /// Returns the stack of the tools of a kind: [`TOOLS_STACK`], or that and `:NAME`.
    fn stack_of(&self, kind: &Kind) -> String;

    /// Returns whether the stack of a kind has the tools of no other kind.
    fn has_own_stack(&self, kind: &Kind) -> bool;

    /// Returns the TCP ports that a stack listens on besides DNS, or `None` if it has a network of the
    /// engine.
    fn ports(&self, stack: &str) -> Option<Vec<u16>>;

    /// Serves a stack until the future is dropped, which closes every connection. `clients` are
    /// those of [`StackServer::ports`].
    fn serve(&self, stack: &str, clients: Option<ServedStack>, sockets: StackSockets) -> Serving;

    /// Receives what listens in a stack, after a change.
    fn report(&self, stack: &str, report: ListenerReport, listeners: Vec<Listener>);
}

/// The future that serves a stack.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves a stack in a task of its own until `lost` completes, which closes its listeners and
/// connections.
pub(crate) fn serve_until(serving: Serving, lost: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        tokio::select! {
            () = serving => {}
            () = lost => {}
        }
    });
}

/// Intervals between two reads of a stack's listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchIntervals {
    /// While an exec runs.
    pub(crate) execs: Duration,
    /// While only background processes run; zero for never.
    pub(crate) background: Duration,
}

impl WatchIntervals {
    /// A tool's listener is mirrored after this time, and a millisecond or two.
    pub(crate) const TOOLS: WatchIntervals =
        WatchIntervals { execs: Duration::from_millis(20), background: Duration::from_millis(200) };
    /// The agent runs for the whole session, and its listeners are only logged.
    pub(crate) const AGENT: WatchIntervals =
        WatchIntervals { execs: Duration::from_secs(5), background: Duration::ZERO };
}
