//! What is said, and how it ends, when there is no answer, half of one, or one that needs a word.

use std::fmt::Display;

use aifo_types::{Endpoint, exit};
use aifo_wire::{ResponseError, ResponseEvent, ResponseHead, ResponseReader, SidecarLimit};

use crate::ending::ShimEnd;
use crate::settings::Habits;
use crate::{shell, tell};

/// Why the answer stopped before its end.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The connection ended.
    CutOff,
    /// What came is no answer.
    Nonsense(String),
}

impl From<ResponseError> for Lost {
    fn from(error: ResponseError) -> Self {
        match error {
            ResponseError::Truncated => Lost::CutOff,
            error => Lost::Nonsense(error.to_string()),
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
pub(crate) fn lost(
    lost: &Lost,
    endpoint: &Endpoint,
    habits: Habits,
    interrupted: Interrupted,
) -> ShimEnd {
    match lost {
        Lost::CutOff => {
            tell::line("the proxy went away while the tool ran; its ending is unknown");
        }
        Lost::Nonsense(why) => tell::line(format_args!(
            "the proxy at {endpoint} gave an answer that makes no sense ({why}); the tool's ending \
             is unknown"
        )),
    }
    let is_forgiven = habits.exit_zero_on_sigint && interrupted == Interrupted::Yes;
    if habits.exit_zero_on_disconnect || is_forgiven {
        return ShimEnd::Code(0);
    }
    if !habits.keep_parent_shell {
        shell::hang_up_on_parent();
    }
    ShimEnd::Code(exit::UNKNOWN)
}

/// Tells that the user did not want to wait any longer.
pub(crate) fn given_up() -> ShimEnd {
    tell::line("the proxy does not answer; the tool's ending is unknown");
    ShimEnd::Code(exit::UNKNOWN)
}

/// Tells which limit of its sidecar the tool ran into: its own ending may not say so.
pub(crate) fn limited(limit: SidecarLimit) {
    tell::line(match limit {
        SidecarLimit::Memory => {
            "the sidecar reached its memory limit, and a process was killed; raise it with --memory"
        }
        SidecarLimit::Processes => {
            "the sidecar reached its limit on processes, and none could be made; raise it with --pids"
        }
    });
}

/// Tells that nothing can have run, and why.
pub(crate) fn nothing_ran(why: impl Display) -> ShimEnd {
    tell::line(why);
    ShimEnd::Code(exit::NOTHING_RAN)
}

/// An answer that says no. Its text is one line.
#[derive(Debug)]
pub(crate) struct Refusal {
    head: ResponseHead,
    text: Vec<u8>,
}

impl Refusal {
    pub(crate) fn new(head: ResponseHead) -> Self {
        Refusal { head, text: Vec::new() }
    }

    /// Takes the text as far as it has come; whether that is all.
    pub(crate) fn is_complete(&mut self, reader: &mut ResponseReader) -> bool {
        loop {
            match reader.next_event() {
                Ok(ResponseEvent::NeedData) => return false,
                Ok(ResponseEvent::Data(data)) => {
                    let room = MAX_REFUSAL.saturating_sub(self.text.len()).min(data.len());
                    self.text.extend_from_slice(&data[..room]);
                }
                Ok(ResponseEvent::Progress(_) | ResponseEvent::Head(_)) => {}
                // The status has said what matters.
                Ok(ResponseEvent::End { .. }) | Err(_) => return true,
            }
        }
    }

    /// Tells why the proxy refused.
    pub(crate) fn tell(&self) -> ShimEnd {
        match String::from_utf8_lossy(&self.text).trim() {
            "" => {
                tell::line(format_args!("the proxy answered with status {}", self.head.status));
            }
            text => tell::line(text),
        }
        ShimEnd::Code(self.head.exit_code.unwrap_or(exit::NOTHING_RAN))
    }
}

/// Bytes of a refusal that are shown.
const MAX_REFUSAL: usize = 4096;
