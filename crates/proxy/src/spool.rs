//! Version 1 responses on disk.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::budget::{Budget, Share, Use};

/// The directory and the limit of all responses on disk.
#[derive(Debug)]
pub(crate) struct SpoolSpace {
    directory: PathBuf,
    budget: Arc<Budget>,
    /// Each operation needs a thread and a copy of its bytes.
    operations: Semaphore,
}

/// Operations on files at once.
const MAX_OPERATIONS: usize = 4;

/// An unnamed file with a tool output. Its space is freed on drop.
#[derive(Debug)]
pub(crate) struct Spool {
    space: Arc<SpoolSpace>,
    file: Arc<File>,
    share: Share,
}

impl SpoolSpace {
    pub(crate) fn new(directory: &Path, max: usize) -> Self {
        SpoolSpace {
            directory: directory.to_owned(),
            budget: Arc::new(Budget::new(max)),
            operations: Semaphore::new(MAX_OPERATIONS),
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        tokio::task::spawn_blocking(operation).await.map_err(io::Error::other)?
    }
}

impl Spool {
    /// Creates a file that has no name and is removed when it is closed.
    pub(crate) async fn create(space: &Arc<SpoolSpace>) -> io::Result<Self> {
        let _permit = space.operations.acquire().await.map_err(io::Error::other)?;
        let directory = space.directory.clone();
        let file = Arc::new(space.run(|| tempfile::tempfile_in(directory)).await?);
        Ok(Spool { space: Arc::clone(space), file, share: space.budget.share() })
    }

    /// Returns the number of bytes in the file.
    pub(crate) fn len(&self) -> usize {
        self.share.bytes()
    }

    /// Appends bytes. Errors: the disk or the limit of all responses is full.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = self.share.bytes().saturating_add(bytes.len());
        if !self.share.try_resize(len, Use::All) {
            let mib = self.share.budget().max() / (1024 * 1024);
            let why = format!("the buffered responses exceed the limit of {mib} MiB");
            return Err(io::Error::other(why));
        }
        let _permit = self.space.operations.acquire().await.map_err(io::Error::other)?;
        let (file, bytes) = (Arc::clone(&self.file), bytes.to_vec());
        self.space.run(move || (&*file).write_all(&bytes)).await
    }

    /// Reads bytes from `at` on, and returns their number.
    pub(crate) async fn read(&self, at: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let _permit = self.space.operations.acquire().await.map_err(io::Error::other)?;
        let (file, count) = (Arc::clone(&self.file), buffer.len());
        let read = move || {
            let mut bytes = vec![0; count];
            let count = file.read_at(&mut bytes, at as u64)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        let bytes = self.space.run(read).await?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_files_share_one_limit() {
        let space = Arc::new(SpoolSpace::new(&std::env::temp_dir(), 8));
        let mut first = Spool::create(&space).await.unwrap();
        let mut second = Spool::create(&space).await.unwrap();
        first.append(b"12345").await.unwrap();
        second.append(b"123").await.unwrap();
        let error = second.append(b"4").await.unwrap_err();
        assert_eq!(error.to_string(), "the buffered responses exceed the limit of 0 MiB");
        drop(first);
        second.append(b"45678").await.unwrap();
        assert_eq!(second.len(), 8);
        let mut buffer = [0; 8];
        assert_eq!(second.read(0, &mut buffer).await.unwrap(), 8);
        assert_eq!(&buffer, b"12345678");
        assert_eq!(second.read(6, &mut buffer).await.unwrap(), 2);
        assert_eq!(second.read(8, &mut buffer).await.unwrap(), 0);
    }
}
