//! Waits for the approval of a call, and watches its client meanwhile.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use aifo_policy::{Answer, AskOutcome, AskedCall, QuestionNumber};
use aifo_sidecar::Socket;
use aifo_types::{ApprovalFailure, Refusal};
use aifo_wire::{Frame, FrameReader, encode_approval};
use tokio::sync::watch;

use super::{CallApprovals, Unapproved};
use crate::call_watcher::shutdown_requested;
use crate::client::{Client, ParkedClient, SurplusBudget};
use crate::record::cut;
use crate::registry::Registration;

/// Why a wait ends without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The client has left.
    Left,
    /// A signal with this Linux number would have ended the tool.
    Signalled(u8),
    /// The session ends.
    Shutdown,
    /// The client has sent too much.
    Excess,
}

/// Why a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approved {
    /// By the answer to a question about it.
    Answered,
    /// A user has allowed it elsewhere, with the calls that it runs.
    Granted,
}

/// A question whose call waits. Dropping it leaves the question to an identical call.
struct OpenCall<'a> {
    approvals: &'a CallApprovals,
    number: QuestionNumber,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        // Has no effect on a question whose answer was taken.
        self.approvals.lock().leave(self.number, Instant::now());
        self.approvals.announce();
    }
}

/// Bytes that the client of a waiting call may send: only signals come before the tool has started.
const MAX_RECEIVED: usize = 64 * 1024;

/// Bytes of the call in the client line.
const MAX_LINE: usize = 256;

/// Waits until a user allows a call of version 3. `received` gets the client frames. Returns the call for
/// [`CallApprovals::check`], as the others.
pub(crate) async fn approve_attached(
    approvals: &CallApprovals,
    unapproved: Unapproved,
    client: &ParkedClient,
    (received, ignored): (&mut Vec<u8>, u64),
    registration: &Registration,
    shutdown: watch::Receiver<bool>,
) -> Result<AskedCall, Refusal> {
    let connection = client.fd.try_clone().map(Socket::new);
    let connection = connection.map_err(|error| Refusal::Internal(error.to_string()))?;
    let notify = |line: &str| send_notice(&connection, line, approvals);
    let left = receive_until_end(&connection, received, ignored);
    wait_unless_signalled(approvals, unapproved, notify, left, registration, shutdown).await
}

/// Waits until a user allows a call of version 1 or 2.
pub(crate) async fn approve_plain(
    approvals: &CallApprovals,
    unapproved: Unapproved,
    client: &Client,
    registration: &Registration,
    shutdown: watch::Receiver<bool>,
) -> Result<AskedCall, Refusal> {
    let mut surplus = SurplusBudget::new(&approvals.0.limits);
    let left = async {
        client.disconnected(&mut surplus).await;
        WaitEnd::Left
    };
    wait_unless_signalled(approvals, unapproved, |_| {}, left, registration, shutdown).await
}

/// Waits until a user allows a call that its client runs itself. A signal that ends the client ends the
/// connection.
pub(crate) async fn approve_in_place(
    approvals: &CallApprovals,
    unapproved: Unapproved,
    client: &Client,
    mut shutdown: watch::Receiver<bool>,
) -> Result<AskedCall, Refusal> {
    let mut surplus = SurplusBudget::new(&approvals.0.limits);
    let ended = async {
        tokio::select! {
            () = client.disconnected(&mut surplus) => WaitEnd::Left,
            () = shutdown_requested(&mut shutdown) => WaitEnd::Shutdown,
        }
    };
    let notify = |line: &str| send_notice(&client.socket, line, approvals);
    let waited = wait_for_answer(approvals, unapproved, notify, ended, approvals.0.timeout);
    waited.await.map(|(_, call)| call)
}

/// Sends a client of version 3 the interim response with its call.
fn send_notice(connection: &Socket, line: &str, approvals: &CallApprovals) {
    let mut interim = Vec::new();
    let line = cut(line, MAX_LINE);
    encode_approval(&mut interim, &format!("{line}; answer with: {}", approvals.answer_command()));
    // The first bytes on this connection, so there is room; fails only after a disconnect.
    let _ = connection.try_send(&interim);
}

