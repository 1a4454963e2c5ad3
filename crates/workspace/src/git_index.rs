//! The entries in the index of a git repository. Git itself is not started: a repository configuration names
//! programs (`spec/trust.md#programs`).

/// An entry of an index, without what git remembers of the file in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    /// Its path.
    pub path: Vec<u8>,
    /// Its kind and permissions.
    pub mode: u32,
    /// The id of its content.
    pub id: Vec<u8>,
    /// 0, or its side in a merge.
    pub stage: u16,
}

/// Returns the entries of an index; `None` for a format other than versions 2 to 4 with SHA-1, or a damaged file.
pub fn index_entries(index: &[u8]) -> Option<Vec<IndexEntry>> {
    let mut rest = index.strip_prefix(b"DIRC")?;
    let (version, count) = (number(&mut rest)?, number(&mut rest)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries: Vec<IndexEntry> = Vec::new();
    for _ in 0..count {
        let before = rest.len();
        // Times, device and inode; owner and size.
        take(&mut rest, 24)?;
        let mode = number(&mut rest)?;
        take(&mut rest, 12)?;
        let id = take(&mut rest, 20)?.to_vec();
        let flags = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
        if version >= 3 && flags & 0x4000 != 0 {
            take(&mut rest, 2)?;
        }
        let mut path = Vec::new();
        if version == 4 {
            let last = entries.last().map_or(&[][..], |last| last.path.as_slice());
            let removed = varint(&mut rest)?;
            path.extend_from_slice(last.get(..last.len().checked_sub(removed)?)?);
        }
        let end = rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(take(&mut rest, end)?);
        take(&mut rest, 1)?;
        if version < 4 {
            // One to eight NULs fill up to a multiple of eight.
            let read = before - rest.len();
            take(&mut rest, read.next_multiple_of(8) - read)?;
        }
        entries.push(IndexEntry { path, mode, id, stage: flags >> 12 & 3 });
    }
    Some(entries)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?))
}

/// Reads a number as git's packs have it: seven bits per byte, and one is added for each further byte.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *take(rest, 1)?.first()?;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "core.fsmonitor=false"]).args(words).current_dir(dir);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn indexes_of_git_are_read() {
        for version in ["2", "3", "4"] {
            let dir = tempfile::tempdir().unwrap();
            let at = dir.path();
            git(at, &["init", "--quiet"]);
            let mut expected = Vec::new();
            for length in 1..40 {
                let name = "n".repeat(length);
                fs::create_dir_all(at.join("dir")).unwrap();
                for path in [name.clone(), format!("dir/{name}.rs")] {
                    fs::write(at.join(&path), "").unwrap();
                    expected.push(path.into_bytes());
                }
            }
            expected.sort();
            git(at, &["update-index", "--index-version", version]);
            git(at, &["add", "."]);
            if version == "3" {
                // Entries with more flags.
                git(at, &["rm", "--cached", "--quiet", "n"]);
                git(at, &["add", "--intent-to-add", "n"]);
            }
            let index = fs::read(at.join(".git/index")).unwrap();
            assert_eq!(index[7].to_string(), version);
            let entries = index_entries(&index).unwrap();
            assert!(entries.iter().all(|entry| entry.mode == 0o100_644 && entry.stage == 0));
            let paths: Vec<_> = entries.into_iter().map(|entry| entry.path).collect();
            assert_eq!(paths, expected, "version {version}");
            for cut in 0..index.len().min(3000) {
                assert!(index_entries(&index[..cut]).is_none(), "version {version} {cut}");
            }
        }
        assert_eq!(index_entries(b""), None);
        assert_eq!(index_entries(b"DIRC\0\0\0\x05\0\0\0\0"), None);
        assert_eq!(index_entries(b"DIRC\0\0\0\x02\xff\xff\xff\xff"), None);
    }
}
