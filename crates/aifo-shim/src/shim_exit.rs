//! How this process ends.

use aifo_types::Ending;

/// The end of the shim, decided once and carried out in `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ShimExit {
    /// With this exit code.
    Code(u8),
    /// By the signal that ended the tool, or would have.
    Signaled(u8),
}

/// By SIGPIPE, as a tool would end whose reader has gone.
pub(crate) const BROKEN_PIPE: ShimExit = ShimExit::Signaled(nix::libc::SIGPIPE as u8);

impl From<Ending> for ShimExit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(code) => ShimExit::Code(code),
            Ending::Signaled(number) => ShimExit::Signaled(number),
        }
    }
}

impl ShimExit {
    pub(crate) fn end(self) -> ! {
        let code = match self {
            ShimExit::Code(code) => code,
            ShimExit::Signaled(number) => {
                aifo_process::die_of(number);
                // Still here only if it does not end a process on this system.
                Ending::Signaled(number).exit_code()
            }
        };
        std::process::exit(i32::from(code))
    }
}
