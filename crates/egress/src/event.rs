//! Events of connections, for logs and hints.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::address::AddressClass;
use crate::body::BodyError;
use crate::hello::HelloError;
use crate::http::RequestError;
use crate::name::Name;
use crate::names::TableFull;
use crate::parent::ParentError;
use crate::rules::{NameVerdict, allow_hint};

/// An event of one connection, or of a DNS query without a rule.
///
/// A connection has [`Phase::Opened`] when it is connected outside, then exactly one
/// [`Phase::Closed`]; a refused one, or one without a connection outside, has only the latter.
#[derive(Clone, Debug)]
pub struct ConnectionEvent {
    /// The number of the connection in its gateway, from 1.
    pub id: u64,
    /// The label of the stack.
    pub stack: String,
    /// The client address in its stack; its port identifies the process there. `None` if no client
    /// is known.
    pub peer: Option<SocketAddr>,
    /// The dialled name, or the address if it has no name.
    pub name: String,
    /// The dialled port; `None` for a DNS query.
    pub port: Option<u16>,
    /// The decision. A connection that a rule permits is `Refused` if its bytes or its address are.
    pub verdict: NameVerdict,
    /// The point in the connection's life.
    pub phase: Phase,
    /// The address outside; `None` before it is dialled, or if a parent proxy chooses it.
    pub address: Option<SocketAddr>,
    /// True if a parent proxy dials, and so chooses the address.
    pub via_parent: bool,
    /// Bytes to the host outside.
    pub sent: u64,
    /// Bytes to the client.
    pub received: u64,
    /// The cause of a refusal or failure.
    pub error: Option<ConnectionError>,
}

/// A point in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is connected outside.
    Opened,
    /// It ended.
    Closed,
}

/// Why a connection is refused, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// No rule permits name and port.
    #[error("no rule permits it")]
    NoRule,
    /// The client dialled an address that no query returned.
    #[error("no name has this address")]
    UnknownAddress,
    /// The first bytes to port 443 are not TLS.
    #[error("it is not TLS")]
    NotTls,
    /// The ClientHello has no server name.
    #[error("its ClientHello has no server name")]
    NoSni,
    /// The ClientHello has another server name.
    #[error("its ClientHello has the server name '{0}'")]
    OtherSni(Name),
    /// The ClientHello is invalid.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The HTTP request is refused.
    #[error("its request {0}")]
    Request(#[from] RequestError),
    /// The request body is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The client did not send a whole ClientHello or head in time.
    #[error("its first bytes were incomplete after {} s", .0.as_secs())]
    FirstBytesTimeout(Duration),
    /// The client closed the connection before.
    #[error("it ended within its first bytes")]
    FirstBytesEnded,
    /// The name has no address outside.
    #[error("cannot resolve it: {0}")]
    Resolve(String),
    /// Every address of the name is refused; this is the first.
    #[error("its address {address} is {class}")]
    Address {
        /// The address.
        address: IpAddr,
        /// Why it is refused.
        class: AddressClass,
    },
    /// No address could be connected; the cause is that of the last attempt.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The parent proxy refused or failed.
    #[error(transparent)]
    Parent(#[from] ParentError),
    /// The stack has too many connections.
    #[error("its stack has more than {0} connections")]
    TooMany(usize),
    /// The table of names is full.
    #[error(transparent)]
    Names(#[from] TableFull),
    /// A socket failed while bytes were relayed.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// One side closed, and the other one did not for this time without a byte.
    #[error("half closed and idle for {} s", .0.as_secs())]
    HalfClosed(Duration),
    /// The gateway stopped serving the stack.
    #[error("the stack's gateway ended")]
    GatewayEnded,
    /// A listener of the stack is not usable.
    #[error("cannot use a listener: {0}")]
    Listener(String),
}

impl ConnectionError {
    /// Returns whether the gateway refused the connection, rather than that it failed.
    pub fn is_refusal(&self) -> bool {
        match self {
            ConnectionError::NoRule
            | ConnectionError::UnknownAddress
            | ConnectionError::NotTls
            | ConnectionError::NoSni
            | ConnectionError::OtherSni(_)
            | ConnectionError::Hello(_)
            | ConnectionError::Request(_)
            | ConnectionError::Body(_)
            | ConnectionError::FirstBytesTimeout(_)
            | ConnectionError::Address { .. }
            | ConnectionError::TooMany(_)
            | ConnectionError::Names(_) => true,
            ConnectionError::FirstBytesEnded
            | ConnectionError::Resolve(_)
            | ConnectionError::Connect(_)
            | ConnectionError::Parent(_)
            | ConnectionError::Broken(_)
            | ConnectionError::HalfClosed(_)
            | ConnectionError::GatewayEnded
            | ConnectionError::Listener(_) => false,
        }
    }
}

impl ConnectionEvent {
    /// Returns the command that permits the connection, if a missing rule is the cause.
    pub fn hint(&self) -> Option<String> {
        if !matches!(self.error, Some(ConnectionError::NoRule)) {
            return None;
        }
        let name = Name::parse(self.name.as_bytes()).ok()?;
        Some(allow_hint(&name, self.port))
    }
}
