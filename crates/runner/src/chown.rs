//! Changes the owner of a sidecar's caches to the user of its tools.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// A user id and a group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// Changes the owner of directory trees, without following symbolic links. A new volume belongs to
/// root, and a used one to its previous user.
///
/// Needs `CAP_CHOWN` and, for directories of others, `CAP_DAC_READ_SEARCH`. Meant for a container
/// that mounts nothing but these trees, so swapping a directory for a link during the walk gains an
/// attacker nothing.
///
/// Errors: a root is missing, or an owner cannot be changed. Entries that vanish meanwhile are
/// skipped.
pub fn chown_tree(owner: Owner, roots: &[PathBuf]) -> io::Result<()> {
    for root in roots {
        // A list rather than recursion, which a deep tree could drive into a stack overflow.
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

/// Changes the owner of one entry. Returns its entries if it is a directory.
fn chown(path: &Path, owner: Owner) -> io::Result<Vec<PathBuf>> {
    let context = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot change the owner of '{}': {error}", path.display()),
        )
    };
    let metadata = path.symlink_metadata().map_err(context)?;
    // Listed first: afterwards this process may have no permission.
    let entries = if metadata.is_dir() { entries(path).map_err(context)? } else { Vec::new() };
    if !belongs_to(&path.symlink_metadata().map_err(context)?, owner) {
        lchown(path, Some(owner.uid), Some(owner.gid)).map_err(context)?;
    }
    Ok(entries)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(directory) {
        // Without CAP_DAC_OVERRIDE, only the owner may list it; so it is taken over first.
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
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
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
    }
}
