//! Exit statuses of processes, and the reserved exit codes.

/// The exit status of a process, as `wait(2)` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(u8),
    /// A signal with this number terminated it.
    Signaled(u8),
}

impl Ending {
    /// Returns the exit code a shell reports: the status, or 128 + the signal number.
    pub fn exit_code(self) -> u8 {
        match self {
            Ending::Exited(code) => code,
            Ending::Signaled(signal) => 128u8.saturating_add(signal),
        }
    }
}

/// Reserved exit codes. All others are the tool's own.
pub mod exit {
    /// Nothing ran: a refusal, no proxy configured, no connection.
    pub const NOTHING_RAN: u8 = 86;
    /// The tool exceeded the session's time limit.
    pub const TIMED_OUT: u8 = 124;
    /// The exit status is unknown: the proxy or runner was lost while the tool ran.
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
