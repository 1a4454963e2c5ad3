//! Which sidecar runs a tool, or why none may.
//!
//! In scope: the table of tools and kinds with its allowlists, the order in which running sidecars
//! are tried, the directory a call may run in as far as its spelling tells, which of a caller's
//! variables a tool gets, what of an argument list may stand in a log, and which permissions an agent
//! gets that asks for them.
//!
//! Out of scope: what is running (the caller says), whether a tool is really installed (the runner
//! tells), and where a path really leads (the runner resolves it).
//!
//! ```
//! use aifo_policy::Policy;
//! use aifo_types::{Kind, ToolName};
//!
//! let running = [Kind::parse("rust").unwrap(), Kind::parse("c-cpp").unwrap()];
//! let make = ToolName::parse(b"make").unwrap();
//! let policy = Policy::builtin();
//! let routes = policy.route(&make, &running).unwrap();
//! let kinds: Vec<_> = routes.iter().map(|route| route.kind.as_str()).collect();
//! assert_eq!(kinds, ["c-cpp", "rust"], "tried in this order");
//! let ls = ToolName::parse(b"ls").unwrap();
//! assert_eq!(policy.route(&ls, &running).unwrap_err().status().0, 403);
//! ```
//!
//! Architecture invariant: every function here is pure. `policy` does not know whether a sidecar is
//! a container, and has no state a request could change.

mod directory;
mod forwarding;
mod host_commands;
mod kinds;
mod notify;
mod permissions;
mod policy;
mod redact;
mod route;

pub use directory::{asks_only_for_version, normalise};
pub use forwarding::{ForwardDecision, Forwarding, InvalidVariable, PassReason, StayReason};
pub use host_commands::{HostCommand, HostCommands};
pub use kinds::{DEV_TOOLS, KindSpec, kinds};
pub use notify::{CallerOptions, Executables, Notification, NotifyEnvironment, NotifyRules};
pub use permissions::{
    AccessRequest, CallCommand, DefaultVerdict, InvalidRule, PermissionDecision, PermissionRule,
    PermissionRules, PermissionVerdict, RuleCommand, WithSource,
};
pub use policy::{Allowance, KindPolicy, Policy};
pub use redact::redact;
pub use route::{Route, RouteReason, running_first};
