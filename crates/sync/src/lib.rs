//! A workspace that is copied to a pod, and its changes back (`spec/kubernetes.md#upload`).
//!
//! In scope: the files of an upload ([`Upload`]), its stream ([`receive_upload`]), the changes since it
//! ([`send_changes`]), and their merge into the workspace ([`Fetch`]), where neither an invalid path nor a link
//! leads out of it, and a file that changed on both sides stays. The commits of a pod repository, which neither side
//! trusts ([`send_result`], [`receive_result`]).
//!
//! Out of scope: the transport of the bytes (`kubectl exec`, by `aifo-coder`), and the choice of git.
//!
//! ```
//! use aifo_sync::{Fetch, Snapshot, Upload, UploadLimits, UploadScope, receive_upload, send_changes};
//! use std::fs;
//!
//! let (here, pod) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! fs::write(here.path().join("main.rs"), "before")?;
//! let upload = Upload::plan(here.path(), UploadScope::Unignored, UploadLimits::default())?;
//! let mut stream = Vec::new();
//! let mut base = upload.send(&mut stream)?;
//! receive_upload(pod.path(), &stream[..])?;
//!
//! fs::write(pod.path().join("main.rs"), "after")?;
//! let (mut request, mut changes) = (Vec::new(), Vec::new());
//! base.write(&mut request)?;
//! send_changes(pod.path(), &request[..], &mut changes)?;
//! let report = Fetch::new(here.path(), "conflicts")?.apply(&mut base, &changes[..])?;
//! assert_eq!((report.written, report.conflicts.len()), (1, 0));
//! assert_eq!(fs::read_to_string(here.path().join("main.rs"))?, "after");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: the crate opens no connection. Bytes of the pod are untrusted: each path is parsed where
//! it enters, and resolved below the workspace by the kernel.

mod changes;
mod entry;
mod error;
mod fetch;
mod limits;
mod merge;
mod path;
mod result;
mod scan;
mod snapshot;
mod stream;
mod upload;
mod version;

pub use changes::send_changes;
pub use entry::Entry;
pub use error::SyncError;
pub use fetch::{CONFLICTS, Conflict, Fetch, FetchReport, Rejection};
pub use limits::{UploadLimits, UploadScope};
pub use merge::{ConflictKind, Here, Merge, merge};
pub use path::{PathError, WorkspacePath};
pub use result::{
    Git, ObjectId, PushFailure, PushState, ReceivedBranch, ReceivedResult, Remote, ResultRequest,
    has_result, push_result, receive_bundle, receive_result, references_digest, send_result,
    session_start,
};
pub use snapshot::Snapshot;
pub use upload::{Upload, receive_upload};
