//! Opening files with the rights of another user.

use nix::unistd::{Gid, Uid, getgroups, setfsgid, setfsuid, setgroups};

use crate::credentials::Credentials;
use crate::sys;

/// Opens files with the rights of a user: runs `open` while the kernel checks every access of this thread
/// to a file by these credentials; of root alone with the capabilities of this process.
///
/// The process keeps its own user, so no program of the other one may signal or trace it meanwhile. Only its
/// groups change in all threads. Errors: EPERM if this is not root, or lacks CAP_SETUID or CAP_SETGID.
pub fn with_rights_of<T>(user: &Credentials, open: impl FnOnce() -> T) -> nix::Result<T> {
    let own = getgroups()?;
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    setgroups(&groups)?;
    let (gid, uid) = (setfsgid(Gid::from_raw(user.gid)), setfsuid(Uid::from_raw(user.uid)));
    let suspended = match user.uid {
        0 => Ok(None),
        _ => sys::suspend_capabilities().map(Some),
    };
    // Neither call reports a failure. Setting the same again returns what is set.
    let is_set = setfsuid(Uid::from_raw(user.uid)).as_raw() == user.uid
        && setfsgid(Gid::from_raw(user.gid)).as_raw() == user.gid;
    let opened = match (&suspended, is_set) {
        (Ok(_), true) => Ok(open()),
        (Ok(_), false) => Err(nix::errno::Errno::EPERM),
        (Err(errno), _) => Err(*errno),
    };
    drop(suspended);
    setfsuid(uid);
    setfsgid(gid);
    setgroups(&own)?;
    opened
}
