//! The words of the domain, each checked once, where it enters.
//!
//! In scope: tool names, exec ids, tokens, signals, endings, endpoints, subnets, the request to run
//! a tool, the refusals a proxy gives, and the names of the environment contract. All of it is plain data:
//! a value that exists is valid.
//!
//! Out of scope: bytes on a wire (`aifo-wire`), which tool may run where (`aifo-policy`), and the
//! operating system (`aifo-process`).
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
//! Architecture invariant: this crate depends on nothing and does nothing. It does not know that
//! there are sockets, files or processes.

mod ending;
mod endpoint;
pub mod env;
mod exec_id;
mod kind;
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
pub use exec_id::{ExecId, InvalidExecId};
pub use kind::{InvalidKind, Kind};
pub use refusal::{Refusal, Status};
pub use request::ExecRequest;
pub use secret::{HIDDEN, names_secret};
pub use signal::Signal;
pub use subnet::{InvalidSubnet, Subnet};
pub use terminal::{TerminalModes, WindowSize};
pub use token::Token;
pub use tool::{InvalidToolName, ToolName};
pub use variables::{decode_variables, encode_variables};
