//! Giving a sidecar's caches to the user that its tools run as.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
}

/// Gives each of these roots to `owner`, with whatever in them belongs to somebody else. Links are
/// not followed. An engine makes a volume for root, and one that another user has filled before stays
/// theirs.
///
/// It takes `CAP_CHOWN` and no other capability. It is meant for a container that holds nothing but
/// such roots: whoever could swap a directory for a link meanwhile would gain nothing by it.
///
/// Errors: a root is not there, or an owner cannot be changed. What is in a root and vanishes
/// meanwhile is passed over.
pub fn chown_tree(owner: Owner, roots: &[PathBuf]) -> io::Result<()> {
    for root in roots {
        // Directories wait here rather than on our stack, which a deep one could exhaust.
        let mut pending = chown(root, owner)?;
        while let Some(path) = pending.pop() {
            match chown(&path, owner) {
                Ok(entries) => pending.extend(entries),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Changes the owner of one entry, and returns what is in it if it is a directory.
fn chown(path: &Path, owner: Owner) -> io::Result<Vec<PathBuf>> {
    let context = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot chown_tree '{}': {error}", path.display()))
    };
    let metadata = path.symlink_metadata().map_err(context)?;
    // Read first: afterwards it may be closed to us.
    let entries = if metadata.is_dir() { entries(path).map_err(context)? } else { Vec::new() };
    if !belongs_to(&path.symlink_metadata().map_err(context)?, owner) {
        lchown(path, Some(owner.uid), Some(owner.gid)).map_err(context)?;
    }
    Ok(entries)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(directory) {
        // Closed to all but its owner, which we may make ourselves, if nothing else.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            lchown(directory, Some(geteuid().as_raw()), None)?;
            fs::read_dir(directory)?
        }
        listing => listing?,
    };
    listing.map(|entry| Ok(entry?.path())).collect()
}

fn belongs_to(metadata: &Metadata, owner: Owner) -> bool {
    (metadata.uid(), metadata.gid()) == (owner.uid, owner.gid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_changes_owner_and_links_are_not_followed() {
        let base = std::env::temp_dir().join(format!("aifo-chown_tree-{}", std::process::id()));
        fs::create_dir_all(base.join("root/a/b")).unwrap();
        fs::create_dir_all(base.join("outside")).unwrap();
        fs::write(base.join("root/a/b/file"), "").unwrap();
        symlink(base.join("outside"), base.join("root/link")).unwrap();
        let owner = |name: &str| {
            let metadata = base.join(name).symlink_metadata().unwrap();
            Owner { uid: metadata.uid(), gid: metadata.gid() }
        };
        let (root, before) = (base.join("root"), owner("outside"));
        chown_tree(before, std::slice::from_ref(&root)).unwrap();
        assert_eq!(owner("root/a/b/file"), before, "nothing to do");

        let other = Owner { uid: before.uid + 4242, gid: before.gid + 2424 };
        let owned = chown_tree(other, &[root]);
        if geteuid().is_root() {
            owned.unwrap();
            for name in ["root", "root/a", "root/a/b", "root/a/b/file", "root/link"] {
                assert_eq!(owner(name), other, "{name}");
            }
        } else {
            assert_eq!(owned.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert_eq!(owner("outside"), before, "links are not followed");
        let missing = chown_tree(before, &[base.join("none")]).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
        fs::remove_dir_all(&base).unwrap();
    }
}
