//! The network policy of a session.

use std::net::IpAddr;

use crate::dns::DnsServer;
use crate::security::{SESSION_LABEL, metadata};
use crate::session_pod::{Network, SessionPod};
use crate::yaml::{Entry, Node, list, map};

/// Addresses that a network by name refuses too (`spec/network.md#refused-addresses`).
const REFUSED: [&str; 16] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];
/// Those of the public part of IPv6.
const REFUSED_V6: [&str; 4] = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/// The only part of IPv6 with public addresses.
const PUBLIC_V6: &str = "2000::/3";

/// Returns the policy: no incoming connections, and as few outgoing ones as it can express.
pub(crate) fn of(pod: &SessionPod) -> Node {
    let selector =
        map([Entry::new("matchLabels", map([Entry::new(SESSION_LABEL, pod.session.as_str())]))]);
    let egress: Vec<Node> = match &pod.network {
        Network::Ports(ports) => {
            let usual = DnsServer::usual();
            let servers = if pod.dns.is_empty() { &usual[..] } else { &pod.dns };
            servers.iter().map(dns).chain([public(ports, &pod.api_server)]).collect()
        }
        Network::Open => vec![map([])],
        Network::None => Vec::new(),
    };
    let comment = match &pod.network {
        Network::Ports(_) => "DNS, and ports of public addresses: a policy cannot name hosts.",
        Network::Open => "Every address.",
        Network::None => "Nothing.",
    };
    let spec = map([
        Entry::new("podSelector", selector),
        Entry::new("policyTypes", list(["Ingress", "Egress"])),
        Entry::new("ingress", list::<Node>([])).comment("No incoming connections."),
        Entry::new("egress", list(egress)).comment(comment),
    ]);
    map([
        Entry::new("apiVersion", "networking.k8s.io/v1"),
        Entry::new("kind", "NetworkPolicy"),
        Entry::new("metadata", metadata(pod)),
        Entry::new("spec", spec),
    ])
}

fn dns(server: &DnsServer) -> Node {
    let to = match server {
        DnsServer::Namespace(name, _) => {
            let label = Entry::new("kubernetes.io/metadata.name", name.as_str());
            let selector = map([Entry::new("matchLabels", map([label]))]);
            Entry::new("namespaceSelector", selector)
        }
        DnsServer::Address(address, _) => {
            Entry::new("ipBlock", map([Entry::new("cidr", only(*address))]))
        }
    };
    let ports = list(["UDP", "TCP"].map(|protocol| port(protocol, server.port())));
    map([Entry::new("to", list([map([to])])), Entry::new("ports", ports)])
}

/// Returns the block of one address.
fn only(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

fn public(ports: &[u16], api_server: &[IpAddr]) -> Node {
    let block = |cidr: &str, except: &[&str], further: &dyn Fn(&IpAddr) -> bool| {
        let further = api_server.iter().filter(|address| further(address)).map(|it| only(*it));
        let except = except.iter().map(|cidr| (*cidr).to_owned()).chain(further);
        map([Entry::new(
            "ipBlock",
            map([Entry::new("cidr", cidr), Entry::new("except", list(except))]),
        )])
    };
    // An exception must be in its block.
    let is_public_v6 =
        |it: &IpAddr| matches!(it, IpAddr::V6(address) if address.segments()[0] >> 13 == 1);
    let to = list([
        block("0.0.0.0/0", &REFUSED, &|it| it.is_ipv4()),
        block(PUBLIC_V6, &REFUSED_V6, &is_public_v6),
    ]);
    let ports = list(ports.iter().map(|number| port("TCP", *number)));
    map([Entry::new("to", to), Entry::new("ports", ports)])
}

fn port(protocol: &str, number: u16) -> Node {
    map([Entry::new("protocol", protocol), Entry::new("port", u64::from(number))])
}
