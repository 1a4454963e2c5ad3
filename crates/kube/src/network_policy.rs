//! The network policy of a session.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::dns::DnsServer;
use crate::security::{SESSION_LABEL, metadata};
use crate::session_pod::{PodNetwork, SessionPod};
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

/// The prefix (RFC 6052) at which pods without IPv4 reach IPv4 addresses through NAT64.
const NAT64: &str = "64:ff9b::/96";

/// Returns the policy: no incoming connections, and as few outgoing ones as it can express.
pub(crate) fn of(pod: &SessionPod) -> Node {
    let selector =
        map([Entry::new("matchLabels", map([Entry::new(SESSION_LABEL, pod.session.as_str())]))]);
    let egress: Vec<Node> = match &pod.network {
        PodNetwork::Ports(ports) => {
            let usual = DnsServer::usual();
            let servers = if pod.dns.is_empty() { &usual[..] } else { &pod.dns };
            let is_api_server = |address: &IpAddr| pod.api_server.contains(address);
            let further = pod.addresses.iter().filter(|(address, _)| !is_api_server(address));
            let further = further.map(|(address, ports)| egress_to(*address, ports));
            servers.iter().map(dns).chain([public(ports, &pod.api_server)]).chain(further).collect()
        }
        PodNetwork::Open => vec![map([])],
        PodNetwork::None => Vec::new(),
    };
    let comment = match &pod.network {
        PodNetwork::Ports(_) => "DNS, and ports of public addresses: a policy cannot name hosts.",
        PodNetwork::Open => "Every address.",
        PodNetwork::None => "Nothing.",
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
        DnsServer::Address(address, _) => block_of(*address),
    };
    let ports = list(["UDP", "TCP"].map(|protocol| port(protocol, server.port())));
    map([Entry::new("to", list([map([to])])), Entry::new("ports", ports)])
}

/// Returns the rule for ports of an address.
fn egress_to(address: IpAddr, ports: &BTreeSet<u16>) -> Node {
    let ports = list(ports.iter().map(|number| port("TCP", *number)));
    map([Entry::new("to", list([map([block_of(address)])])), Entry::new("ports", ports)])
}

fn block_of(address: IpAddr) -> Entry {
    Entry::new("ipBlock", map([Entry::new("cidr", only(address))]))
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
    let own = api_server.iter().map(|address| only(*address));
    let refused = REFUSED.iter().map(|cidr| (*cidr).to_owned()).chain(own);
    let translated: Vec<String> = refused.filter_map(|cidr| translated(&cidr)).collect();
    let translated: Vec<&str> = translated.iter().map(String::as_str).collect();
    // An exception must be in its block.
    let is_public_v6 =
        |it: &IpAddr| matches!(it, IpAddr::V6(address) if address.segments()[0] >> 13 == 1);
    let to = list([
        block("0.0.0.0/0", &REFUSED, &|it| it.is_ipv4()),
        block(PUBLIC_V6, &REFUSED_V6, &is_public_v6),
        block(NAT64, &translated, &|_| false),
    ]);
    let ports = list(ports.iter().map(|number| port("TCP", *number)));
    map([Entry::new("to", to), Entry::new("ports", ports)])
}

/// Returns a block of IPv4 addresses embedded in [`NAT64`].
fn translated(cidr: &str) -> Option<String> {
    let (network, bits) = cidr.split_once('/')?;
    let [a, b, c, d] = network.parse::<Ipv4Addr>().ok()?.octets().map(u16::from);
    let address = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d);
    Some(format!("{address}/{}", 96 + bits.parse::<u8>().ok()?))
}

fn port(protocol: &str, number: u16) -> Node {
    map([Entry::new("protocol", protocol), Entry::new("port", u64::from(number))])
}
