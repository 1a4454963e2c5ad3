//! The description of a session that a pod is rendered from.

use std::collections::BTreeSet;
use std::net::IpAddr;

use aifo_types::Kind;

use crate::dns::DnsServer;

/// A session that becomes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPod {
    /// Its id: 16 hexadecimal digits.
    pub session: String,
    /// The namespace; `None` for that of the client's context.
    pub namespace: Option<String>,
    /// The image with `aifo-coder` and `aifo-shim`.
    pub launcher_image: String,
    /// The arguments of `aifo-coder`, which name the agent or command.
    pub arguments: Vec<String>,
    /// The user's settings for it, as TOML.
    pub settings: String,
    /// The options by which the user's commands find it, with a space before each.
    pub client: String,
    /// The user's variables for the agent, for the launcher; none is secret.
    pub agent_variables: Vec<(String, String)>,
    /// True if the agent has a terminal.
    pub terminal: bool,
    /// The agent container.
    pub agent: PodAgent,
    /// The sidecars.
    pub kinds: Vec<KindContainer>,
    /// The workspace.
    pub workspace: WorkspaceSource,
    /// True if the launcher writes files of the workspace for the agent.
    pub serves_files: bool,
    /// The secret with the user's keys, and the variables that are its keys.
    pub keys: Option<Keys>,
    /// The secrets of registries.
    pub pull_secrets: Vec<String>,
    /// The names of restrictions of system calls in every container of agent and tools.
    pub restrictions: Vec<String>,
    /// The limits of each container; the launcher's memory has its own.
    pub limits: Limits,
    /// Seconds after which Kubernetes ends the pod.
    pub deadline_secs: Option<u64>,
    /// The user and group of all processes; not root.
    pub user: u32,
    /// The names of tools that are not built in.
    pub further_tools: Vec<String>,
    /// The names of tools that are judged, then run in the agent container.
    pub in_place: Vec<String>,
    /// The destinations that containers can connect to.
    pub network: PodNetwork,
    /// Addresses and their TCP ports to which containers can connect too, with [`PodNetwork::Ports`].
    pub addresses: Vec<(IpAddr, BTreeSet<u16>)>,
    /// The cluster's DNS; empty for the usual ones.
    pub dns: Vec<DnsServer>,
    /// Addresses of the API server, to which containers cannot connect.
    pub api_server: Vec<IpAddr>,
    /// Facts about the session that hold less than in containers of an engine.
    pub warnings: Vec<String>,
}

/// The agent container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAgent {
    /// The agent name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its variables; none is secret.
    pub variables: Vec<(String, String)>,
    /// Keys and values of git's configuration for it, such as the user's name.
    pub git: Vec<(String, String)>,
    /// Directories in `/tmp` of which it and each kind have their own.
    pub private: Vec<String>,
}

/// The container of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindContainer {
    /// The kind.
    pub kind: Kind,
    /// Its image.
    pub image: String,
    /// Its variables.
    pub variables: Vec<(String, String)>,
    /// The directories of its caches, which end with the session.
    pub caches: Vec<String>,
}

/// A pod workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceSource {
    /// A claim of a persistent volume, by its name.
    Claim(String),
    /// A repository that is cloned when the pod starts.
    Git {
        /// The URL.
        url: String,
        /// A branch or tag; `None` for the default branch.
        reference: Option<String>,
        /// A secret with the keys `username` and `password`.
        secret: Option<String>,
        /// True if `aifo` pushes the session branch to the URL.
        is_pushed: bool,
    },
    /// Files that a client uploads before the agent starts.
    Upload,
}

/// A secret and its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The name of the secret.
    pub secret: String,
    /// The launcher variables, each the key of the same name. Missing ones are left out.
    pub variables: Vec<String>,
}

/// Limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub milli_cpus: Option<u64>,
}

/// The outgoing connections of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// To these TCP ports of public addresses, and DNS.
    Ports(Vec<u16>),
    /// To every address.
    Open,
    /// None.
    None,
}
