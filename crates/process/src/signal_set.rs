//! Sets of signals, including real-time signals, and reading signals from a descriptor.

use std::os::fd::{AsFd, BorrowedFd};

use aifo_types::Signal;
use nix::libc;
use nix::unistd::read;

use crate::sys::kernel::Fd;
use crate::sys::{self, MaskOperation};

/// A set of signals from 1 to 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// Returns the set of all signals, including the two that the C library uses to manage threads.
    /// Only for programs without threads.
    pub const fn all() -> Self {
        SignalSet(u64::MAX)
    }

    /// Makes a set from a bit mask in the format of `/proc/PID/status`: bit n - 1 is signal n.
    pub const fn from_bits(bits: u64) -> Self {
        SignalSet(bits)
    }

    /// Returns the bit mask: bit n - 1 is signal n.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether the set contains a signal.
    pub fn contains(self, number: u8) -> bool {
        self.0 & bit(number) != 0
    }

    /// Adds a signal. Ignores a number that is not a signal.
    pub fn insert(&mut self, number: u8) {
        self.0 |= bit(number);
    }

    /// Removes a signal.
    pub fn remove(&mut self, number: u8) {
        self.0 &= !bit(number);
    }

    /// Returns the signal numbers in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=64).filter(move |number| self.contains(*number))
    }

    /// Adds these signals to the thread's mask and returns the previous mask. KILL and STOP cannot
    /// be blocked.
    pub fn block(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Block, self.0).map(SignalSet)
    }

    /// Removes these signals from the thread's mask and returns the previous mask.
    pub fn unblock(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Unblock, self.0).map(SignalSet)
    }

    /// Sets the thread's mask to exactly these signals and returns the previous mask.
    pub fn restore(self) -> nix::Result<SignalSet> {
        sys::change_mask(MaskOperation::Set, self.0).map(SignalSet)
    }
}

impl FromIterator<u8> for SignalSet {
    /// Makes a set of signal numbers. Ignores a number that is not a signal.
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        SignalSet(numbers.into_iter().fold(0, |bits, number| bits | bit(number)))
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> Self {
        signals.into_iter().map(Signal::number).collect()
    }
}

/// A signalfd: pending signals of a set, to be read instead of delivered.
#[derive(Debug)]
pub struct CaughtSignals(Fd);

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtSignal {
    /// Its number.
    pub number: u8,
    /// True if the kernel sent it, as for Ctrl-C or a window size change, rather than a process
    /// with `kill`.
    pub from_kernel: bool,
}

impl CaughtSignals {
    /// Blocks these signals in this thread and opens a descriptor that is readable while one is
    /// pending. Must be called before the process starts a thread.
    pub fn new(set: SignalSet) -> nix::Result<Self> {
        set.block()?;
        sys::signalfd(set.0).map(CaughtSignals)
    }

    /// Returns the next pending signal, or `None`. A signal below 32 is pending at most once,
    /// however often it was sent.
    pub fn next(&self) -> Option<CaughtSignal> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        if read(&self.0, &mut info) != Ok(info.len()) {
            return None;
        }
        // Three 32-bit words: the number, an error, and the `si_code`.
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

/// `si_code` of a signal that the kernel sent (sigaction(2)).
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
        // Real-time signals queue, others are pending once.
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
