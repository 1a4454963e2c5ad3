//! Decides where a tool call runs: locally, in a sidecar, or as a notification on the host.
//!
//! In scope: finding the program in the arguments of node or python, checking whether it is in the
//! workspace, choosing the local runtime, the reason as one log line, and a project's own tools in a
//! sidecar. `spec/decide.md` defines the rules; the tests replay its tables.
//!
//! Out of scope: whether the tool is allowed (proxy), reading the settings and carrying out the
//! decision (shim).
//!
//! ```
//! use std::path::{Path, PathBuf};
//! use aifo_decide::{ToolCall, Decision, Settings, SmartToggles, Toggle, FileFacts, decide};
//!
//! /// A file system without links, with node in `/usr/bin`.
//! struct Files;
//! impl FileFacts for Files {
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
//! let cwd = Path::new("/workspace");
//! let call = ToolCall { tool: b"node", program: None, args: &args, cwd };
//! let decision = decide(&call, &settings, &Files).unwrap();
//! assert!(matches!(decision, Decision::Local(_)));
//! assert_eq!(
//!     decision.log_line(call.tool),
//!     "smart: tool=node mode=local reason=outside-workspace program=/opt/x.js \
//!      local=/usr/bin/node"
//! );
//! ```
//!
//! Architecture invariant: `decide` depends on neither the proxy nor its allowlists. It decides
//! *where* a call runs, the proxy decides *whether*. It performs no I/O; [`FileFacts`] supplies
//! everything about files.

mod call_path;
mod decide;
mod decision;
mod entry_point;
mod file_facts;
mod node;
mod node_options;
mod project_tools;
mod python;
mod runtime;
mod runtime_lookup;
mod settings;
mod workspace;

pub use call_path::{has_interpreter_name, leads_to_interpreter};
pub use decide::{ToolCall, decide, goes_to_proxy};
pub use decision::{Decision, Local, Notify, Program, Proxy, Reason};
pub use file_facts::FileFacts;
pub use project_tools::{ProjectTools, Substitute};
pub use runtime_lookup::RuntimeNotFound;
pub use settings::{Settings, SmartToggles, Toggle};
