//! Front doors beside the proxy's: other ways in to the same request, policy and runner.
//!
//! In scope: the mailbox, host commands for containers that share nothing with the host but a directory
//! (`spec/mailbox.md`): which requests run, each from its claim to its answer, and the end of it all;
//! and the hosts of an agent that speaks ACP: its client's files and terminals (`spec/acp-hosts.md`).
//!
//! Out of scope: what lies in the directory and how it is touched (`aifo-mailbox`), which commands are
//! on the list (`aifo-policy`), how they run (`aifo-sidecar`, the runner of the kind `host`), and what
//! an agent's messages look like (`aifo-acp`).
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
//! let (stop, told) = watch::channel(Stop::No);
//! Mailbox::open(config, fleet).await?.serve(told).await;
//! # drop(stop);
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: a door knows no container and no way round the policy. What comes in through
//! a mailbox becomes an `ExecRequest`; a terminal runs what whoever made it hands it a command for.

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
