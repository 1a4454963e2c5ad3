//! Network by name: connects network stacks without a network of their own to permitted hosts.
//!
//! In scope: [`NetRules`], which names and ports are permitted; sans-IO parsers of DNS queries, TLS
//! ClientHellos and HTTP/1 requests; refused addresses; and [`Gateway`], which serves the passed sockets
//! of a [`Stack`] or the connections of a [`RelayedStack`], dials outside, and relays. `spec/network.md` defines the behaviour.
//!
//! Out of scope: the network namespaces and the creation of sockets in them (`aifo-runner`,
//! `aifo-sidecar`), and the sources of rules (`aifo-coder`).
//!
//! [`Gateway::serve`] owns the stack sockets and every connection outside, and closes them when it is
//! dropped. Failures of connections are [`ConnectionEvent`]s, not errors. Errors of rules are
//! [`RuleError`]s, with a hint.
//!
//! Architecture invariant: no byte of a client leaves the gateway before its connection is judged, and
//! no DNS query leaves it at all.

mod address;
mod body;
mod buffer;
mod client;
mod connection;
mod connector;
mod context;
mod dial;
mod dns_server;
mod event;
mod gateway;
mod groups;
mod limits;
mod name;
mod names;
mod parent;
mod refusal;
mod relayed;
mod resolver;
mod rule;
mod rules;
mod splice;

pub mod dns;
pub mod hello;
pub mod http;

pub use address::{AddressClass, judge_address};
pub use body::{Body, BodyError};
pub use client::RelayedConnection;
pub use connector::{Addresses, Connector};
pub use dial::{Dial, SystemDialer};
pub use event::{ConnectionError, ConnectionEvent, Phase};
pub use gateway::{Gateway, Stack};
pub use groups::{GROUPS, Group};
pub use limits::Limits;
pub use name::{Name, NameError};
pub use names::{NameTable, TableFull};
pub use parent::{ParentError, ParentProxy};
pub use relayed::RelayedStack;
pub use resolver::{BoxFuture, Resolve, SystemResolver};
pub use rule::{Protocol, Rule, RuleError};
pub use rules::{LEARNING_PORTS, NameVerdict, NetRules};
pub use splice::{ByteCounts, relay};
