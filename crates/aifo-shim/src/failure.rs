//! Messages and exit codes for failed calls (`spec/shim.md#exit-codes-and-messages`).

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_types::{Endpoint, exit};
use aifo_wire::{
    CallNote, MessageError, ResponseEvent, ResponseHead, ResponseReader, SidecarLimit,
};
use nix::errno::Errno;

use crate::settings::CompatFlags;
use crate::shim_exit::ShimExit;
use crate::{log, parent_shell};

/// Why a response is incomplete.
#[derive(Debug)]
pub(crate) enum ResponseFailure {
    /// The connection ended.
    Disconnected,
    /// The bytes violate the protocol.
    Malformed(String),
}

impl From<MessageError> for ResponseFailure {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Truncated => ResponseFailure::Disconnected,
            error => ResponseFailure::Malformed(error.to_string()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    Yes,
    No,
}

pub(crate) fn report_connection_lost(
    failure: &ResponseFailure,
    endpoint: &Endpoint,
    compat: CompatFlags,
    interrupted: Interrupted,
) -> ShimExit {
    match failure {
        ResponseFailure::Disconnected => {
            log::line(
                "lost the connection to the proxy while the tool ran; its exit status is unknown",
            );
        }
        ResponseFailure::Malformed(why) => log::line(format_args!(
            "invalid response from the proxy at {endpoint} ({why}); the tool's exit status is unknown"
        )),
    }
    let exits_zero = compat.exit_zero_on_sigint && interrupted == Interrupted::Yes;
    if compat.exit_zero_on_disconnect || exits_zero {
        return ShimExit::Code(0);
    }
    if !compat.keep_parent_shell {
        parent_shell::hang_up_on_parent();
    }
    ShimExit::Code(exit::UNKNOWN)
}

pub(crate) fn report_no_response() -> ShimExit {
    log::line("the proxy does not respond; the tool's exit status is unknown");
    ShimExit::Code(exit::UNKNOWN)
}

pub(crate) fn report_time_limit() -> ShimExit {
    log::line("the call has reached the session's time limit (--max-secs)");
    ShimExit::Code(exit::TIMED_OUT)
}

/// Prints the line of a call note (`spec/runner.md#call-notes`).
pub(crate) fn report_note(note: CallNote) {
    log::line(match note {
        CallNote::Limit(SidecarLimit::Memory) => {
            "the sidecar reached its memory limit, and a process was killed; raise it with --memory"
        }
        CallNote::Limit(SidecarLimit::Processes) => {
            "the sidecar reached its limit on processes, and none could be made; raise it with --pids"
        }
        CallNote::GitConfig => {
            "hint: .git/config is read-only in sidecars; run git in the agent, and programs that \
             set up hooks outside of the session"
        }
        CallNote::GitHooks => {
            "hint: .git/hooks is read-only in sidecars; run this command outside of the session"
        }
        CallNote::Certificates => {
            "hint: this machine has certificates that sidecars lack; if one was refused, add \
             admit = [\"ca-bundle\"] to [containers] of your configuration"
        }
    });
}

pub(crate) fn report_not_started(why: impl Display) -> ShimExit {
    log::line(why);
    ShimExit::Code(exit::NOTHING_RAN)
}

/// A response with an error status. Its body is one line of text.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    head: ResponseHead,
    text: Vec<u8>,
}

impl ErrorResponse {
    pub(crate) fn new(head: ResponseHead) -> Self {
        ErrorResponse { head, text: Vec::new() }
    }

    /// Reads available body bytes. Returns whether the body is complete.
    pub(crate) fn read_body(&mut self, reader: &mut ResponseReader) -> bool {
        loop {
            match reader.next_event() {
                Ok(ResponseEvent::NeedData) => return false,
                Ok(ResponseEvent::Data(data)) => {
                    let room = MAX_ERROR_TEXT.saturating_sub(self.text.len()).min(data.len());
                    self.text.extend_from_slice(&data[..room]);
                }
                Ok(
                    ResponseEvent::Progress(_)
                    | ResponseEvent::Approval(_)
                    | ResponseEvent::Head(_),
                ) => {}
                // A truncated text does not change the result: the status has arrived.
                Ok(ResponseEvent::End { .. }) | Err(_) => return true,
            }
        }
    }

    /// Prints the text and returns the exit code.
    pub(crate) fn report(&self) -> ShimExit {
        // The wait for approval got a signal, which a tool would have got silently.
        let by_signal = self.head.exit_code.and_then(|code| code.checked_sub(SIGNAL_BASE));
        if let Some(number) = by_signal.filter(|number| self.head.status == 409 && *number > 0) {
            return ShimExit::Signaled(number);
        }
        match String::from_utf8_lossy(&self.text).trim() {
            "" => {
                log::line(format_args!("the proxy answered with status {}", self.head.status));
            }
            text => log::line(text),
        }
        ShimExit::Code(self.head.exit_code.unwrap_or(exit::NOTHING_RAN))
    }
}

/// Added to a signal's number in an exit code.
const SIGNAL_BASE: u8 = 128;
const MAX_ERROR_TEXT: usize = 4096;

/// Reports that a program could not be executed.
pub(crate) fn not_executed(program: &[u8], errno: Errno) -> ShimExit {
    let program = Path::new(OsStr::from_bytes(program)).display();
    log::line(format_args!("cannot execute '{program}': {}", errno.desc()));
    ShimExit::Code(match errno {
        Errno::ENOENT => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}
