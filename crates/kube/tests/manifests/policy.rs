//! The network policy of a session.

use std::net::IpAddr;

use aifo_kube::{DnsServer, SessionPod};
use k8s_openapi::api::networking::v1::{
    NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{rendered, session, sessions};

#[test]
fn the_policy_admits_no_connection_and_only_the_ports_of_rules() {
    let spec = rendered(&session()).0.spec.unwrap();
    assert_eq!(spec.policy_types.unwrap(), ["Ingress", "Egress"]);
    assert!(spec.ingress.iter().flatten().next().is_none(), "no rule admits a connection");
    let egress = serde_json::to_string(&spec.egress).unwrap();
    for part in ["\"port\":22,", "\"port\":443,", "\"port\":53,", "169.254.0.0/16", "10.0.0.0/8"] {
        assert!(egress.contains(part), "{part}: {egress}");
    }
    assert!(!egress.contains("\"port\":80,"), "{egress}");
    let [_, open, none, _] = sessions().try_into().unwrap();
    let open = rendered(&open).0.spec.unwrap().egress.unwrap();
    assert_eq!(serde_json::to_string(&open).unwrap(), "[{}]");
    assert!(rendered(&none).0.spec.unwrap().egress.unwrap_or_default().is_empty());
}

/// A protocol and a port.
type PolicyPort = (String, i32);

/// The rules of the egress of a policy: the peers and the ports of each.
fn egress(session: &SessionPod) -> Vec<(Vec<NetworkPolicyPeer>, Vec<PolicyPort>)> {
    let rules = rendered(session).0.spec.unwrap().egress.unwrap();
    let ports = |rule: &NetworkPolicyEgressRule| {
        let ports = rule.ports.iter().flatten();
        let of = |port: &NetworkPolicyPort| match (&port.protocol, &port.port) {
            (Some(protocol), Some(IntOrString::Int(number))) => (protocol.clone(), *number),
            other => panic!("{other:?}"),
        };
        ports.map(of).collect()
    };
    rules.iter().map(|rule| (rule.to.clone().unwrap(), ports(rule))).collect()
}

/// Returns whether an address is in a block such as `10.0.0.0/8`.
fn is_in(address: IpAddr, block: &str) -> bool {
    let (network, bits) = block.split_once('/').unwrap();
    let bits: u32 = bits.parse().unwrap();
    match (address, network.parse().unwrap()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
            one.to_bits() & mask == other.to_bits() & mask
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or_default();
            one.to_bits() & mask == other.to_bits() & mask
        }
        _ => false,
    }
}

/// The ports at which a policy admits an address.
fn ports_at(session: &SessionPod, address: &str) -> Vec<PolicyPort> {
    let address: IpAddr = address.parse().unwrap();
    let admits = |peer: &NetworkPolicyPeer| {
        peer.ip_block.as_ref().is_some_and(|block| {
            let mut except = block.except.iter().flatten();
            is_in(address, &block.cidr) && !except.any(|block| is_in(address, block))
        })
    };
    let rules = egress(session).into_iter().filter(|(peers, _)| peers.iter().any(admits));
    rules.flat_map(|(_, ports)| ports).collect()
}

#[test]
fn a_network_by_name_reaches_public_addresses_and_dns_only() {
    let tcp = |port: i32| ("TCP".to_owned(), port);
    let session = session();
    for address in ["1.1.1.1", "140.82.121.4", "2606:4700::1111", "64:ff9b::8c52:7904"] {
        assert_eq!(ports_at(&session, address), [tcp(22), tcp(443)], "{address}");
    }
    for address in [
        // Metadata services, private, shared, link-local, and other addresses that are not public.
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "10.96.0.1",
        "172.20.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "192.0.0.8",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "fd00:ec2::254",
        "fe80::1",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a83f:8110",
        "2002:a00:1::1",
        "ff02::1",
    ] {
        assert_eq!(ports_at(&session, address), [], "{address}");
    }
    let dns = [("UDP".to_owned(), 53), tcp(53)];
    assert_eq!(ports_at(&session, "169.254.20.10"), dns, "NodeLocal DNSCache");
    assert_eq!(ports_at(&session, "169.254.20.11"), []);
    let namespaces = |session: &SessionPod| -> Vec<PolicyPort> {
        let named = egress(session).into_iter().filter_map(|(peers, ports)| {
            let labels = peers[0].namespace_selector.clone()?.match_labels?;
            assert_eq!((peers.len(), labels.len(), &peers[0].pod_selector), (1, 1, &None));
            assert_eq!(ports[0].1, ports[1].1);
            Some((labels["kubernetes.io/metadata.name"].clone(), ports[0].1))
        });
        named.collect()
    };
    let usual = [("kube-system".to_owned(), 53), ("openshift-dns".to_owned(), 5353)];
    assert_eq!(namespaces(&session), usual);
    let dns = ["dns:5300", "10.0.0.2", "fd00::a"].map(|it| it.parse::<DnsServer>().unwrap());
    let session = SessionPod { dns: dns.to_vec(), ..session };
    assert_eq!(namespaces(&session), [("dns".to_owned(), 5300)]);
    assert_eq!(ports_at(&session, "10.0.0.2"), [("UDP".to_owned(), 53), tcp(53)]);
    assert_eq!(ports_at(&session, "fd00::a"), [("UDP".to_owned(), 53), tcp(53)]);
    assert_eq!(ports_at(&session, "169.254.20.10"), []);
}

#[test]
fn no_container_reaches_the_api_server() {
    let api_server = ["34.1.2.3", "10.0.0.1", "2600:1901::1", "fd00::1"];
    let api_server = api_server.map(|it| it.parse().unwrap()).to_vec();
    let session = SessionPod { api_server: api_server.clone(), ..session() };
    for address in &api_server {
        assert_eq!(ports_at(&session, &address.to_string()), [], "{address}");
    }
    assert_ne!(ports_at(&session, "34.1.2.4"), []);
    assert_eq!(ports_at(&session, "64:ff9b::2201:203"), [], "through a translator");
    let addresses = api_server.iter().map(|it| (*it, [443].into())).collect();
    let named = SessionPod { addresses, ..session.clone() };
    assert_eq!(ports_at(&named, "10.0.0.1"), [], "also if a rule names it");
    // The API server rejects an exception outside of its block.
    for (peers, _) in egress(&session) {
        for block in peers.into_iter().filter_map(|peer| peer.ip_block) {
            for except in block.except.iter().flatten() {
                let network = except.split_once('/').unwrap().0.parse().unwrap();
                assert!(is_in(network, &block.cidr), "{except} in {}", block.cidr);
            }
        }
    }
}

#[test]
fn addresses_of_rules_are_reached_at_their_ports() {
    let addresses = ["10.1.2.3", "fd00::7"].map(|it| (it.parse().unwrap(), [4000, 8443].into()));
    let session = SessionPod { addresses: addresses.to_vec(), ..session() };
    let tcp = |port: i32| ("TCP".to_owned(), port);
    for address in ["10.1.2.3", "fd00::7"] {
        assert_eq!(ports_at(&session, address), [tcp(4000), tcp(8443)], "{address}");
    }
    assert_eq!(ports_at(&session, "10.1.2.4"), []);
}
