//! One side of a relayed connection: what may be sent, and which frames of the peer are valid
//! (`spec/runner.md#connections-of-a-stack`).

use crate::credit::{CreditError, ReceiveWindow, SendWindow};

/// The state of a connection on one side. Each side sends `Data`, then exactly one of `End` and `Reset`
/// as its last frame, but may send `Reset` after its `End` while the connection is open. The connection
/// is closed when both have sent one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetFlow {
    credit: SendWindow,
    allowance: ReceiveWindow,
    own: Ended,
    peer: Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ended {
    #[default]
    No,
    End,
    Reset,
}

/// The treatment of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetBytes {
    /// They are for the other end of the connection.
    Deliver,
    /// This side has reset the connection.
    Discard,
}

/// The peer sent bytes, or an end, after its last frame, or violated the flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid frame of a connection")]
pub struct NetFlowError;

impl From<CreditError> for NetFlowError {
    fn from(_: CreditError) -> Self {
        NetFlowError
    }
}

impl NetFlow {
    /// Returns the number of bytes that may be sent now.
    pub fn sendable(&self) -> usize {
        let is_open = self.own == Ended::No && self.peer != Ended::Reset;
        if is_open { self.credit.left() } else { 0 }
    }

    /// Records sent bytes, at most [`NetFlow::sendable`].
    pub fn record_sent(&mut self, bytes: usize) {
        self.credit.spend(bytes);
    }

    /// Records that this side has no more bytes. Returns whether `End` must be sent.
    #[must_use]
    pub fn end(&mut self) -> bool {
        let must_send = self.own == Ended::No;
        if must_send {
            self.own = Ended::End;
        }
        must_send
    }

    /// Records that this side has failed. Returns whether `Reset` must be sent.
    #[must_use]
    pub fn reset(&mut self) -> bool {
        let must_send = self.own != Ended::Reset && !self.is_closed();
        if must_send {
            self.own = Ended::Reset;
        }
        must_send
    }

    /// Records received bytes.
    pub fn receive_data(&mut self, bytes: usize) -> Result<NetBytes, NetFlowError> {
        if self.peer != Ended::No {
            return Err(NetFlowError);
        }
        self.allowance.receive(bytes)?;
        Ok(if self.own == Ended::Reset { NetBytes::Discard } else { NetBytes::Deliver })
    }

    /// Records the peer's `End`.
    pub fn receive_end(&mut self) -> Result<(), NetFlowError> {
        if self.peer != Ended::No {
            return Err(NetFlowError);
        }
        self.peer = Ended::End;
        Ok(())
    }

    /// Records the peer's `Reset`. The connection of this side must be reset, and answered by
    /// [`NetFlow::reset`].
    pub fn receive_reset(&mut self) -> Result<(), NetFlowError> {
        if self.peer == Ended::Reset {
            return Err(NetFlowError);
        }
        self.peer = Ended::Reset;
        Ok(())
    }

    /// Records the peer's credit.
    pub fn receive_credit(&mut self, bytes: u32) -> Result<(), NetFlowError> {
        Ok(self.credit.grant(bytes)?)
    }

    /// Records received bytes as written to their destination. Returns the credit to grant, if it is
    /// time.
    #[must_use]
    pub fn release(&mut self, bytes: usize) -> Option<u32> {
        let granted = self.allowance.release(bytes);
        granted.filter(|_| self.peer == Ended::No && self.own != Ended::Reset)
    }

    /// Returns whether the peer has no more bytes.
    pub fn has_peer_ended(&self) -> bool {
        self.peer != Ended::No
    }

    /// Returns whether both sides have sent their last frame.
    pub fn is_closed(&self) -> bool {
        self.own != Ended::No && self.peer != Ended::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WINDOW;

    #[test]
    fn a_connection_closes_when_both_sides_have_ended() {
        let mut flow = NetFlow::default();
        assert_eq!(flow.receive_data(10), Ok(NetBytes::Deliver));
        assert_eq!(flow.receive_end(), Ok(()));
        assert!(flow.sendable() == WINDOW && !flow.is_closed(), "the other direction is open");
        assert!(flow.end() && flow.is_closed() && flow.sendable() == 0);
        assert!(!flow.end() && !flow.reset(), "the last frame was sent");
    }

    #[test]
    fn nothing_follows_the_last_frame() {
        for last in [NetFlow::receive_end, NetFlow::receive_reset] {
            let mut flow = NetFlow::default();
            last(&mut flow).unwrap();
            assert_eq!(flow.receive_data(1), Err(NetFlowError));
            assert_eq!(flow.receive_end(), Err(NetFlowError));
        }
        let mut flow = NetFlow::default();
        assert_eq!(flow.receive_end(), Ok(()));
        assert_eq!(flow.receive_reset(), Ok(()), "it failed after its end");
        assert_eq!(flow.receive_reset(), Err(NetFlowError));
        assert!(flow.sendable() == 0 && flow.reset() && flow.is_closed());
    }

    #[test]
    fn bytes_that_were_in_flight_at_a_reset_are_discarded() {
        let mut flow = NetFlow::default();
        assert!(flow.reset() && !flow.is_closed());
        assert_eq!(flow.receive_data(WINDOW), Ok(NetBytes::Discard));
        assert_eq!(flow.receive_data(1), Err(NetFlowError), "no more than the credit");
        assert_eq!(flow.receive_end(), Ok(()));
        assert!(flow.is_closed());
        let mut ended = NetFlow::default();
        assert!(ended.end() && ended.reset() && !ended.reset() && !ended.is_closed());
    }

    #[test]
    fn credit_is_bounded() {
        let (mut sender, mut receiver) = (NetFlow::default(), NetFlow::default());
        let mut sent = 0;
        while sent < 10 * WINDOW {
            let bytes = sender.sendable().min(40_000);
            assert!(bytes > 0, "a sender whose peer reads is never blocked");
            sender.record_sent(bytes);
            receiver.receive_data(bytes).unwrap();
            if let Some(credit) = receiver.release(bytes) {
                sender.receive_credit(credit).unwrap();
            }
            sent += bytes;
        }
        assert_eq!(receiver.receive_data(WINDOW + 1), Err(NetFlowError));
        assert_eq!(NetFlow::default().receive_credit(1), Err(NetFlowError), "nothing was sent");
    }
}
