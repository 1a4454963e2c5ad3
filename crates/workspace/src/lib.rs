//! The files of a workspace, which are not trusted.
//!
//! In scope: objects below a directory, found and changed beneath it ([`Tree`]), the rules of `.gitignore`
//! ([`Rules`]), the entries of a git index ([`index_entries`]), and the objects of a repository ([`GitObjects`]).
//!
//! Out of scope: which files count, and what is done with them.
//!
//! ```
//! use aifo_workspace::{Object, Rules, Tree};
//! use std::path::Path;
//!
//! let workspace = tempfile::tempdir()?;
//! std::fs::write(workspace.path().join(".gitignore"), "target\n")?;
//! std::os::unix::fs::symlink("/etc", workspace.path().join("link"))?;
//! let tree = Tree::open(workspace.path())?;
//! assert!(matches!(tree.object(Path::new("link/passwd")), Object::Behind));
//! assert!(Rules::of_root(&tree).ignores(Path::new("target"), true));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Architecture invariant: the kernel resolves each path beneath the workspace, and follows no link on the way.

mod git_index;
mod git_objects;
mod ignored;
mod tree;

pub use git_index::{IndexEntry, index_entries};
pub use git_objects::{GitObjects, GitType, has_git_object};
pub use ignored::Rules;
pub use tree::{Object, Tree, file_mode};
