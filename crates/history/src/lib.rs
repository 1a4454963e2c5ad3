//! Checkpoints of a workspace before and after each call, and their undo (`spec/history.md`).
//!
//! In scope: what has changed in a workspace and which calls ran meanwhile ([`History`]), the store of a project
//! ([`Store`]), and what an undo does ([`UndoReport`]).
//!
//! Out of scope: which process makes a call, and how a user asks.
//!
//! ```
//! use aifo_history::{Call, History, HistoryConfig, Selection, Store, UndoRequest};
//! use std::{fs, sync::mpsc};
//!
//! let (workspace, store) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let file = workspace.path().join("file");
//! fs::write(&file, "before")?;
//! let path = std::env::var_os("PATH").unwrap_or_default();
//! let config = HistoryConfig {
//!     store: Store::new("git".into(), path, store.path().to_owned()),
//!     session: "a".to_owned(),
//!     workspace: workspace.path().canonicalize()?,
//!     with_secrets: false,
//! };
//! let history = History::start(config, |line| eprintln!("{line}"))?;
//! let call = Call { id: "1".into(), tool: "rm".into(), argv: "file".into(), exit: None };
//! let (ready, starts) = mpsc::channel();
//! if history.call_starts(call, move || ready.send(()).unwrap()) {
//!     starts.recv()?;
//! }
//! fs::remove_file(&file)?;
//! history.call_ended("1", 0);
//! let request = UndoRequest { selection: Selection::Call("1".into()), paths: vec![], apply: true };
//! let (done, report) = mpsc::channel();
//! history.undo(request, move |answer| done.send(answer).unwrap());
//! print!("{}", report.recv()??);
//! assert_eq!(fs::read_to_string(&file)?, "before");
//! history.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: git is never run in the workspace, only in the store. Paths of the workspace are resolved
//! beneath it, and no link is followed.

mod capture;
mod checkpoint;
mod commit;
mod contents;
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
pub use path::{Path, is_selected};
pub use range::call_named;
pub use reader::{ChangeKind, ChangedFile};
pub use report::{Selection, UndoAction, UndoLine, UndoReport, UndoRequest};
pub use scope::Uncovered;
pub use shared::HistoryConfig;
pub use undoing::UNDO;
pub use version::Call;
