//! Opening files with the rights of another user.

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, getgroups, setfsgid, setfsuid, setgroups};

use crate::credentials::Credentials;
use crate::sys::{self, SuspendedCapabilities};

/// Opens files with the rights of a user: runs `open` while the kernel checks every access of this thread
/// to a file by these credentials; of root alone with the capabilities of this process.
///
/// The process keeps its own user, so no program of the other one may signal or trace it meanwhile. Only its
/// groups change in all threads. Errors: EPERM if this is not root, or lacks CAP_SETUID or CAP_SETGID.
pub fn with_rights_of<T>(user: &Credentials, open: impl FnOnce() -> T) -> nix::Result<T> {
    let _until_it_is_open = BorrowedRights::of(user)?;
    Ok(open())
}

/// The rights of a user, until this is dropped.
struct BorrowedRights {
    own_groups: Vec<Gid>,
    own_gid: Gid,
    own_uid: Uid,
    suspended: Option<SuspendedCapabilities>,
}

impl BorrowedRights {
    fn of(user: &Credentials) -> nix::Result<Self> {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
        let own_groups = getgroups()?;
        setgroups(&groups)?;
        let (own_gid, own_uid) = (setfsgid(gid), setfsuid(uid));
        let mut borrowed = BorrowedRights { own_groups, own_gid, own_uid, suspended: None };
        if !uid.is_root() {
            borrowed.suspended = Some(sys::suspend_capabilities()?);
        }
        // Neither call reports a failure. Setting the same again returns what is set.
        match (setfsgid(gid), setfsuid(uid)) == (gid, uid) {
            true => Ok(borrowed),
            false => Err(Errno::EPERM),
        }
    }
}

impl Drop for BorrowedRights {
    fn drop(&mut self) {
        self.suspended = None;
        setfsuid(self.own_uid);
        setfsgid(self.own_gid);
        // Cannot fail: the capability that has set others is back.
        let _ = setgroups(&self.own_groups);
    }
}
