//! How a process ended, and the exit codes that are ours.

/// How the kernel says a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It called `exit` with this status.
    Exited(u8),
    /// A signal with this number ended it.
    Signaled(u8),
}

impl Ending {
    /// The exit code a shell would report: the status itself, or 128 + signal number.
    pub fn exit_code(self) -> u8 {
        match self {
            Ending::Exited(code) => code,
            Ending::Signaled(signal) => 128u8.saturating_add(signal),
        }
    }
}

/// Exit codes with a meaning of their own. All others are the tool's and pass through untouched.
pub mod exit {
    /// Nothing ran: every refusal, "proxy not configured", no connection.
    pub const NOTHING_RAN: u8 = 86;
    /// The tool ran into the session's time limit.
    pub const TIMED_OUT: u8 = 124;
    /// The ending is unknown: proxy or runner went away while the tool ran.
    pub const UNKNOWN: u8 = 125;
    /// The tool was found but could not be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// The tool, or the interpreter it names, was not found.
    pub const NOT_FOUND: u8 = 127;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_shell() {
        let rows = [
            (Ending::Exited(0), 0),
            (Ending::Exited(255), 255),
            (Ending::Signaled(2), 130),
            (Ending::Signaled(9), 137),
            (Ending::Signaled(64), 192),
        ];
        for (ending, code) in rows {
            assert_eq!(ending.exit_code(), code, "{ending:?}");
        }
    }
}
