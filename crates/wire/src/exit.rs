//! The payload of the `Exit` frame: a tool's exit status and resource usage.

use std::time::Duration;

use aifo_types::Ending;

use crate::frame_codes::CancelCause;
use crate::payload::Payload;

/// The end of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit status.
    pub ending: Ending,
    /// Why the runner ended it, if it did.
    pub cancelled: Option<CancelCause>,
    /// A fact of the sidecar that may explain the outcome.
    pub note: Option<CallNote>,
    /// Bytes of relayed stdin that it has read. For a terminal, one more than the bytes of its input
    /// that are used up, or 0 if that is not known. The client can put back the bytes after them.
    pub taken: u64,
    /// The resource usage.
    pub usage: ResourceUsage,
}

/// Resource usage of a tool and the children it waited for. Times are encoded in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// From start to end.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
}

/// A limit on all tools of a sidecar together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarLimit {
    /// Memory: the kernel killed a process.
    Memory,
    /// Processes and threads: the kernel refused to create one.
    Processes,
}

impl SidecarLimit {
    /// All limits in the order of their codes, which start at 1.
    pub const ALL: [Self; 2] = [SidecarLimit::Memory, SidecarLimit::Processes];

    /// Returns the name in `X-Aifo-Limit` and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            SidecarLimit::Memory => "memory",
            SidecarLimit::Processes => "processes",
        }
    }

    /// Returns the limit with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.as_str().as_bytes() == name)
    }
}

/// A fact of the sidecar that may explain a call's outcome (`spec/runner.md#call-notes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallNote {
    /// A limit was hit while the tool ran, and it failed.
    Limit(SidecarLimit),
    /// The tool tried to write the repository configuration, which is read-only in sidecars.
    GitConfig,
    /// The tool was called to install hooks, which are read-only in sidecars, and failed.
    GitHooks,
    /// Sidecars lack certificates of this machine, and the tool, which failed, may need one.
    Certificates,
}

impl CallNote {
    /// All notes in the order of their codes, which start at 1.
    pub const ALL: [Self; 5] = [
        CallNote::Limit(SidecarLimit::Memory),
        CallNote::Limit(SidecarLimit::Processes),
        CallNote::GitConfig,
        CallNote::GitHooks,
        CallNote::Certificates,
    ];

    /// Returns the limit that was hit.
    pub fn limit(self) -> Option<SidecarLimit> {
        match self {
            CallNote::Limit(limit) => Some(limit),
            _ => None,
        }
    }

    fn code(self) -> u8 {
        match self {
            CallNote::Limit(SidecarLimit::Memory) => 1,
            CallNote::Limit(SidecarLimit::Processes) => 2,
            CallNote::GitConfig => 3,
            CallNote::GitHooks => 4,
            CallNote::Certificates => 5,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|note| note.code() == code)
    }
}

impl Exit {
    /// `0 exited or 1 signaled u8, status or signal u8, 0 or cause u8, 0 or note u8, taken u64,
    /// wall u64, user u64, system u64, max_rss u64`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(match self.ending {
            Ending::Exited(status) => [EXITED, status],
            Ending::Signaled(signal) => [SIGNALED, signal],
        });
        out.push(self.cancelled.map_or(0, CancelCause::code));
        out.push(self.note.map_or(0, CallNote::code));
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
        let note = match fields.u8()? {
            0 => None,
            note => Some(CallNote::from_code(note)?),
        };
        let taken = fields.u64()?;
        let usage = ResourceUsage {
            wall: Duration::from_micros(fields.u64()?),
            user: Duration::from_micros(fields.u64()?),
            system: Duration::from_micros(fields.u64()?),
            max_rss_kib: fields.u64()?,
        };
        Some(Exit { ending, cancelled, note, taken, usage })
    }
}

const EXITED: u8 = 0;
const SIGNALED: u8 = 1;
