//! The files of a workspace, which are not trusted.
//!
//! In scope: objects below a directory, found and changed beneath it ([`Tree`]), the rules of `.gitignore`
//! ([`Rules`]), and the entries of a git index ([`index_entries`]).
//!
//! Out of scope: which files count, and what is done with them.
//!
//! Architecture invariant: the kernel resolves each path beneath the workspace, and follows no link on the way.

mod git_index;
mod ignored;
mod tree;

pub use git_index::{IndexEntry, index_entries};
pub use ignored::Rules;
pub use tree::{Object, Tree, file_mode};
