//! The result branch of a pod repository (`spec/kubernetes.md#the-result-branch`).

mod commit;
mod git;
mod header;
mod object_id;
mod push;
mod receive;
mod references;
mod send;

pub use git::Git;
pub use header::PushState;
pub use object_id::ObjectId;
pub use push::{PushFailure, Remote, push_result};
pub use receive::{ReceivedBranch, ReceivedResult, receive_bundle, receive_result};
pub use references::{references_digest, session_start};
pub use send::{ResultRequest, has_result, send_result};
