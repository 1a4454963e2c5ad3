//! Data types of calls, sessions and settings, validated on creation.
//!
//! In scope: tool names, exec ids, tokens, signals, exit statuses, endpoints, subnets, the request
//! to run a tool, its entry in a log, refusals, findings of checks, names of environment variables, detection of secrets by name, and
//! escaping text for a terminal. All of it is plain data, and every value is valid.
//!
//! Out of scope: encoding (`aifo-wire`), policy (`aifo-policy`) and the operating system
//! (`aifo-process`).
//!
//! ```
//! use aifo_types::{Ending, Endpoint, Signal, ToolName};
//!
//! let tool = ToolName::parse(b"cargo").unwrap();
//! assert_eq!(tool.as_str(), "cargo");
//! assert!(ToolName::parse(b"../cargo").is_err());
//! assert_eq!(Signal::parse("sigint"), Some(Signal::Int));
//! assert_eq!(Ending::Signaled(15).exit_code(), 143);
//! assert!(matches!("unix:///run/aifo.sock".parse(), Ok(Endpoint::Unix(_))));
//! ```
//!
//! Architecture invariant: this crate has no dependencies and performs no I/O.

pub mod container_path;
mod ending;
mod endpoint;
pub mod env;
mod escape;
mod exec_id;
mod finding;
mod git_variables;
mod kind;
mod logged_call;
mod path;
mod plumbing;
pub mod proxy_variables;
mod refusal;
mod request;
mod secret;
mod signal;
mod subnet;
mod terminal;
mod token;
mod tool;
mod variables;

pub use ending::{Ending, exit};
pub use endpoint::{Endpoint, EndpointError};
pub use escape::{escape_json, escape_line, escape_text, quote_word, replace_hidden};
pub use exec_id::{ExecId, InvalidExecId};
pub use finding::{Finding, FindingStatus};
pub use git_variables::{is_protective_git_entry, protective_git_variables};
pub use kind::{InvalidKind, Kind};
pub use logged_call::{CallEnding, LoggedCall, agents_own_class};
pub use path::normalise_path;
pub use refusal::{ApprovalFailure, Refusal, Status, replaced_while_waiting};
pub use request::{ExecRequest, FileId, Inherited, SoftLimit, Stdio, TerminalSettings};
pub use secret::{HIDDEN, is_secret, names_secret, secret_in_line, secret_in_word};
pub use signal::Signal;
pub use subnet::{InvalidSubnet, Subnet};
pub use terminal::{InvalidWindowSize, TerminalModes, WindowSize};
pub use token::Token;
pub use tool::{InvalidToolName, ToolName};
pub use variables::{decode_variables, encode_variables};
