//! How long checkpoints are kept (`spec/history.md#store`).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};

use crate::checkpoint::reference;
use crate::error::HistoryError;
use crate::git::Store;

/// A session's checkpoints are removed after this time.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The oldest sessions are removed while the store is larger.
const MAX_BYTES: u64 = 1 << 30;
/// Packs are joined if there are more.
const MAX_PACKS: usize = 16;

/// Held by a session, so that no other one removes what it builds on.
#[derive(Debug)]
pub(crate) struct InUse(#[expect(dead_code, reason = "its drop unlocks")] Option<Flock<File>>);

impl Store {
    /// Marks the store as used. A file system without locks has no retention.
    pub(crate) fn mark_in_use(&self) -> InUse {
        InUse(self.lock(FlockArg::LockShared))
    }

    /// Removes old sessions and joins packs, unless another session uses the store.
    pub(crate) fn tidy(&self, in_use: InUse) -> Result<(), HistoryError> {
        drop(in_use);
        let Some(_alone) = self.lock(FlockArg::LockExclusiveNonblock) else { return Ok(()) };
        let mut sessions = self.sessions()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        while let Some(oldest) = sessions.pop() {
            let is_old = match self.checkpoints(&oldest)?.last() {
                Some(last) => now.saturating_sub(Duration::from_millis(last.note.time)) > KEEP,
                None => true,
            };
            // The session that has just ended stays.
            if sessions.is_empty() || !(is_old || self.size() > MAX_BYTES) {
                break;
            }
            self.run(["update-ref", "-d", &reference(&oldest)], "")?;
            self.run(["repack", "-a", "-d", "-q"], "")?;
        }
        if self.packs() > MAX_PACKS {
            self.run(["repack", "--geometric=2", "-d", "-q"], "")?;
        }
        Ok(())
    }

    fn lock(&self, how: FlockArg) -> Option<Flock<File>> {
        let path = self.directory().join("aifo.lock");
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok()?;
        Flock::lock(opened, how).ok()
    }

    fn packs(&self) -> usize {
        let packs = self.directory().join("objects/pack").read_dir();
        let is_pack =
            |name: &std::fs::DirEntry| name.path().extension().is_some_and(|it| it == "pack");
        packs.map_or(0, |packs| packs.flatten().filter(is_pack).count())
    }
}
