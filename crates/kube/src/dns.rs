//! The DNS servers of a cluster.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A DNS server of a cluster, as the network policy names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsServer {
    /// Pods of this namespace, at a port.
    Namespace(String, u16),
    /// An address and a port.
    Address(IpAddr, u16),
}

/// A text names no DNS server.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no DNS server\n\
     hint: name a namespace or an address, with :PORT if it is not 53, such as 10.0.0.2 or openshift-dns:5353"
)]
pub struct DnsServerError(String);

const PORT: u16 = 53;
/// The longest name of a namespace.
const MAX_NAME: usize = 63;

impl DnsServer {
    /// The servers of most clusters: `CoreDNS`, `NodeLocal` `DNSCache`, and those of `OpenShift`.
    pub(crate) fn usual() -> [Self; 3] {
        [
            DnsServer::Namespace("kube-system".to_owned(), PORT),
            DnsServer::Address(IpAddr::from([169, 254, 20, 10]), PORT),
            DnsServer::Namespace("openshift-dns".to_owned(), 5353),
        ]
    }

    pub(crate) fn port(&self) -> u16 {
        match self {
            DnsServer::Namespace(_, port) | DnsServer::Address(_, port) => *port,
        }
    }
}

impl FromStr for DnsServer {
    type Err = DnsServerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(DnsServer::Address(address, PORT));
        }
        let error = || DnsServerError(text.to_owned());
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address.port() {
                0 => Err(error()),
                port => Ok(DnsServer::Address(address.ip(), port)),
            };
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)),
            None => (text, Some(PORT)),
        };
        let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-' && byte != b'.');
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        // Only digits and dots would be an address with an error.
        let is_name = name.len() <= MAX_NAME
            && name.bytes().any(|byte| byte.is_ascii_lowercase())
            && name.bytes().all(is_inner)
            && is_end(name.bytes().next())
            && is_end(name.bytes().last());
        match port.filter(|_| is_name) {
            Some(port) => Ok(DnsServer::Namespace(name.to_owned(), port)),
            None => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_addresses_are_parsed() {
        let namespace = |name: &str, port| Ok(DnsServer::Namespace(name.to_owned(), port));
        let address = |ip: &str, port| Ok(DnsServer::Address(ip.parse().unwrap(), port));
        for (text, expected) in [
            ("dns", namespace("dns", 53)),
            ("openshift-dns:5353", namespace("openshift-dns", 5353)),
            ("10.0.0.2", address("10.0.0.2", 53)),
            ("10.0.0.2:5353", address("10.0.0.2", 5353)),
            ("fd00::a", address("fd00::a", 53)),
            ("[fd00::a]:54", address("fd00::a", 54)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        for text in ["", "10.0.0", "Name", "-a", "a-", "a.b", "a:0", "a:x", "10.0.0.2:0", "a b"] {
            let error = text.parse::<DnsServer>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is no DNS server\nhint: ")), "{error}");
        }
    }
}
