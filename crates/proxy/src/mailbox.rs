//! Frontend for requests in files: the daemon of a mailbox (`spec/mailbox.md`), from the claim of a
//! request to its answer.
//!
//! `files` reads and writes the directory, `aifo-policy` permits commands, and the runner of the kind
//! `host` executes them.
//!
//! ```no_run
//! use std::sync::Arc;
//! use aifo_proxy::CallApprovals;
//! use aifo_proxy::mailbox::{
//!     CommandName, Directory, HostRunner, Mailbox, MailboxConfig, ServedCommand, Stop,
//!     host_fleet,
//! };
//! use tokio::sync::watch;
//!
//! # async fn open(runner: HostRunner) -> Result<(), Box<dyn std::error::Error>> {
//! let fleet = Arc::new(host_fleet(runner).await?);
//! let config = MailboxConfig {
//!     directory: Directory::open_or_create("/home/me/project/.swe-swe/proxy".as_ref())?,
//!     workspace: "/home/me/project".into(),
//!     commands: vec![ServedCommand {
//!         name: CommandName::parse(b"make")?,
//!         program: "/usr/bin/make".into(),
//!     }],
//!     variables: Vec::new(),
//!     approvals: CallApprovals::allow_all(),
//!     max_runtime: None,
//!     grace: std::time::Duration::from_secs(10),
//! };
//! let (stop, receiver) = watch::channel(Stop::No);
//! Mailbox::open(config, fleet).await?.serve(receiver).await;
//! # drop(stop);
//! # Ok(())
//! # }
//! ```

mod changes;
mod client;
mod command_output;
mod command_stdin;
mod daemon;
mod files;
mod host_runner;
mod opening;
mod request;
mod waiting_client;

pub use daemon::{Mailbox, Stop};
pub use files::{CommandName, Directory, InvalidCommandName};
pub use host_runner::{HostRunner, host_fleet};
pub use opening::{MailboxConfig, MailboxError, ServedCommand};
