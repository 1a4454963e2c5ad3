//! The network policy of a session.

use crate::security::{SESSION_LABEL, metadata};
use crate::session_pod::{Network, SessionPod};
use crate::yaml::{Entry, Node, list, map};

/// Addresses that a network by name refuses too (`spec/network.md#refused-addresses`).
const REFUSED: [&str; 6] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
];
const REFUSED_V6: [&str; 2] = ["fc00::/7", "fe80::/10"];

/// Returns the policy: no incoming connections, and as few outgoing ones as it can express.
pub(crate) fn of(pod: &SessionPod) -> Node {
    let selector =
        map([Entry::new("matchLabels", map([Entry::new(SESSION_LABEL, pod.session.as_str())]))]);
    let egress: Vec<Node> = match &pod.network {
        Network::Ports(ports) => [dns(), public(ports)].into(),
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

fn dns() -> Node {
    let namespace = Entry::new("kubernetes.io/metadata.name", "kube-system");
    let selector = map([Entry::new("matchLabels", map([namespace]))]);
    let to = list([map([Entry::new("namespaceSelector", selector)])]);
    let ports = list([port("UDP", 53), port("TCP", 53)]);
    map([Entry::new("to", to), Entry::new("ports", ports)])
}

fn public(ports: &[u16]) -> Node {
    let block = |cidr: &str, except: &[&str]| {
        let entries =
            [Entry::new("cidr", cidr), Entry::new("except", list(except.iter().copied()))];
        map([Entry::new("ipBlock", map(entries))])
    };
    let to = list([block("0.0.0.0/0", &REFUSED), block("::/0", &REFUSED_V6)]);
    let ports = list(ports.iter().map(|number| port("TCP", *number)));
    map([Entry::new("to", to), Entry::new("ports", ports)])
}

fn port(protocol: &str, number: u16) -> Node {
    map([Entry::new("protocol", protocol), Entry::new("port", u64::from(number))])
}
