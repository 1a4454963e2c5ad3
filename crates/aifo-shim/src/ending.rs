//! How this process ends.

use aifo_types::Ending;

/// The end of the shim, decided once and carried out in `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ShimEnd {
    /// With this exit code.
    Code(u8),
    /// By the signal that ended the tool, or would have.
    Signaled(u8),
}

/// By SIGPIPE, as a tool would end whose reader has gone.
pub(crate) const BROKEN_PIPE: ShimEnd = ShimEnd::Signaled(nix::libc::SIGPIPE as u8);

impl From<Ending> for ShimEnd {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(code) => ShimEnd::Code(code),
            Ending::Signaled(number) => ShimEnd::Signaled(number),
        }
    }
}

impl ShimEnd {
    pub(crate) fn end(self) -> ! {
        let code = match self {
            ShimEnd::Code(code) => code,
            ShimEnd::Signaled(number) => {
                aifo_process::die_by_signal(number);
                // Still here only if it does not end a process on this system.
                Ending::Signaled(number).exit_code()
            }
        };
        std::process::exit(i32::from(code))
    }
}
