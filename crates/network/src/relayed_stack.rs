//! Serves a stack whose runner relays connections (`spec/runner.md#connections-of-a-stack`).

use std::net::SocketAddr;

use aifo_egress::RelayedConnection;
use aifo_sidecar::{AGENT_STACK, ConnectionStream, RelayedStack, StackConnection, StackEvent};
use tokio::task::JoinSet;

use crate::connection_file::PortUse;
use crate::mirrors::Mirrors;
use crate::port_relay::{dial_host, refuse_other_address, serve};

/// The ports of a stack that stand for no name.
#[derive(Clone, Debug)]
pub(crate) struct SessionPorts {
    pub(crate) stack: String,
    /// Those of this machine's localhost.
    pub(crate) host: Vec<u16>,
    /// Those of the agent; none in its own stack.
    pub(crate) agent: Vec<u16>,
    pub(crate) mirrors: Mirrors,
}

/// Serves a stack until its runner is lost, or the future is dropped, which ends every connection.
pub(crate) async fn serve_relayed(
    mut stack: RelayedStack,
    gateway: aifo_egress::RelayedStack,
    ports: SessionPorts,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            event = stack.next() => match event {
                Some(StackEvent::Query { peer, data }) => {
                    if let Some(response) = gateway.answer(&data, peer.into()) {
                        stack.answer(peer, &response);
                    }
                }
                Some(StackEvent::Connected(connection)) => {
                    let (gateway, ports) = (gateway.clone(), ports.clone());
                    connections.spawn(async move {
                        match ports.port_use(connection.dialled.port()) {
                            Some(port_use) => ports.serve(connection, port_use).await,
                            None => serve_name(connection, gateway).await,
                        }
                    });
                }
                None => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_name(connection: StackConnection, gateway: aifo_egress::RelayedStack) {
    let StackConnection { socket, dialled, peer, reset } = connection;
    let (dialled, peer) = (SocketAddr::V4(dialled), SocketAddr::V4(peer));
    gateway.serve(RelayedConnection { socket, dialled, peer, reset }).await;
}

impl SessionPorts {
    fn port_use(&self, port: u16) -> Option<PortUse> {
        let of_host = self.host.contains(&port).then_some(PortUse::HostPort);
        of_host.or_else(|| self.agent.contains(&port).then_some(PortUse::AgentPort))
    }

    async fn serve(&self, connection: StackConnection, port_use: PortUse) {
        let port = connection.dialled.port();
        let relayed = self.mirrors.relayed_port(&self.stack, port, port_use);
        let Ok(client) = ConnectionStream::relayed(connection) else { return };
        if refuse_other_address(&client, &relayed) {
            return;
        }
        let server = async {
            match port_use {
                PortUse::AgentPort => self.mirrors.connect(AGENT_STACK, port).await,
                _ => dial_host(port).await,
            }
        };
        serve(client, &relayed, server).await;
    }
}
