//! Frontends other than the proxy: mailboxes, and an ACP agent's files and terminals.
//!
//! In scope: the daemon of a mailbox (`spec/mailbox.md`), from the claim of a request to its answer; the
//! files and terminals that ACP agents use (`spec/acp-hosts.md`).
//!
//! Out of scope: the directory's files (`aifo-mailbox`), permitted commands (`aifo-policy`), their
//! execution (`aifo-sidecar`, the runner of the kind `host`), and the messages of ACP (`aifo-acp`).
//!
//! ```no_run
//! use std::sync::Arc;
//! use aifo_doors::{
//!     Client, Command, CommandName, Directory, Host, Mailbox, MailboxConfig, Stop, host_fleet,
//! };
//! use tokio::sync::watch;
//!
//! # async fn open(host: Host) -> Result<(), Box<dyn std::error::Error>> {
//! let fleet = Arc::new(host_fleet(host).await?);
//! let config = MailboxConfig {
//!     directory: Directory::open_or_create("/home/me/project/.swe-swe/proxy".as_ref())?,
//!     workspace: "/home/me/project".into(),
//!     commands: vec![Command {
//!         name: CommandName::parse(b"make")?,
//!         program: "/usr/bin/make".into(),
//!     }],
//!     variables: Vec::new(),
//!     client: Client::Script,
//!     max_runtime: None,
//!     grace: std::time::Duration::from_secs(10),
//! };
//! let (stop, receiver) = watch::channel(Stop::No);
//! Mailbox::open(config, fleet).await?.serve(receiver).await;
//! # drop(stop);
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: this crate does not depend on containers and does not bypass the policy. A
//! mailbox's request becomes an `ExecRequest`; a terminal runs a command that its owner builds.

mod client;
mod files;
mod host;
mod input;
mod mailbox;
mod opening;
mod output;
mod request;
mod rpc;
mod terminals;
mod workspace;

pub use aifo_mailbox::{CommandName, Directory, InvalidCommandName};
pub use client::Client;
pub use files::{Access, FileJudge, FileLimits, Files, MissingFile, Writing};
pub use host::{Host, host_fleet};
pub use mailbox::{Mailbox, Stop};
pub use opening::{Command, MailboxConfig, MailboxError};
pub use terminals::{InPlace, TerminalCommand, TerminalConfig, TerminalJudge, Terminals};
pub use workspace::{Resolved, Workspace};
