//! How much may be under way on one stream of a connection that several streams share
//! (`spec/exec3.md#frames`).

/// What either side may send on a stream before it is granted more, in bytes: a few reads of a pipe,
/// so that both work at the same time, and little enough to hold for every stream.
pub const WINDOW: usize = 256 * 1024;

/// The sender's side: what the peer still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow {
    left: usize,
}

/// The receiver's side: what the peer may still send, and what has to be granted anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    left: usize,
    used: usize,
}

/// The peer granted more than there is, or sent more than it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the flow control of a stream")]
pub struct CreditError;

impl Default for SendWindow {
    fn default() -> Self {
        SendWindow { left: WINDOW }
    }
}

impl SendWindow {
    /// How many bytes may be sent now.
    pub fn left(&self) -> usize {
        self.left
    }

    /// So many were sent: at most [`SendWindow::left`].
    pub fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// The peer takes so many more. Errors: it would be more than a window.
    pub fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        let granted = usize::try_from(bytes).ok().and_then(|bytes| self.left.checked_add(bytes));
        self.left = granted.filter(|left| *left <= WINDOW).ok_or(CreditError)?;
        Ok(())
    }
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        ReceiveWindow { left: WINDOW, used: 0 }
    }
}

impl ReceiveWindow {
    /// So many bytes came. Errors: the peer was not granted as many.
    pub fn receive(&mut self, bytes: usize) -> Result<(), CreditError> {
        self.left = self.left.checked_sub(bytes).ok_or(CreditError)?;
        Ok(())
    }

    /// So many bytes have been handed on. Says what to grant, as soon as it is worth a frame: half a
    /// window.
    #[must_use]
    pub fn release(&mut self, bytes: usize) -> Option<u32> {
        self.used = self.used.saturating_add(bytes);
        if self.used < WINDOW / 2 {
            return None;
        }
        let granted = std::mem::take(&mut self.used);
        self.left = self.left.saturating_add(granted);
        u32::try_from(granted).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree() {
        let (mut credit, mut allowance) = (SendWindow::default(), ReceiveWindow::default());
        for round in 0..1000usize {
            let bytes = (round * 7919 % 65_536).min(credit.left());
            credit.spend(bytes);
            allowance.receive(bytes).unwrap();
            if let Some(more) = allowance.release(bytes) {
                credit.grant(more).unwrap();
            }
            assert!(credit.left() > 0, "a reader that reads never stops the writer");
        }
    }

    #[test]
    fn a_peer_that_breaks_it() {
        let mut allowance = ReceiveWindow::default();
        assert_eq!(allowance.receive(WINDOW), Ok(()));
        assert_eq!(allowance.receive(1), Err(CreditError));
        let mut credit = SendWindow::default();
        assert_eq!(credit.grant(1), Err(CreditError), "nothing was sent yet");
        credit.spend(10);
        assert_eq!(credit.grant(10), Ok(()));
        credit.spend(WINDOW);
        assert_eq!((credit.left(), credit.grant(u32::MAX)), (0, Err(CreditError)));
    }
}
