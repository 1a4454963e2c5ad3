//! Flow control of the streams that share a connection (`spec/exec3.md#frames`).

/// Bytes that a side may send on a stream without further credit: several reads of a pipe, but
/// little enough to buffer for every stream.
pub const WINDOW: usize = 256 * 1024;

/// The sender's credit on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow {
    left: usize,
}

/// The receiver's side of a stream: the peer's credit, and the bytes to grant again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    left: usize,
    used: usize,
}

/// The peer granted more than a window, or sent more than its credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer violated the flow control of a stream")]
pub struct CreditError;

impl Default for SendWindow {
    fn default() -> Self {
        SendWindow { left: WINDOW }
    }
}

impl SendWindow {
    /// Returns the number of bytes that may be sent.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Records sent bytes, at most [`SendWindow::left`].
    pub fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Adds the peer's credit. Errors: the total exceeds [`WINDOW`].
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
    /// Records received bytes. Errors: they exceed the peer's credit.
    pub fn receive(&mut self, bytes: usize) -> Result<(), CreditError> {
        self.left = self.left.checked_sub(bytes).ok_or(CreditError)?;
        Ok(())
    }

    /// Records bytes as written to their destination. Returns the credit to grant once that is half
    /// a window.
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
    fn both_sides_stay_in_step() {
        let (mut credit, mut allowance) = (SendWindow::default(), ReceiveWindow::default());
        for round in 0..1000usize {
            let bytes = (round * 7919 % 65_536).min(credit.left());
            credit.spend(bytes);
            allowance.receive(bytes).unwrap();
            if let Some(more) = allowance.release(bytes) {
                credit.grant(more).unwrap();
            }
            assert!(credit.left() > 0, "a sender whose peer reads is never blocked");
        }
    }

    #[test]
    fn violations_are_errors() {
        let mut allowance = ReceiveWindow::default();
        assert_eq!(allowance.receive(WINDOW), Ok(()));
        assert_eq!(allowance.receive(1), Err(CreditError));
        let mut credit = SendWindow::default();
        assert_eq!(credit.grant(1), Err(CreditError), "nothing sent yet");
        credit.spend(10);
        assert_eq!(credit.grant(10), Ok(()));
        credit.spend(WINDOW);
        assert_eq!((credit.left(), credit.grant(u32::MAX)), (0, Err(CreditError)));
    }
}
