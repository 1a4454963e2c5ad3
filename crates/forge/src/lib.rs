//! Requests to a git forge and their effects, without I/O (`spec/forges.md`).
//!
//! In scope: the remotes of a repository and their rewritten URLs ([`RemoteUrl`]), the requests of git over HTTP
//! ([`GitRequest`]), the ref updates at the head of a push ([`PushReader`], [`Push`]), and the answer that refuses
//! them; requests of GitHub's API ([`ApiRequest`], [`GraphQlRequest`]).
//!
//! Out of scope: connections, credentials and questions (`aifo-provider`, `aifo-launch`).
//!
//! ```
//! use aifo_forge::{PushReader, RefChange};
//!
//! let body = format!("0068{} {} refs/heads/x\0report-status0000", "0".repeat(40), "1".repeat(40));
//! let body = body.replacen("0068", &format!("{:04x}", body.len() - 4), 1);
//! let mut reader = PushReader::default();
//! let (push, pack) = reader.read(body.as_bytes())?.unwrap();
//! assert_eq!((push.updates()[0].change(), pack.len()), (RefChange::Create, 0));
//! # Ok::<(), aifo_forge::PushError>(())
//! ```
//!
//! Architecture invariant: the forge gets a head that is written anew from the judged one ([`Push::head`]).

mod advertisement;
mod ancestry;
mod api;
mod graphql;
mod graphql_fields;
mod graphql_reach;
mod known_ids;
mod oid;
mod pkt_line;
mod push;
mod push_reader;
mod remote;
mod request;

pub use advertisement::advertised_ids;
pub use ancestry::{
    CI_PATHS, MAX_FILES, ObjectType, ReadObject, changed_ci_files, changed_files, nearest_ancestor,
};
pub use api::{ApiChange, ApiRequest, own_links, repository_named};
pub use graphql::{ApiError, GraphQlRequest};
pub use graphql_reach::Mutation;
pub use known_ids::KnownIds;
pub use oid::Oid;
pub use push::{Push, RefChange, RefUpdate};
pub use push_reader::{MAX_PUSH_HEAD, PushError, PushReader};
pub use remote::{RemoteUrl, git_settings, remotes_of_config};
pub use request::{GitRequest, GitService, RepositoryPath};
