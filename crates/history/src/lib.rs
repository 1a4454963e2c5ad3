//! Checkpoints of a workspace before and after each call, and their undo (`spec/history.md`).
//!
//! In scope: what has changed in a workspace and which calls ran meanwhile ([`History`]), the store of a project
//! ([`Store`]), and what an undo does ([`UndoReport`]).
//!
//! Out of scope: which process makes a call, and how a user asks.
//!
//! Architecture invariant: git is never run in the workspace, only in the store. Paths of the workspace are resolved
//! beneath it, and no link is followed.

mod capture;
mod checkpoint;
mod commit;
mod directory;
mod error;
mod file;
mod git;
mod git_objects;
mod history;
mod names;
mod path;
mod range;
mod reader;
mod recorder;
mod report;
mod repository;
mod restore;
mod retention;
mod scope;
mod shared;
mod undo;
mod undoing;
mod version;
mod watch;
mod writer;

pub use checkpoint::{Cause, Checkpoint, Note};
pub use error::HistoryError;
pub use git::Store;
pub use history::History;
pub use path::Path;
pub use reader::{ChangeKind, ChangedFile};
pub use report::{Selection, UndoAction, UndoLine, UndoReport, UndoRequest};
pub use scope::Uncovered;
pub use shared::HistoryConfig;
pub use undoing::UNDO;
pub use version::Call;
