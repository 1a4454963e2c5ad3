//! Compares the objects of two descriptors, as after the shell's `2>&1`.

use std::os::fd::BorrowedFd;

use nix::fcntl::OFlag;
use nix::libc;

use crate::sys::kernel::{self, fstat, position, status_flags};

/// Returns whether output to both descriptors keeps its order. That is the case if they share an
/// open file description, as after `dup`, or if they are the same pipe, or the same file opened
/// twice for appending (`>> log 2>> log`).
///
/// A container may forbid `kcmp`. Then descriptors with equal properties count as the same object.
pub fn is_same_object(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    kernel::kcmp_files(a, b).unwrap_or_else(|_| same_by_stat(a, b)) || append_to_same_file(a, b)
}

/// Returns whether both are the same pipe, or the same file, opened for appending.
fn append_to_same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    let file = |fd| {
        let stat = fstat(fd).ok()?;
        let flags = OFlag::from_bits_retain(status_flags(fd).ok()?);
        let appends = match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => flags.contains(OFlag::O_APPEND),
            kind => kind == libc::S_IFIFO,
        };
        let writes = flags & OFlag::O_ACCMODE == OFlag::O_WRONLY;
        (appends && writes).then_some((stat.st_dev, stat.st_ino))
    };
    file(a).is_some_and(|one| file(b) == Some(one))
}

/// Returns whether both are the same file, opened with the same flags, at the same position if it
/// has one.
fn same_by_stat(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    let (Some(a), Some(b)) = (stat_identity(a), stat_identity(b)) else { return false };
    a == b
}

fn stat_identity(fd: BorrowedFd<'_>) -> Option<impl PartialEq> {
    let stat = fstat(fd).ok()?;
    let flags = status_flags(fd).ok()?;
    let position = match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Some(position(fd).ok()?),
        _ => None,
    };
    Some((stat.st_dev, stat.st_ino, stat.st_rdev, stat.st_mode, flags, position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn a_duplicate_matches_and_a_second_open_does_not() {
        let mut file = File::open("/etc/passwd").unwrap();
        let duplicate = file.try_clone().unwrap();
        let second = File::open("/etc/passwd").unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        file.read_exact(&mut [0]).unwrap();
        for same in [is_same_object, same_by_stat] {
            assert!(same(file.as_fd(), duplicate.as_fd()));
            assert!(!same(file.as_fd(), second.as_fd()));
            assert!(!same(reader.as_fd(), writer.as_fd()));
        }
        let again = File::open("/etc/passwd").unwrap();
        assert!(same_by_stat(again.as_fd(), second.as_fd()), "by stat alone they match");
        let forbidden = kernel::kcmp_files(file.as_fd(), file.as_fd()).is_err();
        assert_eq!(is_same_object(again.as_fd(), second.as_fd()), forbidden);
    }

    #[test]
    fn append_only_files_match_however_often_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        let open = |append: bool| {
            let mut options = File::options();
            options.write(true).create(true).append(append);
            options.open(directory.join("log")).unwrap()
        };
        let [first, second, other] = [open(true), open(true), open(false)];
        assert!(is_same_object(first.as_fd(), second.as_fd()));
        assert!(!append_to_same_file(first.as_fd(), other.as_fd()), "one has a position");
    }
}
