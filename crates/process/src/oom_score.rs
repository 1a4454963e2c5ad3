//! The order in which the kernel kills processes when memory runs out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// This process's `/proc/self/oom_score_adj`, which children inherit.
///
/// A child cannot set its own between clone and execve: it shares the parent's memory, and after
/// [`crate::forbid_tracing`] the file belongs to root. So the parent raises its own value while it
/// spawns the child. Lowering it again needs no privilege down to the initial value.
#[derive(Debug)]
pub struct OomScore {
    file: File,
    score: i16,
}

impl OomScore {
    /// Reads the current value, from -1000 to 1000. Must be called before
    /// [`crate::forbid_tracing`].
    pub fn current() -> io::Result<Self> {
        let score = std::fs::read_to_string(PATH)?;
        let score = score.trim_end().parse().map_err(io::Error::other)?;
        Ok(OomScore { file: File::options().write(true).open(PATH)?, score })
    }

    /// Raises the value by `offset` until the returned guard is dropped. Children that start
    /// meanwhile are killed before this process.
    pub fn raise(&self, offset: i16) -> RaisedOomScore<'_> {
        self.set(self.score.saturating_add(offset).min(MAX_SCORE));
        RaisedOomScore(self)
    }

    /// A kernel that rejects the write keeps the current value.
    fn set(&self, score: i16) {
        let _ = self.file.write_all_at(score.to_string().as_bytes(), 0);
    }
}

/// Restores the initial value when dropped.
#[derive(Debug)]
pub struct RaisedOomScore<'a>(&'a OomScore);

impl Drop for RaisedOomScore<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.score);
    }
}

const PATH: &str = "/proc/self/oom_score_adj";
const MAX_SCORE: i16 = 1000;
