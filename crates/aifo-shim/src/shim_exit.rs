//! Exit of the shim.

use aifo_types::Ending;

/// The exit of the shim, carried out at the end of `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ShimExit {
    Code(u8),
    /// Dies of this signal, like the tool.
    Signaled(u8),
}

/// Death by SIGPIPE, as for a tool whose reader is gone.
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
                aifo_process::die_by_signal(number);
                // Reached only if the signal does not terminate a process here.
                Ending::Signaled(number).exit_code()
            }
        };
        std::process::exit(i32::from(code))
    }
}
