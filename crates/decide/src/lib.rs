//! Where a tool call runs: here, in a sidecar, or as a notification on the user's machine.
//!
//! In scope: what an argument list of node or python makes it run, whether that lies in the
//! workspace, which local runtime then takes over, and the reason, as one line. The rules are
//! `spec/decide.md`, whose tables the tests replay.
//!
//! Out of scope: whether a tool may run at all (the proxy says), reading settings, and acting on
//! the decision (both are the shim's).
//!
//! ```
//! use std::path::{Path, PathBuf};
//! use aifo_decide::{ToolCall, Decision, Settings, SmartToggles, Toggle, FileFacts, decide};
//!
//! /// An agent's place with a node of its own and no links.
//! struct Plain;
//! impl FileFacts for Plain {
//!     fn real_path(&self, path: &Path) -> Option<PathBuf> {
//!         Some(path.to_owned())
//!     }
//!     fn is_file(&self, _: &Path) -> bool {
//!         false
//!     }
//!     fn is_executable(&self, path: &Path) -> bool {
//!         path == Path::new("/usr/bin/node")
//!     }
//! }
//!
//! let smart = SmartToggles::from_toggles(Toggle::On, Toggle::On, Toggle::Off);
//! let settings = Settings { smart, ..Settings::default() };
//! let args = [b"--no-warnings".to_vec(), b"/opt/x.js".to_vec()];
//! let call = ToolCall { tool: b"node", args: &args, cwd: Path::new("/workspace") };
//! let decision = decide(&call, &settings, &Plain).unwrap();
//! assert!(matches!(decision, Decision::Local(_)));
//! assert_eq!(
//!     decision.log_line(call.tool),
//!     "smart: tool=node mode=local reason=outside-workspace program=/opt/x.js \
//!      local=/usr/bin/node"
//! );
//! ```
//!
//! Architecture invariant: `decide` knows neither the proxy nor its allowlists. It says *where*, the
//! proxy says *whether*. It touches nothing itself: all it learns of files comes through [`FileFacts`].

mod decide;
mod decision;
mod entry_point;
mod node;
mod node_options;
mod python;
mod runtime;
mod runtime_lookup;
mod settings;
mod workspace;

pub use decide::{FileFacts, ToolCall, decide};
pub use decision::{Decision, Local, Notify, Program, Proxy, Reason};
pub use runtime_lookup::RuntimeNotFound;
pub use settings::{Settings, SmartToggles, Toggle};
