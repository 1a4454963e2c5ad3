//! Sets of signals, real-time ones included, and reading them from an fd.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::libc;
use nix::unistd::read;

use crate::sys::{self, MaskOperation};

/// Some of the signals 1 to 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// Every signal, also the two that the C library uses to manage threads: for programs that
    /// have none.
    pub const fn all() -> Self {
        SignalSet(u64::MAX)
    }

    /// The set in which bit n - 1 stands for signal n, as in `/proc/PID/status`.
    pub const fn from_bits(bits: u64) -> Self {
        SignalSet(bits)
    }

    /// Bit n - 1 stands for signal n.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether a signal is in it.
    pub fn contains(self, number: u8) -> bool {
        self.0 & bit(number) != 0
    }

    /// Adds a signal; a number that is none adds nothing.
    pub fn insert(&mut self, number: u8) {
        self.0 |= bit(number);
    }

    /// Takes a signal out.
    pub fn remove(&mut self, number: u8) {
        self.0 &= !bit(number);
    }

    /// The numbers in it, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=64).filter(move |number| self.contains(*number))
    }

    /// Blocks these signals in this thread, besides those that are; returns those that were. KILL
    /// and STOP cannot be blocked.
    pub fn block(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Block, self.0).map(SignalSet)
    }

    /// Unblocks these signals in this thread; returns those that were blocked.
    pub fn unblock(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Unblock, self.0).map(SignalSet)
    }

    /// Blocks these signals in this thread and no others; returns those that were blocked.
    pub fn restore(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Set, self.0).map(SignalSet)
    }
}

/// The signals of a set as they come in, instead of what they would have done.
#[derive(Debug)]
pub struct CaughtSignals(OwnedFd);

/// One signal that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtSignal {
    /// Its number.
    pub number: u8,
    /// Whether the kernel sent it of its own accord, as it does for Ctrl-C and a new window size,
    /// and no process did by `kill`.
    pub from_kernel: bool,
}

impl CaughtSignals {
    /// Blocks these signals in this thread, so that they wait, and opens an fd that is readable
    /// while one does. To be called before a program has threads.
    pub fn new(set: SignalSet) -> nix::Result<Self> {
        set.block()?;
        sys::signalfd(set.0).map(CaughtSignals)
    }

    /// The next signal, or `None` while none waits. Of the signals below 32 one kind waits once,
    /// however often it was sent.
    pub fn next(&self) -> Option<CaughtSignal> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        if read(&self.0, &mut info) != Ok(info.len()) {
            return None;
        }
        // The number comes first, then an error, then who sent it: 32 bits each.
        let (words, _) = info.as_chunks();
        let number = u32::from_ne_bytes(*words.first()?);
        let code = i32::from_ne_bytes(*words.get(2)?);
        Some(CaughtSignal { number: u8::try_from(number).ok()?, from_kernel: code == SI_KERNEL })
    }
}

impl AsFd for CaughtSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `si_code` of a signal that no process sent (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

fn bit(number: u8) -> u64 {
    match number {
        1..=64 => 1 << (number - 1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_signals_1_to_64() {
        let mut set = SignalSet::default();
        for number in [1, 33, 64, 0, 65, 255] {
            set.insert(number);
        }
        assert_eq!(set.bits(), 1 | 1 << 32 | 1 << 63);
        assert!(set.iter().eq([1, 33, 64]) && set.contains(64) && !set.contains(0));
        set.remove(64);
        assert_eq!(set, SignalSet::from_bits(1 | 1 << 32));
        assert!(SignalSet::all().iter().eq(1..=64));
    }

    #[test]
    fn caught_signals_queue_until_read() {
        let mut set = SignalSet::default();
        for number in [10, 33, 64] {
            set.insert(number);
        }
        let before = SignalSet::default().block().unwrap();
        let caught = CaughtSignals::new(set).unwrap();
        assert_eq!(caught.next(), None);
        // Real-time signals queue, the others wait once.
        for number in [10, 10, 64, 64, 33] {
            sys::raise(number).unwrap();
        }
        let numbers = std::iter::from_fn(|| caught.next()).map(|caught| {
            assert!(!caught.from_kernel);
            caught.number
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [10, 33, 64, 64]);
        before.restore().unwrap();
    }
}
