//! Objects of a repository in the workspace, whose git is not run.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use aifo_workspace::{Object, Tree};

use crate::path::{as_path, join};
use crate::scope::REPOSITORY;

/// Returns whether the repository has an object: in a file of its own or in a pack. In doubt it
/// is missing.
pub(crate) fn has_object(tree: &Tree, id: &[u8]) -> bool {
    // A symbolic reference names another one, which has a row of its own.
    if id.starts_with(b"ref: ") {
        return true;
    }
    let Ok(hex) = std::str::from_utf8(id) else { return false };
    let is_id = matches!(hex.len(), 40 | 64) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((directory, rest)) = hex.split_at_checked(2).filter(|_| is_id) else { return false };
    let loose = format!("objects/{directory}/{rest}");
    if matches!(tree.object(&repository_path(loose.as_bytes())), Object::File(_)) {
        return true;
    }
    let Some(id) = bytes_of(hex) else { return false };
    let packs = tree.names(&repository_path(b"objects/pack")).unwrap_or_default();
    let indexes = packs.iter().filter(|name| name.as_bytes().ends_with(b".idx"));
    indexes.into_iter().any(|name| {
        let path = join(b"objects/pack", name.as_bytes());
        let opened = tree.open_file(&repository_path(&path));
        opened.is_ok_and(|(file, _)| in_pack_index(file, &id).unwrap_or(false))
    })
}

/// Searches a pack's index, version 2: 256 counts by first byte, then the sorted ids.
fn in_pack_index(mut file: File, id: &[u8]) -> io::Result<bool> {
    const HEAD: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
    let mut head = [0; 8 + 256 * 4];
    file.read_exact(&mut head)?;
    let (magic, counts) = head.split_at(8);
    if magic != HEAD {
        return Ok(false);
    }
    let count = |at: usize| -> u64 {
        let bytes = counts.get(4 * at..4 * at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, |bytes| u64::from(u32::from_be_bytes(bytes)))
    };
    let first = usize::from(id.first().copied().unwrap_or_default());
    let (mut low, mut high) = (if first == 0 { 0 } else { count(first - 1) }, count(first));
    let mut found = vec![0; id.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(head.len() as u64 + middle * id.len() as u64))?;
        file.read_exact(&mut found)?;
        match found.as_slice().cmp(id) {
            Ordering::Equal => return Ok(true),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(false)
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Returns the path to a file in the repository.
pub(crate) fn repository_path(path: &[u8]) -> PathBuf {
    as_path(&join(REPOSITORY, path)).to_owned()
}
