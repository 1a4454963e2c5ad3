//! Objects of a repository in the workspace, whose git is not run.
//!
//! Anyone can have written them, so a content counts only with the hash that its id is.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use sha1_checked::Sha1;
use sha2::{Digest, Sha256};

use crate::tree::{Object, Tree};

/// Those of a repository in the workspace.
const OBJECTS: &str = ".git/objects";

/// The largest content that is read; of a directory, some ten thousand names.
const MAX_OBJECT: usize = 1 << 20;

/// Limits of a chain of deltas.
const MAX_DELTAS: usize = 256;
const MAX_CHAIN: usize = 16 << 20;

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitType {
    /// A commit.
    Commit,
    /// A directory.
    Tree,
    /// Anything else.
    Other,
}

/// Objects, by their ids.
pub struct GitObjects {
    tree: Tree,
    /// Their directory in it.
    directory: PathBuf,
    /// The packs, without the end of their names.
    packs: Vec<PathBuf>,
}

impl GitObjects {
    /// Opens those of the git directory at `git` below `root`, such as `.git`. Errors: `root` cannot be opened.
    pub fn open(root: &Path, git: &str) -> io::Result<Self> {
        let (tree, directory) = (Tree::open(root)?, Path::new(git).join("objects"));
        let packs = packs(&tree, &directory.join("pack"));
        Ok(GitObjects { tree, directory, packs })
    }

    /// Returns the content of a commit or directory whose hash is this id, 40 or 64 digits. `None` if it is missing, large, of
    /// another type, or a content that was made to have the hash of another one.
    pub fn read(&self, id: &str) -> Option<(GitType, Vec<u8>)> {
        let (kind, content) = self.find(id, 0)?;
        let word = match kind {
            GitType::Commit => "commit",
            GitType::Tree => "tree",
            GitType::Other => return None,
        };
        let head = format!("{word} {}\0", content.len());
        (hash(id.len(), head.as_bytes(), &content)? == id).then_some((kind, content))
    }

    /// Returns a content with this name, whatever its hash is.
    fn find(&self, id: &str, depth: usize) -> Option<(GitType, Vec<u8>)> {
        let bytes = bytes_of(id)?;
        let loose = self.tree.read(&self.directory.join(loose_path(id)?), MAX_OBJECT as u64);
        if let Some(found) = loose.and_then(|bytes| of_loose(&bytes)) {
            return Some(found);
        }
        self.packs.iter().find_map(|pack| {
            let (index, _) = self.tree.open_file(&pack.with_extension("idx")).ok()?;
            let offset = offset_in_pack(index, &bytes).ok()??;
            let (mut file, _) = self.tree.open_file(&pack.with_extension("pack")).ok()?;
            self.of_pack(&mut file, offset, bytes.len(), depth)
        })
    }

    /// Reads an object (gitformat-pack(5)), and applies deltas to their base.
    fn of_pack(
        &self,
        file: &mut File,
        mut offset: u64,
        id_length: usize,
        depth: usize,
    ) -> Option<(GitType, Vec<u8>)> {
        let (mut deltas, mut total) = (Vec::new(), 0);
        let (kind, mut content) = loop {
            let Entry { kind, size, base, content_at } = Entry::read(file, offset, id_length)?;
            let content = inflate(file, content_at, size)?;
            total += content.len();
            if depth + deltas.len() > MAX_DELTAS || total > MAX_CHAIN {
                return None;
            }
            match base {
                None => break (kind, content),
                Some(Base::At(before)) => offset = before,
                Some(Base::Named(id)) => {
                    deltas.push(content);
                    break self.find(&id, depth + deltas.len())?;
                }
            }
            deltas.push(content);
        };
        for delta in deltas.iter().rev() {
            content = apply(delta, &content)?;
        }
        Some((kind, content))
    }
}

/// Returns whether the repository has a file with an object's name, or a pack has the name. In doubt it is missing.
pub fn has_git_object(tree: &Tree, id: &str) -> bool {
    let (Some(loose), Some(id)) = (loose_path(id), bytes_of(id)) else { return false };
    let in_pack = |pack: &PathBuf| {
        let (index, _) = tree.open_file(&pack.with_extension("idx")).ok()?;
        offset_in_pack(index, &id).ok()?
    };
    let objects = Path::new(OBJECTS);
    matches!(tree.object(&objects.join(loose)), Object::File(_))
        || packs(tree, &objects.join("pack")).iter().any(|pack| in_pack(pack).is_some())
}

fn packs(tree: &Tree, directory: &Path) -> Vec<PathBuf> {
    let names = tree.names(directory).unwrap_or_default();
    let indexes = names.iter().filter(|name| name.as_bytes().ends_with(b".idx"));
    indexes.map(|name| directory.join(name).with_extension("")).collect()
}

