//! The network by name of a session: a gateway for the network stacks of its tools and its agent.
//!
//! In scope: the rules of each stack ([`NetworkRules`]) and their sources; mirrors of listening ports
//! between stacks and this machine; published ports; rules that are added to a running session; the
//! log of connections.
//!
//! Out of scope: the protocols and the judgement of a connection (`aifo-egress`), the sockets in a
//! stack (`aifo-sidecar`), and the hosts of each agent (`aifo-agents`).
//!
//! ```
//! use aifo_network::{NetworkRules, RuleScope};
//!
//! let mut rules = NetworkRules::default();
//! rules.allow(RuleScope::All, "registry.example:443".to_owned(), "me".to_owned())?;
//! assert!(rules.permits(&RuleScope::All, "registry.example:443"));
//! # Ok::<(), aifo_egress::RuleError>(())
//! ```
//!
//! Architecture invariant: no row of an agent or a toolchain is known here; groups come from
//! `aifo-egress`, and an agent's hosts as [`AgentHosts`].

pub mod added_rules;
mod caller_finder;
mod connection_file;
mod connection_log;
mod gateway_thread;
mod local_names;
mod mirror_table;
mod mirrors;
mod named_network;
mod network_rules;
mod network_verdict;
mod port_log;
mod port_relay;
pub mod publications;
mod published_port;
mod relayed_stack;
mod tool_stacks;
mod url_host;

pub use added_rules::allow_names;
pub use caller_finder::CallerFinder;
pub use connection_file::{
    ConnectionOutcome, ConnectionReader, ConnectionState, LoggedConnection, PortUse,
    connections_written,
};
pub use connection_log::REFUSALS;
pub use local_names::{LocalNames, NetworkError, open_network};
pub use named_network::{NamedNetwork, StackPorts};
pub use network_rules::{AgentHosts, DEFAULT_RULE, NetworkRule, NetworkRules, RuleScope};
pub use network_verdict::NetworkVerdict;
pub use publications::{Publications, publish};
pub use published_port::{InvalidPort, PublishedPort, check_published, engine_value};
pub use tool_stacks::{ToolStack, ToolStacks};
pub use url_host::UrlHost;
