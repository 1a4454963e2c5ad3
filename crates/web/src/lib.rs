//! A web page to watch and steer an agent (`spec/web.md`).
//!
//! In scope: the sessions of one agent and their history, their pages as HTML by key, HTTP with
//! server-sent events and commands, access, images, and the page's own files.
//!
//! Out of scope: how the agent is started and where it runs ([`AgentLauncher`]), the rules on its
//! permission requests ([`RuleJudge`]), and configuration files.
//!
//! Architecture invariant: the server owns the state, a browser shows it. Nothing that an agent
//! sends reaches a page unescaped, and no request without credentials reads or changes a session.
//!
//! # Examples
//!
//! The histories of two working directories are kept apart:
//!
//! ```
//! use std::path::Path;
//!
//! use aifo_web::storage_directory;
//!
//! let data = Path::new("/home/me/.local/share/aifo");
//! let one = storage_directory(data, Path::new("/home/me/one"));
//! let two = storage_directory(data, Path::new("/home/me/two"));
//! assert!(one.starts_with(data.join("web")));
//! assert_ne!(one, two);
//! ```

mod access;
mod attention;
mod block;
mod call_log;
mod clock;
mod diff;
mod driver;
mod history;
mod hub;
mod journal;
mod markdown;
mod media;
mod page_state;
mod report_log;
mod report_ring;
mod server;
mod session_state;
mod tool_view;
mod view;
mod waiting_call;
mod web;

pub use attention::AttentionProgram;
pub use call_log::{CallSource, RunningCall, RunningSession};
pub use driver::{AgentLauncher, AllowedHook, LaunchedAgent, RuleJudge, TurnEdge, TurnHook};
pub use hub::{Storage, storage_directory};
pub use waiting_call::{CallAnswer, CallEnd, WaitingCall};
pub use web::{WaitingCalls, Web, WebConfig};