/// Returns the path of an object's own file below theirs; `None` for what is no id.
fn loose_path(id: &str) -> Option<PathBuf> {
    let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (directory, rest) = id.split_at_checked(2).filter(|_| is_id)?;
    Some(Path::new(directory).join(rest))
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash in the form of ids of this length; `None` for one of a content that was made to collide.
fn hash(digits: usize, head: &[u8], content: &[u8]) -> Option<String> {
    if digits == 64 {
        return Some(hex(&Sha256::new_with_prefix(head).chain_update(content).finalize()));
    }
    let mut hasher = Sha1::new();
    hasher.update(head);
    hasher.update(content);
    let result = hasher.try_finalize();
    (!result.has_collision()).then(|| hex(result.hash()))
}

/// `TYPE LENGTH\0CONTENT`, compressed.
fn of_loose(bytes: &[u8]) -> Option<(GitType, Vec<u8>)> {
    let mut content = decompress_to_vec_zlib_with_limit(bytes, MAX_OBJECT).ok()?;
    let end = content.iter().position(|&byte| byte == 0)?;
    let kind = match content.get(..end)?.split(|&byte| byte == b' ').next()? {
        b"commit" => GitType::Commit,
        b"tree" => GitType::Tree,
        _ => GitType::Other,
    };
    content.drain(..=end);
    Some((kind, content))
}

/// Searches a pack's index, version 2: 256 counts by first byte, the sorted ids, checksums, offsets, long offsets. Returns the
/// offset in the pack.
fn offset_in_pack(mut file: File, id: &[u8]) -> io::Result<Option<u64>> {
    const HEAD: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
    let mut head = [0; 8 + 256 * 4];
    file.read_exact(&mut head)?;
    let (magic, counts) = head.split_at(8);
    if magic != HEAD {
        return Ok(None);
    }
    let count = |at: usize| -> u64 {
        let bytes = counts.get(4 * at..4 * at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, |bytes| u64::from(u32::from_be_bytes(bytes)))
    };
    let first = usize::from(id.first().copied().unwrap_or_default());
    let (mut low, mut high) = (if first == 0 { 0 } else { count(first - 1) }, count(first));
    let (begin, all, length) = (head.len() as u64, count(255), id.len() as u64);
    let mut found = vec![0; id.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(begin + middle * length))?;
        file.read_exact(&mut found)?;
        match found.as_slice().cmp(id) {
            Ordering::Equal => {
                let offsets = begin + all * (length + 4);
                let offset = u32::from_be_bytes(bytes_at(&mut file, offsets + middle * 4)?);
                if offset >> 31 == 0 {
                    return Ok(Some(u64::from(offset)));
                }
                let at = offsets + all * 4 + u64::from(offset & !(1 << 31)) * 8;
                return Ok(Some(u64::from_be_bytes(bytes_at(&mut file, at)?)));
            }
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(None)
}

fn bytes_at<const N: usize>(file: &mut File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The head of an object in a pack.
struct Entry {
    kind: GitType,
    /// Bytes of the content, or of the delta.
    size: usize,
    /// The base of a delta.
    base: Option<Base>,
    content_at: u64,
}

enum Base {
    /// At this offset of the pack.
    At(u64),
    /// With this id.
    Named(String),
}

/// The longest head: a size, and an offset or an id.
const MAX_ENTRY_HEAD: u64 = 64;

impl Entry {
    fn read(file: &mut File, offset: u64, id_length: usize) -> Option<Entry> {
        let mut head = Vec::new();
        file.seek(SeekFrom::Start(offset)).ok()?;
        file.take(MAX_ENTRY_HEAD).read_to_end(&mut head).ok()?;
        let mut bytes = head.iter().copied();
        let mut byte = bytes.next()?;
        let (number, mut size, mut shift) = ((byte >> 4) & 7, u64::from(byte & 15), 4);
        while byte & 0x80 != 0 {
            byte = bytes.next()?;
            size |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 32)?;
            shift += 7;
        }
        let (kind, base) = match number {
            1 => (GitType::Commit, None),
            2 => (GitType::Tree, None),
            3 | 4 => (GitType::Other, None),
            6 => {
                let mut byte = bytes.next()?;
                let mut distance = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    byte = bytes.next()?;
                    let more = (distance + 1).checked_mul(128)?;
                    distance = more.checked_add(u64::from(byte & 0x7f))?;
                }
                // Always before, so the chain ends.
                let before = offset.checked_sub(distance).filter(|_| distance > 0)?;
                (GitType::Other, Some(Base::At(before)))
            }
            7 => {
                let id: Vec<u8> = bytes.by_ref().take(id_length).collect();
                (GitType::Other, Some(Base::Named(hex(&id))))
            }
            _ => return None,
        };
        let content_at = offset + (head.len() - bytes.len()) as u64;
        let size = usize::try_from(size).ok().filter(|&size| size <= MAX_OBJECT)?;
        Some(Entry { kind, size, base, content_at })
    }
}

/// Reads compressed bytes whose size is known.
fn inflate(file: &mut File, at: u64, size: usize) -> Option<Vec<u8>> {
    // Bytes that do not compress have a little more.
    let most = size as u64 + size as u64 / 1000 + 128;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.take(most).read_to_end(&mut bytes).ok()?;
    let content = decompress_to_vec_zlib_with_limit(&bytes, size).ok()?;
    (content.len() == size).then_some(content)
}

/// Applies a delta: the sizes of base and result, then copies of the base and new bytes.
fn apply(delta: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = delta.iter().copied();
    let mut size = || -> Option<usize> {
        let (mut size, mut shift) = (0, 0);
        loop {
            let byte = bytes.next()?;
            size |= usize::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 32)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(size);
            }
        }
    };
    if size()? != base.len() {
        return None;
    }
    let length = size().filter(|&length| length <= MAX_OBJECT)?;
    let mut result = Vec::with_capacity(length);
    while let Some(code) = bytes.next() {
        if code & 0x80 == 0 {
            let before = result.len();
            result.extend(bytes.by_ref().take(usize::from(code)));
            if code == 0 || result.len() - before != usize::from(code) {
                return None;
            }
        } else {
            let mut number = |first: u8, count: u32| -> Option<usize> {
                let parts = (0..count).filter(|part| code & (first << part) != 0);
                parts.map(|part| Some(usize::from(bytes.next()?) << (8 * part))).sum()
            };
            let (at, count) = (number(1, 4)?, number(16, 3)?);
            let count = if count == 0 { 0x1_0000 } else { count };
            result.extend_from_slice(base.get(at..at.checked_add(count)?)?);
        }
        if result.len() > length {
            return None;
        }
    }
    (result.len() == length).then_some(result)
}
