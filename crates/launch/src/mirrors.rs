//! Mirrors of tools' listeners in the other network stacks (`spec/network.md#mirrors`).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_sidecar::{AGENT_STACK, Listener, ListenerReport, SocketError, StackSockets};
use nix::sys::stat::fstat;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::mirror_table::{Changes, MirrorTable};
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
    pub(crate) fn new(agent_ports: Vec<u16>) -> Self {
        let changed = watch::Sender::new(());
        Mirrors(Arc::new(Shared { state: Mutex::default(), changed, agent_ports }))
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

    /// Connects to a port of a stack's loopback address.
    pub(crate) async fn connect(&self, name: &str, port: u16) -> Option<Server> {
        let entry = self.state().stacks.get(name).cloned()?;
        match entry.sockets.connect(port).await {
            Ok(stream) => Some(Server { stream, owner: Some(entry.connections) }),
            Err(SocketError::Refused) => {
                // Nothing listens there any more.
                entry.sockets.report_listeners();
                None
            }
            Err(error) => {
                tracing::debug!("cannot connect to port {port} of {name}: {error}");
                None
            }
        }
    }

    /// Connects to a port of the tools: where one listens, or, if that was not reported yet, in the first
    /// stack that accepts.
    pub(crate) async fn connect_to_tools(&self, port: u16) -> Option<Server> {
        let names = self.state().table.servers_of(port);
        for name in names {
            if let Some(server) = self.connect(&name, port).await {
                return Some(server);
            }
        }
        None
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
            let bound = sockets.bind(port).await.and_then(|listener| {
                let inode = fstat(listener.as_fd()).map(|stat| stat.st_ino);
                let inode = inode.map_err(|error| SocketError::Failed(error.to_string()))?;
                let listener = TcpListener::from_std(listener);
                let listener = listener.map_err(|error| SocketError::Failed(error.to_string()))?;
                Ok((listener, u32::try_from(inode).unwrap_or(0)))
            });
            let listener = match bound {
                Ok((listener, inode)) => {
                    mirrors.state().table.bound(&name, inode);
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
            tokio::select! {
                () = connections.relay(listener, DialledAddress::Any, dial) => {}
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
