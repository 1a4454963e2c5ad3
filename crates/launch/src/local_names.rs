//! Networks by name: those of local tools, and the check of all.

use std::collections::BTreeSet;
use std::path::Path;

use aifo_egress::NetRules;
use aifo_sidecar::{MAX_LISTEN_PORTS, Net, stack_obstacle};

use crate::error::LaunchError;
use crate::named_network::{NamedNetwork, UnlistedNames};

/// The network by name of local tools (`spec/network.md#local-sidecars`).
#[derive(Clone, Debug)]
pub struct LocalNames {
    /// [`Net::Names`] or [`Net::Learn`].
    pub net: Net,
    /// The names that tools reach.
    pub rules: NetRules,
    /// The ports of this machine's localhost that they reach at their own, each once.
    pub host_ports: Vec<u16>,
}

impl LocalNames {
    /// Returns the network. Errors: why it cannot work, with a hint.
    pub(crate) fn named_network(&self, runner_program: &Path) -> Result<NamedNetwork, LaunchError> {
        match stack_obstacle(runner_program) {
            Some(reason) => Err(LaunchError::NamedNetwork(format!(
                "local tools cannot have a network of their own: {reason}"
            ))),
            None => open_network(self.net, &self.rules, &self.host_ports),
        }
    }
}

/// Creates the gateway of a network. Errors: why it cannot work, with a hint.
pub(crate) fn open_network(
    net: Net,
    rules: &NetRules,
    host_ports: &[u16],
) -> Result<NamedNetwork, LaunchError> {
    check_ports(&rules.ports(), host_ports).map_err(LaunchError::NamedNetwork)?;
    let mode = match net {
        Net::Learn => UnlistedNames::Allow,
        _ => UnlistedNames::Refuse,
    };
    NamedNetwork::new(rules.clone(), mode, host_ports)
        .map_err(|error| LaunchError::NamedNetwork(error.to_string()))
}

fn check_ports(ports: &BTreeSet<u16>, host_ports: &[u16]) -> Result<(), String> {
    if let Some(port) = host_ports.iter().find(|port| ports.contains(port)) {
        return Err(format!(
            "port {port} is both a host port and a port of network rules\n\
             hint: remove it from one of them"
        ));
    }
    match ports.len().saturating_add(host_ports.len()) {
        count if count > MAX_LISTEN_PORTS => Err(format!(
            "network rules and host ports have {count} ports, the limit is {MAX_LISTEN_PORTS}\n\
             hint: remove rules with ports of their own"
        )),
        _ => Ok(()),
    }
}
