//! Images of agents, stored by their hash (`spec/web.md#media`).

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aifo_acp::{Image, ImageKind};
use sha2::{Digest, Sha256};

use crate::journal::private;

/// The images in one directory.
#[derive(Debug)]
pub(crate) struct MediaStore {
    directory: PathBuf,
    /// Sizes by name.
    files: HashMap<String, u64>,
    total: u64,
    max_total: u64,
}

impl MediaStore {
    /// Opens the directory, and removes files for which `is_used` returns false.
    pub(crate) fn open(
        directory: &Path,
        max_total: u64,
        is_used: impl Fn(&str) -> bool,
    ) -> io::Result<Self> {
        let mut files = HashMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_name(&name) && is_used(&name) {
                files.insert(name, entry.metadata()?.len());
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        let total = files.values().sum();
        Ok(MediaStore { directory: directory.to_owned(), files, total, max_total })
    }

    /// Stores an image and returns its name. `None` if its bytes are of another type, or the store
    /// is full.
    pub(crate) fn store(&mut self, image: &Image) -> Option<String> {
        if kind_of(&image.bytes) != Some(image.kind) || image.bytes.len() > MAX_IMAGE {
            return None;
        }
        let name = hex(&Sha256::digest(&image.bytes));
        if self.files.contains_key(&name) {
            return Some(name);
        }
        let len = u64::try_from(image.bytes.len()).ok()?;
        let total = self.total.checked_add(len).filter(|total| *total <= self.max_total)?;
        if let Err(error) = self.write(&name, &image.bytes) {
            tracing::warn!(%error, "could not store an image");
            return None;
        }
        self.total = total;
        self.files.insert(name.clone(), len);
        Some(name)
    }

    /// Returns an image and its MIME type.
    pub(crate) fn read(&self, name: &str) -> Option<(Vec<u8>, &'static str)> {
        if !self.files.contains_key(name) {
            return None;
        }
        let bytes = fs::read(self.directory.join(name)).ok()?;
        let kind = kind_of(&bytes)?;
        Some((bytes, kind.mime()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.new"));
        let mut file = private().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        fs::rename(new, self.directory.join(name))
    }
}

/// Returns whether a word is an image name: a SHA-256 in hex.
pub(crate) fn is_name(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the names that a text mentions.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_ascii_hexdigit()).filter(|word| is_name(word))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the type that the first bytes have.
fn kind_of(bytes: &[u8]) -> Option<ImageKind> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some(ImageKind::Png),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some(ImageKind::Jpeg),
        _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some(ImageKind::Gif),
        _ if is_webp => Some(ImageKind::Webp),
        _ => None,
    }
}

/// The largest image, in bytes.
pub(crate) const MAX_IMAGE: usize = 10 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn store(name: &str, max: u64) -> (PathBuf, MediaStore) {
        let path =
            std::env::temp_dir().join(format!("aifo-web-media-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let store = MediaStore::open(&path, max, |_| true).unwrap();
        (path, store)
    }

    fn png(size: usize) -> Image {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(size, 7);
        Image { kind: ImageKind::Png, bytes }
    }

    #[test]
    fn images_are_stored_once_by_their_hash() {
        let (path, mut media) = store("once", 1000);
        let name = media.store(&png(100)).unwrap();
        assert!(is_name(&name));
        assert_eq!(media.store(&png(100)), Some(name.clone()));
        assert_eq!(media.total, 100);
        let (bytes, mime) = media.read(&name).unwrap();
        assert_eq!((bytes.len(), mime), (100, "image/png"));
        let again = MediaStore::open(&path, 1000, |_| true).unwrap();
        assert!(again.read(&name).is_some(), "after a restart");
        let unused = MediaStore::open(&path, 1000, |_| false).unwrap();
        assert!(unused.read(&name).is_none() && fs::read_dir(&path).unwrap().next().is_none());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn other_types_and_too_much_are_refused() {
        let (path, mut media) = store("refused", 250);
        let svg = Image { kind: ImageKind::Png, bytes: b"<svg onload=alert(1)>".to_vec() };
        assert_eq!(media.store(&svg), None, "the bytes are no PNG");
        let jpeg = Image { kind: ImageKind::Jpeg, ..png(20) };
        assert_eq!(media.store(&jpeg), None, "the declared type is another");
        assert!(media.store(&png(200)).is_some());
        assert_eq!(media.store(&png(100)), None, "the total is limited");
        assert_eq!(media.store(&png(MAX_IMAGE + 1)), None);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn only_hashes_are_read() {
        let (path, mut media) = store("names", 1000);
        let name = media.store(&png(20)).unwrap();
        fs::write(path.join("secret"), "x").unwrap();
        for bad in ["secret", "../secret", "", &name.to_uppercase(), &name[1..]] {
            assert!(media.read(bad).is_none(), "{bad}");
        }
        let text = format!("![x](/media/{name}) {name}0");
        assert_eq!(names(&text).collect::<Vec<_>>(), [name.as_str()]);
        fs::remove_dir_all(path).unwrap();
    }
}
