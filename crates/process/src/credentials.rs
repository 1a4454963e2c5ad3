//! The user and the groups of a process.

/// A user, and the groups that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The group of its new files.
    pub gid: u32,
    /// All other groups.
    pub groups: Vec<u32>,
}
