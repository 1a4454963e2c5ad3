//! Whom the kernel ends first when memory runs out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Our score place in the order in which the kernel ends processes for want of memory
/// (`/proc/self/oom_score_adj`), which a child begins with.
///
/// A child cannot set its score between clone and exec: it shares our memory then, and with
/// [`crate::forbid_tracing`] in force that file belongs to root. So the parent takes the child's place
/// while it makes it. Going back needs no privilege, as long as it is no further than where we began.
#[derive(Debug)]
pub struct OomScore {
    file: File,
    score: i16,
}

impl OomScore {
    /// Ours, from -1000 to 1000. To be called before [`crate::forbid_tracing`].
    pub fn current() -> io::Result<Self> {
        let score = std::fs::read_to_string(PATH)?;
        let score = score.trim_end().parse().map_err(io::Error::other)?;
        Ok(OomScore { file: File::options().write(true).open(PATH)?, score })
    }

    /// Raises ours by `offset`, so that children made meanwhile go before us.
    pub fn raise(&self, offset: i16) -> RaisedOomScore<'_> {
        self.set(self.score.saturating_add(offset).min(MAX_SCORE));
        RaisedOomScore(self)
    }

    /// A kernel that refuses leaves everything as it was, and the choice to its score judgement.
    fn set(&self, score: i16) {
        let _ = self.file.write_all_at(score.to_string().as_bytes(), 0);
    }
}

/// Until this is dropped, whoever is made can be ended sooner than we.
#[derive(Debug)]
pub struct RaisedOomScore<'a>(&'a OomScore);

impl Drop for RaisedOomScore<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.score);
    }
}

const PATH: &str = "/proc/self/oom_score_adj";
const MAX_SCORE: i16 = 1000;
