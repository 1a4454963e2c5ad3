//! Mirrors of tools' listeners in the other network stacks (`spec/network.md#mirrors`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_sidecar::{AGENT_STACK, SocketError, StackSockets};
use aifo_wire::{Listener, ListenerReport};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};

use crate::connection_file::PortUse;
use crate::mirror_table::{Changes, MirrorTable};
use crate::port_log::{PortLog, RelayedPort};
use crate::port_relay::{Connections, ConnectionsGuard, DialledAddress, Server};

/// The mirrors of a session. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Mirrors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when listeners have changed.
    changed: watch::Sender<()>,
    /// The agent's ports that tools reach.
    agent_ports: Vec<u16>,
    port_log: PortLog,
}

#[derive(Debug, Default)]
struct State {
    table: MirrorTable,
    stacks: BTreeMap<String, StackEntry>,
    /// The events that were logged, each once.
    logged: BTreeSet<String>,
}

/// A stack whose runner is connected.
#[derive(Clone, Debug)]
struct StackEntry {
    sockets: StackSockets,
    connections: Connections,
}

/// Events that are logged in a session. Tools choose ports.
const MAX_LOGGED: usize = 100;

impl Mirrors {
    pub(crate) fn new(agent_ports: Vec<u16>, port_log: PortLog) -> Self {
        let changed = watch::Sender::new(());
        Mirrors(Arc::new(Shared { state: Mutex::default(), changed, agent_ports, port_log }))
    }

    /// Returns what records the connections to a stack port.
    pub(crate) fn relayed_port(&self, stack: &str, port: u16, port_use: PortUse) -> RelayedPort {
        RelayedPort { stack: stack.to_owned(), port, port_use, log: self.0.port_log.clone() }
    }

    /// Adds a stack. Its mirrors and connections end when the returned value is dropped.
    pub(crate) fn add(
        &self,
        name: &str,
        reserved: BTreeSet<u16>,
        sockets: StackSockets,
    ) -> MirroredStack {
        let (connections, guard) = Connections::new();
        let mut state = self.state();
        state.table.add(name, reserved);
        let entry = StackEntry { sockets: sockets.clone(), connections: connections.clone() };
        state.stacks.insert(name.to_owned(), entry);
        drop(state);
        self.signal();
        let (mirrors, name) = (self.clone(), name.to_owned());
        MirroredStack { mirrors, name, sockets, connections, _guard: guard }
    }

    /// Records what listens in a stack.
    pub(crate) fn report(&self, name: &str, report: ListenerReport, listeners: Vec<Listener>) {
        match report {
            ListenerReport::Complete => {}
            ListenerReport::Truncated => {
                self.log(format!("{name} listen on more ports than can be mirrored"));
            }
            ListenerReport::Unavailable => {
                self.log(format!(
                    "the kernel does not list listeners, so ports of {name} are not \
                                  mirrored"
                ));
            }
        }
        let mut state = self.state();
        if !state.table.report(name, listeners) {
            return;
        }
        let own = if name == AGENT_STACK { state.table.own_ports(name) } else { BTreeSet::new() };
        drop(state);
        for port in own.iter().filter(|port| !self.0.agent_ports.contains(port)) {
            self.log(format!(
                "the agent listens on port {port}, which tools do not reach; to let them: \
                 --agent-port {port}"
            ));
        }
        self.signal();
    }

    /// Connects to a port of a stack loopback address. Errors: why it cannot.
    pub(crate) async fn connect(&self, name: &str, port: u16) -> Result<Server, String> {
        let entry = self.state().stacks.get(name).cloned();
        let entry = entry.ok_or_else(|| format!("stack '{name}' does not run"))?;
        match entry.sockets.connect(port).await {
            Ok(stream) => {
                let (name, owner) = (name.to_owned(), Some(entry.connections));
                Ok(Server { stream, name, owner })
            }
            Err(error) => {
                if error == SocketError::Refused {
                    // Nothing listens there any more.
                    entry.sockets.report_listeners();
                }
                Err(error.to_string())
            }
        }
    }

    /// Connects to a port of the tools: where one listens, or, if that was not reported yet, in the first
    /// stack that accepts.
    pub(crate) async fn connect_to_tools(&self, port: u16) -> Result<Server, String> {
        let names = self.state().table.servers_of(port);
        let mut failure = "no stack of tools runs".to_owned();
        for name in names {
            match self.connect(&name, port).await {
                Ok(server) => return Ok(server),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Logs an event once.
    fn log(&self, event: String) {
        let mut state = self.state();
        if state.logged.len() < MAX_LOGGED && !state.logged.contains(&event) {
            tracing::info!("{event}");
            state.logged.insert(event);
        }
    }

    fn signal(&self) {
        self.0.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stack whose mirrors are kept up to date. Removes the stack when it is dropped.
#[derive(Debug)]
pub(crate) struct MirroredStack {
    mirrors: Mirrors,
    name: String,
    sockets: StackSockets,
    connections: Connections,
    _guard: ConnectionsGuard,
}

impl MirroredStack {
    /// Mirrors the listeners of the other stacks until the future is dropped.
    pub(crate) async fn serve(&self) {
        let mut changed = self.mirrors.0.changed.subscribe();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<u16, oneshot::Sender<()>> = BTreeMap::new();
        loop {
            // Seen before the update, so that no change in between is lost.
            changed.borrow_and_update();
            let Changes { ended, begun, taken, omitted } =
                self.mirrors.state().table.update(&self.name);
            for port in ended {
                // Closes the listener; connections go on.
                running.remove(&port);
            }
            for (port, source) in begun {
                let (sender, stop) = oneshot::channel();
                running.insert(port, sender);
                tasks.spawn(self.mirror(port, source, stop));
            }
            for port in taken {
                self.log_taken(port);
            }
            if omitted > 0 {
                self.mirrors.log(format!("{} have no room for further mirrors", self.name));
            }
            tokio::select! {
                _ = changed.changed() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Binds a port and relays its connections to a stack, until `stop` is dropped.
    fn mirror(
        &self,
        port: u16,
        source: String,
        mut stop: oneshot::Receiver<()>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (mirrors, name, sockets) =
            (self.mirrors.clone(), self.name.clone(), self.sockets.clone());
        let connections = self.connections.clone();
        async move {
            let listener = match sockets.bind(port).await {
                Ok(listener) => {
                    mirrors.state().table.bound(&name, listener.inode());
                    listener
                }
                Err(error) => {
                    mirrors.state().table.failed(&name, port);
                    mirrors
                        .log(format!("port {port} of {source} is not mirrored: {error} in {name}"));
                    return;
                }
            };
            let dial = || {
                let (mirrors, source) = (mirrors.clone(), source.clone());
                async move { mirrors.connect(&source, port).await }
            };
            let relayed = mirrors.relayed_port(&name, port, PortUse::Mirror);
            tokio::select! {
                () = connections.relay(listener, (relayed, DialledAddress::Any), dial) => {}
                _ = &mut stop => {}
            }
        }
    }

    fn log_taken(&self, port: u16) {
        let name = &self.name;
        self.mirrors.log(format!("port {port} is not mirrored: the port is in use in {name}"));
    }
}

impl Drop for MirroredStack {
    fn drop(&mut self) {
        let mut state = self.mirrors.state();
        // Another stack of this name may have replaced it, as that of a restarted holder.
        let is_current = |entry: &StackEntry| entry.connections.is_of(&self.connections);
        if state.stacks.get(&self.name).is_some_and(is_current) {
            state.stacks.remove(&self.name);
            state.table.remove(&self.name);
        }
        drop(state);
        self.mirrors.signal();
    }
}
