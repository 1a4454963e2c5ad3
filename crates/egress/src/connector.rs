//! Connections of the launcher itself, in the same way as those of a gateway.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpStream;

use crate::dial::{Connected, Outside};
use crate::event::ConnectionError;
use crate::limits::Limits;
use crate::name::Name;
use crate::parent::ParentProxy;
use crate::rule::Rule;

/// Resolves, judges and dials hosts that the caller chooses. Clones share cached addresses.
#[derive(Clone)]
pub struct Connector {
    outside: Outside,
    limits: Limits,
}

/// The addresses that a host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Those that [`judge_address`](crate::judge_address) permits without an option.
    Public,
    /// All of them. The user chose the host.
    Any,
}

impl Connector {
    /// Creates a connector that dials through this parent proxy, if there is one.
    pub fn new(parent: Option<ParentProxy>) -> Connector {
        let mut outside = Outside::new();
        outside.parent = parent;
        Connector { outside, limits: Limits::default() }
    }

    /// Connects to a host: a name, or an address.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        allowed: Addresses,
    ) -> Result<TcpStream, ConnectionError> {
        let connected = match (host.parse::<IpAddr>(), allowed) {
            (Ok(address), Addresses::Any) => self.dial(vec![address], port).await?,
            (Err(_), Addresses::Any) if host == "localhost" => {
                self.dial(vec![Ipv4Addr::LOCALHOST.into()], port).await?
            }
            _ => {
                let invalid =
                    |error: &dyn std::fmt::Display| ConnectionError::Resolve(error.to_string());
                let name = Name::parse(host.as_bytes()).map_err(|error| invalid(&error))?;
                let rule =
                    Rule::parse(&format!("{name}:{port} raw")).map_err(|error| invalid(&error))?;
                match self.outside.parent_for(&name, &rule) {
                    None if allowed == Addresses::Any => {
                        let addresses = self.outside.addresses(host, &self.limits).await?;
                        self.dial(addresses, port).await?
                    }
                    _ => self.outside.connect(&name, port, &rule, &self.limits).await?,
                }
            }
        };
        // A parent proxy that sends bytes before the client does is no tunnel to a TLS server.
        if !connected.first.is_empty() {
            return Err(ConnectionError::Connect(
                "unexpected bytes of the parent proxy".to_owned(),
            ));
        }
        Ok(connected.stream)
    }

    async fn dial(&self, addresses: Vec<IpAddr>, port: u16) -> Result<Connected, ConnectionError> {
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        self.outside.dial(addresses.collect(), &self.limits).await
    }
}
