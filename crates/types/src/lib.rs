//! The words of the domain, each checked once, where it enters.
//!
//! In scope: tool names, exec ids, tokens, signals, endings, endpoints, subnets, the request to run
//! a tool, the refusals a proxy gives, the names of the environment contract, which names stand for secrets, and
//! text that is fit for a terminal. All of it is plain data: a value that exists is valid.
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
mod escape;
mod exec_id;
mod given;
mod kind;
mod refusal;
mod request;
mod secret;
mod signal;
mod subnet;
mod terminal;
mod token;
mod tool;

pub use ending::{Ending, exit};
pub use endpoint::{Endpoint, EndpointError};
pub use escape::{escape_json, escape_line, escape_text};
pub use exec_id::{ExecId, InvalidExecId};
pub use given::{decode_given, encode_given};
pub use kind::{InvalidKind, Kind};
pub use refusal::{Refusal, Status};
pub use request::ExecRequest;
pub use secret::{HIDDEN, is_secret, names_secret, secret_in_line, secret_in_word};
pub use signal::Signal;
pub use subnet::{InvalidSubnet, Subnet};
pub use terminal::{TerminalModes, WindowSize};
pub use token::Token;
pub use tool::{InvalidToolName, ToolName};
