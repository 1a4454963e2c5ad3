//! The user of a call: names in its container files, as engines look them up
//! (`spec/sandbox.md#users`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use aifo_process::Credentials;
use nix::fcntl::OFlag;
use nix::unistd::{getegid, geteuid};

/// A user in this container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) credentials: Credentials,
    /// The home directory, as a call without one gets it.
    pub(crate) home: Vec<u8>,
}

impl User {
    /// Looks up `NAME|UID[:GROUP|GID]`. Errors name what the container's files lack.
    pub(crate) fn look_up(wanted: &[u8]) -> Result<User, String> {
        let read = |path| read_file(path).map_err(|error| format!("cannot read {path}: {error}"));
        find(wanted, &read("/etc/passwd")?, &read("/etc/group")?)
    }

    /// Returns whether this runner must change its user to become this one.
    pub(crate) fn is_other(&self) -> bool {
        let Credentials { uid, gid, .. } = self.credentials;
        geteuid().is_root() || (geteuid().as_raw(), getegid().as_raw()) != (uid, gid)
    }

    /// Returns whether this runner is root, or this user.
    pub(crate) fn may_be_taken(&self) -> bool {
        geteuid().is_root() || !self.is_other()
    }
}

/// Reads a file that programs of the container may have replaced; a missing one is empty.
fn read_file(path: &str) -> io::Result<Vec<u8>> {
    let options = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = match options {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(0..=MAX_FILE) => Ok(bytes),
        _ => Err(io::Error::other(format!("it is longer than {MAX_FILE} bytes"))),
    }
}

/// More than any list of users has.
const MAX_FILE: u64 = 4 << 20;

fn find(wanted: &[u8], passwd: &[u8], group: &[u8]) -> Result<User, String> {
    let mut parts = wanted.splitn(2, |byte| *byte == b':');
    let (name, group_name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let uid = number(name);
    let mut entries = lines(passwd).map(Entry);
    // A number that is a name counts as the name, if it comes first.
    let entry = entries
        .find(|entry| entry.field(0) == name || uid.is_some_and(|it| entry.id(2) == Some(it)));
    let (uid, gid, home) = match (&entry, uid) {
        (Some(entry), _) => (entry.id(2), entry.id(3), entry.field(5)),
        (None, Some(uid)) => (Some(uid), Some(0), b"".as_slice()),
        (None, None) => return Err(format!("no user '{}' in /etc/passwd", name.escape_ascii())),
    };
    let (Some(uid), Some(gid)) = (uid, gid) else {
        return Err(format!("user '{}' has no numbers in /etc/passwd", name.escape_ascii()));
    };
    let mut groups = lines(group).map(Entry);
    let (gid, groups) = if group_name.is_empty() {
        let member = entry.as_ref().map(|entry| entry.field(0));
        let is_member =
            |of: &Entry<'_>| of.field(3).split(|byte| *byte == b',').any(|it| Some(it) == member);
        (gid, groups.filter(is_member).filter_map(|of| of.id(2)).take(MAX_GROUPS).collect())
    } else {
        let number = number(group_name);
        let found = groups
            .find(|of| of.field(0) == group_name || number.is_some_and(|it| of.id(2) == Some(it)));
        let gid = found.and_then(|of| of.id(2)).or(number);
        let gid =
            gid.ok_or_else(|| format!("no group '{}' in /etc/group", group_name.escape_ascii()))?;
        (gid, Vec::new())
    };
    let home = if home.is_empty() { b"/" } else { home };
    Ok(User { credentials: Credentials { uid, gid, groups }, home: home.to_vec() })
}

/// The kernel's limit (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

/// A line of `passwd(5)` or `group(5)`.
struct Entry<'a>(&'a [u8]);

impl<'a> Entry<'a> {
    fn field(&self, index: usize) -> &'a [u8] {
        self.0.split(|byte| *byte == b':').nth(index).unwrap_or_default().trim_ascii()
    }

    fn id(&self, index: usize) -> Option<u32> {
        number(self.field(index))
    }
}

fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// Parses an id; the largest is that of engines.
fn number(text: &[u8]) -> Option<u32> {
    let digits =
        str::from_utf8(text).ok().filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
    digits?.parse().ok().filter(|id| *id <= i32::MAX.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_as_engines_find_them() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\n\nme:x:1000:1001:,,,:/home/me:/bin/sh\n\
                       7:x:8:9::/seven:\nhomeless:x:11:12:::\nbroken\nodd:x:many:1::/:\n";
        let group = b"root:x:0:\nusers:x:100:you,me\nmine:x:1001:me\n55:x:56:\nodd:x:me:me\n";
        let found = |wanted: &str| {
            let user = find(wanted.as_bytes(), passwd, group)?;
            let Credentials { uid, gid, groups } = user.credentials;
            Ok((uid, gid, groups, String::from_utf8(user.home).unwrap()))
        };
        let rows = [
            ("root", (0, 0, vec![], "/root")),
            ("me", (1000, 1001, vec![100, 1001], "/home/me")),
            ("1000", (1000, 1001, vec![100, 1001], "/home/me")),
            ("me:users", (1000, 100, vec![], "/home/me")),
            ("me:4", (1000, 4, vec![], "/home/me")),
            ("me:55", (1000, 56, vec![], "/home/me")),
            ("7", (8, 9, vec![], "/seven")),
            ("8", (8, 9, vec![], "/seven")),
            ("homeless", (11, 12, vec![], "/")),
            ("4711", (4711, 0, vec![], "/")),
            ("4711:4712", (4711, 4712, vec![], "/")),
        ];
        for (wanted, (uid, gid, groups, home)) in rows {
            assert_eq!(found(wanted), Ok((uid, gid, groups, home.to_owned())), "{wanted}");
        }
        let errors = [
            ("nobody", "no user 'nobody' in /etc/passwd"),
            ("me:nogroup", "no group 'nogroup' in /etc/group"),
            ("-1", "no user '-1' in /etc/passwd"),
            ("4294967295", "no user '4294967295' in /etc/passwd"),
            ("a\n", "no user 'a\\n' in /etc/passwd"),
            ("odd", "user 'odd' has no numbers in /etc/passwd"),
            ("", "no user '' in /etc/passwd"),
        ];
        for (wanted, error) in errors {
            assert_eq!(found(wanted), Err(error.to_owned()), "{wanted}");
        }
    }
}
