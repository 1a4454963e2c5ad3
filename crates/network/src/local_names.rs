//! Networks by name: those of local tools, and the check of all.

use std::path::Path;

use aifo_sidecar::{Net, stack_obstacle};
use aifo_types::Kind;
use aifo_wire::MAX_LISTEN_PORTS;

use crate::named_network::{NamedNetwork, StackPorts, UnlistedNames};
use crate::network_rules::NetworkRules;

/// The network by name of local tools (`spec/network.md#local-sidecars`).
#[derive(Clone, Debug)]
pub struct LocalNames {
    /// [`Net::Names`] or [`Net::Learn`].
    pub net: Net,
    /// The names that tools reach.
    pub rules: NetworkRules,
    /// The ports of this machine's localhost that they reach at their own, each once.
    pub host_ports: Vec<u16>,
}

impl LocalNames {
    /// Returns the network. Errors: why it cannot work, with a hint.
    pub fn named_network(
        &self,
        kinds: &[Kind],
        runner_program: &Path,
    ) -> Result<NamedNetwork, NetworkError> {
        match stack_obstacle(runner_program) {
            Some(reason) => Err(NetworkError(format!(
                "local tools cannot have a network of their own: {reason}"
            ))),
            None => {
                let ports = StackPorts { host: self.host_ports.clone(), ..StackPorts::default() };
                open_network(self.net, &self.rules, kinds, ports)
            }
        }
    }
}

/// The reason for which a network by name cannot work, with a hint.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(pub String);

/// Creates the gateway of a network. Errors: why it cannot work, with a hint.
pub fn open_network(
    net: Net,
    rules: &NetworkRules,
    kinds: &[Kind],
    ports: StackPorts,
) -> Result<NamedNetwork, NetworkError> {
    let of_rules = rules.of_all().ports().into_iter().collect();
    check_ports(of_rules, &ports).map_err(NetworkError)?;
    let mode = match net {
        Net::Learn => UnlistedNames::Allow,
        _ => UnlistedNames::Refuse,
    };
    NamedNetwork::new(rules, kinds, mode, ports).map_err(|error| NetworkError(error.to_string()))
}

fn check_ports(of_rules: Vec<u16>, ports: &StackPorts) -> Result<(), String> {
    let lists = [
        ("a port of network rules", &of_rules),
        ("a host port", &ports.host),
        ("an agent port", &ports.agent),
    ];
    for (at, (what, ports)) in lists.iter().enumerate() {
        for (before, others) in lists.iter().take(at) {
            if let Some(port) = ports.iter().find(|port| others.contains(port)) {
                return Err(format!(
                    "port {port} is both {what} and {before}\nhint: remove it from one of them"
                ));
            }
        }
    }
    match lists.iter().map(|(_, ports)| ports.len()).sum() {
        0..=MAX_LISTEN_PORTS => Ok(()),
        count => Err(format!(
            "network rules, host ports and agent ports have {count} ports, the limit is \
             {MAX_LISTEN_PORTS}\nhint: remove rules with ports of their own"
        )),
    }
}