async fn wait_unless_signalled(
    approvals: &CallApprovals,
    unapproved: Unapproved,
    notify: impl FnOnce(&str),
    left: impl Future<Output = WaitEnd>,
    registration: &Registration,
    mut shutdown: watch::Receiver<bool>,
) -> Result<AskedCall, Refusal> {
    let ended = async {
        tokio::select! {
            ended = left => ended,
            number = registration.signalled_unstarted() => WaitEnd::Signalled(number),
            () = shutdown_requested(&mut shutdown) => WaitEnd::Shutdown,
        }
    };
    let waited = wait_for_answer(approvals, unapproved, notify, ended, approvals.0.timeout);
    waited.await.map(|(_, call)| call)
}

/// Waits until a user allows a call. `notify` is called once if it has to wait; the wait ends with
/// `ended` and after `timeout`. Returns the call for [`CallApprovals::check`].
pub(crate) async fn wait_for_answer(
    approvals: &CallApprovals,
    unapproved: Unapproved,
    notify: impl FnOnce(&str),
    ended: impl Future<Output = WaitEnd>,
    timeout: Duration,
) -> Result<(Approved, AskedCall), Refusal> {
    let Unapproved { call: asked, line, why } = unapproved;
    let denied = |cause| Err(Refusal::NotApproved { call: line.clone(), why: why.clone(), cause });
    let decided = |answer| match answer {
        Answer::Deny => denied(ApprovalFailure::Denied),
        Answer::DenyAndEnd => denied(ApprovalFailure::TurnEnded),
        Answer::Once | Answer::Session | Answer::Always => Ok((Approved::Answered, asked.clone())),
    };
    let mut changes = approvals.subscribe();
    let outcome = approvals.lock().ask(asked.clone(), &why, Instant::now());
    let number = match outcome {
        AskOutcome::Answered(answer) => return decided(answer),
        AskOutcome::Granted => return Ok((Approved::Granted, asked)),
        AskOutcome::Full => {
            return Err(Refusal::TooManyUnapproved { limit: approvals.0.limits.max_unapproved });
        }
        AskOutcome::Waiting(number) => number,
    };
    let open = OpenCall { approvals, number };
    approvals.announce();
    let timed_out = denied(ApprovalFailure::TimedOut {
        secs: timeout.as_secs(),
        command: approvals.answer_command().to_owned(),
    });
    if timeout.is_zero() {
        return timed_out;
    }
    tracing::info!(question = number.id(), call = line, why, "waiting for approval");
    notify(&line);
    let mut ended = pin!(ended);
    let mut deadline = pin!(tokio::time::sleep(timeout));
    loop {
        // An answer comes before the end of a client that leaves at the same time: it then covers the
        // next call.
        tokio::select! {
            biased;
            end = &mut ended => return Err(refusal_of(&end)),
            () = &mut deadline => return timed_out,
            // The sender lives as long as `approvals`.
            _ = changes.changed() => {
                let answer = approvals.lock().take(open.number);
                if let Some(answer) = answer {
                    return decided(answer);
                }
            }
        }
    }
}

fn refusal_of(end: &WaitEnd) -> Refusal {
    let aborted = |why: &str| Refusal::Internal(format!("{why} before the call was approved"));
    match end {
        WaitEnd::Left => aborted("the caller left"),
        WaitEnd::Shutdown => aborted("the session ended"),
        WaitEnd::Signalled(number) => Refusal::SignalledBeforeApproval { number: *number },
        WaitEnd::Excess => Refusal::BadRequest(format!(
            "a waiting call was followed by more than {} KiB",
            MAX_RECEIVED / 1024
        )),
    }
}

/// Receives frames until the client leaves or sends a signal that would end the tool.
async fn receive_until_end(connection: &Socket, received: &mut Vec<u8>, ignored: u64) -> WaitEnd {
    let mut frames = FrameReader::for_client();
    frames.receive(received);
    let mut buffer = [0; 512];
    loop {
        // A malformed frame is left to the runner, which ends the call.
        while let Ok(Some(frame)) = frames.next_frame() {
            if let Frame::Signal { number } = frame
                && ends_unstarted_tool(number)
                && ignored & (1 << number.saturating_sub(1).min(63)) == 0
            {
                return WaitEnd::Signalled(number);
            }
        }
        match connection.receive(&mut buffer).await {
            Ok(0) | Err(_) => return WaitEnd::Left,
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                if received.len() + count > MAX_RECEIVED {
                    return WaitEnd::Excess;
                }
                received.extend_from_slice(bytes);
                frames.receive(bytes);
            }
        }
    }
}

/// Returns whether a signal ends a process that does not handle it, by its Linux number.
pub(crate) fn ends_unstarted_tool(number: u8) -> bool {
    // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
    !matches!(number, 17..=23 | 28)
}
