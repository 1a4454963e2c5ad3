//! How this process ends.

use nix::sys::signal::Signal;

/// The end of the shim, decided once and carried out in `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ShimEnd {
    /// With this exit code.
    Code(u8),
    /// By SIGPIPE, as a tool would end whose reader has gone.
    BrokenPipe,
}

impl ShimEnd {
    pub(crate) fn end(self) -> ! {
        let code = match self {
            ShimEnd::Code(code) => code,
            ShimEnd::BrokenPipe => {
                aifo_process::die_of(Signal::SIGPIPE);
                // Still here only if our parent has SIGPIPE blocked in a way we cannot undo.
                aifo_types::Ending::Signaled(Signal::SIGPIPE as u8).exit_code()
            }
        };
        std::process::exit(i32::from(code))
    }
}
