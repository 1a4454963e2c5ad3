//! The frame that says how a tool ended and what it used.

use std::time::Duration;

use aifo_types::Ending;

use crate::frame::CancelCause;
use crate::payload::Payload;

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its status, or the signal that ended it.
    pub ending: Ending,
    /// Why it was ended from outside, if it was.
    pub cancelled: Option<CancelCause>,
    /// Bytes of its relayed stdin that it has read: what a client read ahead of it beyond these it can
    /// put back.
    pub taken: u64,
    /// What it used.
    pub usage: Usage,
}

/// What a tool and the children it waited for used. Times cross in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
}

impl Exit {
    /// `0 exited or 1 signaled u8, status or signal u8, 0 or cause u8, taken u64, wall u64, user u64,
    /// system u64, max_rss u64`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(match self.ending {
            Ending::Exited(status) => [EXITED, status],
            Ending::Signaled(signal) => [SIGNALED, signal],
        });
        out.push(self.cancelled.map_or(0, CancelCause::code));
        out.extend(self.taken.to_be_bytes());
        for time in [self.usage.wall, self.usage.user, self.usage.system] {
            out.extend(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).to_be_bytes());
        }
        out.extend(self.usage.max_rss_kib.to_be_bytes());
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let ending = match (fields.u8()?, fields.u8()?) {
            (EXITED, status) => Ending::Exited(status),
            (SIGNALED, signal) => Ending::Signaled(signal),
            _ => return None,
        };
        let cancelled = match fields.u8()? {
            0 => None,
            cause => Some(CancelCause::from_code(cause)?),
        };
        let taken = fields.u64()?;
        let usage = Usage {
            wall: Duration::from_micros(fields.u64()?),
            user: Duration::from_micros(fields.u64()?),
            system: Duration::from_micros(fields.u64()?),
            max_rss_kib: fields.u64()?,
        };
        Some(Exit { ending, cancelled, taken, usage })
    }
}

const EXITED: u8 = 0;
const SIGNALED: u8 = 1;
