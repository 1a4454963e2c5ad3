//! Sets of words as bits, which reject most rules without a look at their conditions.

use super::glob::is_unknown;
use super::normal::NormalCall;

/// A set that contains at least the words that it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sieve(u128);

/// The bit of every call.
const ALWAYS: u128 = 1 << 127;

impl Sieve {
    /// Matches every call.
    pub(super) const ANY: Sieve = Sieve(ALWAYS);

    /// Matches no call.
    pub(super) const NONE: Sieve = Sieve(0);

    /// The set of one option's names.
    pub(super) fn of_option(names: &[Vec<u8>]) -> Self {
        Sieve(names.iter().map(|name| bit(name)).fold(0, |all, one| all | one))
    }

    /// The set of the operands that a pattern matches.
    pub(super) fn of_pattern(pattern: &[u8]) -> Self {
        match pattern.first() {
            None | Some(b'*' | b'?') => Sieve::ANY,
            Some(first) => Sieve(bit(&[*first])),
        }
    }

    /// The options and operands of a call.
    pub(super) fn of_call(call: &NormalCall) -> Self {
        let is_vague = call.is_open
            || call.options.iter().any(|it| it.has_unknown || it.is_unknown)
            || call.operands.iter().any(|it| it.word.first().is_none_or(|byte| is_unknown(*byte)));
        if is_vague {
            return Sieve(u128::MAX);
        }
        let options = call.options.iter().map(|option| bit(&option.name));
        let operands = call.operands.iter().filter_map(|it| it.word.get(..1)).map(bit);
        Sieve(options.chain(operands).fold(ALWAYS, |all, one| all | one))
    }

    pub(super) fn and(self, other: Sieve) -> Sieve {
        Sieve(self.0 | other.0)
    }

    /// Returns whether the sets may have an element in common.
    pub(super) fn meets(self, other: Sieve) -> bool {
        self.0 & other.0 != 0
    }
}

fn bit(word: &[u8]) -> u128 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = word.iter().fold(0xcbf2_9ce4_8422_2325, step);
    1 << ((hash ^ (hash >> 32)) % 127)
}
