//! What a request to a git forge does, without I/O (`spec/forges.md`).
//!
//! In scope: the remotes of a repository and their rewritten URLs ([`Remote`]), the requests of git over HTTP
//! ([`GitRequest`]), the ref updates at the head of a push ([`PushReader`], [`Push`]), and the answer that refuses
//! them.
//!
//! Out of scope: connections, credentials and questions (`aifo-provider`, `aifo-launch`).
//!
//! ```
//! use aifo_forge::{PushReader, UpdateKind};
//!
//! let body = format!("0068{} {} refs/heads/x\0report-status0000", "0".repeat(40), "1".repeat(40));
//! let body = body.replacen("0068", &format!("{:04x}", body.len() - 4), 1);
//! let mut reader = PushReader::default();
//! let (push, pack) = reader.read(body.as_bytes())?.unwrap();
//! assert_eq!((push.updates()[0].kind(), pack.len()), (UpdateKind::Create, 0));
//! # Ok::<(), aifo_forge::PushError>(())
//! ```
//!
//! Architecture invariant: what a push sends to the forge is written anew from what was judged ([`Push::head`]).

mod object_id;
mod pkt_line;
mod push;
mod push_reader;
mod remote;
mod request;

pub use object_id::ObjectId;
pub use push::{Push, RefUpdate, UpdateKind};
pub use push_reader::{MAX_PUSH_HEAD, PushError, PushReader};
pub use remote::{Remote, git_settings, remotes_of_config};
pub use request::{GitRequest, GitService, RepositoryPath};
