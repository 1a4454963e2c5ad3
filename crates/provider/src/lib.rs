//! A reverse proxy to model providers: an agent's requests get the user's key, which the agent never has.
//!
//! In scope: the table of [`Provider`]s; phantom keys; the judgement of requests by host, key, method and
//! path; the headers that pass; connections with TLS to exactly the provider host; counts and limits of
//! requests and tokens. `spec/keys.md` defines the behaviour.
//!
//! Out of scope: listeners in an agent network stack, the sources of keys, and the settings of agents
//! (`aifo-launch`).
//!
//! ```
//! use aifo_provider::Provider;
//!
//! let anthropic = Provider::of("anthropic").unwrap();
//! assert_eq!(anthropic.upstream, "https://api.anthropic.com");
//! ```
//!
//! [`ReverseProxy::serve`] owns its connections, and closes them when it is dropped. The judgement
//! (`judge`, `target`, `headers`, `demand`, `usage`) does no I/O.
//!
//! Architecture invariant: a [`Key`] is in no `Debug` output, log or error, and is overwritten in responses.

mod background;
mod body;
mod connections;
mod demand;
mod forge;
mod forge_api;
mod forge_proxy;
mod forge_refusal;
mod forge_upstream;
mod forges;
mod head;
mod headers;
mod judge;
mod key;
mod lfs;
mod meter;
mod providers;
mod redact;
mod refusal;
mod server;
mod source;
mod target;
mod tls;
mod tunnel;
mod upstream;
mod url;
mod usage;

pub use forge::{Forge, ForgeChange, ForgeGate, GateFuture, PushedTo};
pub use forge_api::ForgeApi;
pub use forge_proxy::ForgeProxy;
pub use forges::{FORGES, ForgeForm, KnownForge};
pub use key::{Alphabet, Key, KeyError, KeyShape, MAX_KEY, PhantomKey};
pub use meter::{Usage, UsageLimits};
pub use providers::{COMPATIBLE, ErrorForm, KeyHeader, PROVIDERS, Provider};
pub use server::{ReverseProxy, Upstream};
pub use source::{FreshKey, KeySource};
pub use url::{UpstreamUrl, UrlError};
pub use usage::Tokens;
