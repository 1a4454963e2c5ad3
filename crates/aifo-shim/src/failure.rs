//! What is said, and how it ends, when there is no answer, half of one, or one that needs a word.

use std::fmt::Display;

use aifo_types::{Endpoint, exit};
use aifo_wire::{ResponseError, ResponseEvent, ResponseHead, ResponseReader, SidecarLimit};

use crate::settings::CompatFlags;
use crate::shim_exit::ShimExit;
use crate::{log, parent_shell};

/// Why the answer stopped before its end.
#[derive(Debug)]
pub(crate) enum ResponseFailure {
    /// The connection ended.
    Disconnected,
    /// What came is no answer.
    Malformed(String),
}

impl From<ResponseError> for ResponseFailure {
    fn from(error: ResponseError) -> Self {
        match error {
            ResponseError::Truncated => ResponseFailure::Disconnected,
            error => ResponseFailure::Malformed(error.to_string()),
        }
    }
}

/// Whether the user has interrupted the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    Yes,
    No,
}

/// Tells that the proxy was lost in mid-call.
pub(crate) fn report_connection_lost(
    failure: &ResponseFailure,
    endpoint: &Endpoint,
    compat: CompatFlags,
    interrupted: Interrupted,
) -> ShimExit {
    match failure {
        ResponseFailure::Disconnected => {
            log::line("the proxy went away while the tool ran; its ending is unknown");
        }
        ResponseFailure::Malformed(why) => log::line(format_args!(
            "the proxy at {endpoint} gave an answer that makes no sense ({why}); the tool's ending \
             is unknown"
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

/// Tells that the user did not want to wait any longer.
pub(crate) fn report_no_response() -> ShimExit {
    log::line("the proxy does not answer; the tool's ending is unknown");
    ShimExit::Code(exit::UNKNOWN)
}

/// Tells which limit of its sidecar the tool ran into: its own ending may not say so.
pub(crate) fn report_limit(limit: SidecarLimit) {
    log::line(match limit {
        SidecarLimit::Memory => {
            "the sidecar reached its memory limit, and a process was killed; raise it with --memory"
        }
        SidecarLimit::Processes => {
            "the sidecar reached its limit on processes, and none could be made; raise it with --pids"
        }
    });
}

/// Tells that nothing can have run, and why.
pub(crate) fn report_not_started(why: impl Display) -> ShimExit {
    log::line(why);
    ShimExit::Code(exit::NOTHING_RAN)
}

/// An answer that says no. Its text is one line.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    head: ResponseHead,
    text: Vec<u8>,
}

impl ErrorResponse {
    pub(crate) fn new(head: ResponseHead) -> Self {
        ErrorResponse { head, text: Vec::new() }
    }

    /// Takes the text as far as it has come; whether that is all.
    pub(crate) fn read_body(&mut self, reader: &mut ResponseReader) -> bool {
        loop {
            match reader.next_event() {
                Ok(ResponseEvent::NeedData) => return false,
                Ok(ResponseEvent::Data(data)) => {
                    let room = MAX_ERROR_TEXT.saturating_sub(self.text.len()).min(data.len());
                    self.text.extend_from_slice(&data[..room]);
                }
                Ok(ResponseEvent::Progress(_) | ResponseEvent::Head(_)) => {}
                // The status has said what matters.
                Ok(ResponseEvent::End { .. }) | Err(_) => return true,
            }
        }
    }

    /// Tells why the proxy refused.
    pub(crate) fn report(&self) -> ShimExit {
        match String::from_utf8_lossy(&self.text).trim() {
            "" => {
                log::line(format_args!("the proxy answered with status {}", self.head.status));
            }
            text => log::line(text),
        }
        ShimExit::Code(self.head.exit_code.unwrap_or(exit::NOTHING_RAN))
    }
}

/// Bytes of a refusal that are shown.
const MAX_ERROR_TEXT: usize = 4096;
