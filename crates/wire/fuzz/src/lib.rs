//! What the targets share: inputs that say where they are cut, and limits that a fuzzer reaches.
//!
//! In scope: reading an input, delivering its bytes whole and in pieces, comparing what was
//! understood. Out of scope: what must hold beyond that, which each target says for its decoder.
//!
//! Architecture invariant: like the codecs, the targets compute and do nothing else, but for the one
//! that is about a real tree.

use std::fmt::Debug;

use aifo_wire::Limits;

/// Bytes of a peer, and how they are cut on their way.
///
/// An input is `count u8`, so many piece lengths of one byte each, then the bytes. An input of a
/// zero and a transcript is that transcript whole, which is what the seeds are.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    lengths: &'a [u8],
    /// The peer's bytes.
    pub wire: &'a [u8],
}

impl<'a> Input<'a> {
    /// Reads an input; every one is good for something.
    pub fn parse(data: &'a [u8]) -> Self {
        let (count, rest) = data.split_first().unwrap_or((&0, &[]));
        let (lengths, wire) = rest.split_at(usize::from(*count).min(MAX_CUTS).min(rest.len()));
        Input { lengths, wire }
    }

    /// The bytes in pieces of the given lengths, over and over; whole if there are none.
    fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.wire;
        let mut lengths = self.lengths.iter().cycle();
        std::iter::from_fn(move || {
            let length = lengths.next().map_or(rest.len(), |length| usize::from(*length).max(1));
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Tells the bytes' story whole and in pieces; asserts that the two are one, and returns it.
    #[track_caller]
    pub fn story<T: Debug + PartialEq>(
        &self,
        tell: impl Fn(&mut dyn Iterator<Item = &'a [u8]>) -> T,
    ) -> T {
        let whole = tell(&mut std::iter::once(self.wire).filter(|wire| !wire.is_empty()));
        let pieces = tell(&mut self.pieces());
        assert_eq!(whole, pieces, "cuts change nothing: {:?}", self.lengths);
        whole
    }
}

/// More cuts than these tell nothing new.
const MAX_CUTS: usize = 8;

/// Limits of a size that inputs of a few hundred bytes run into.
pub fn limits() -> Limits {
    Limits {
        max_headers: 8,
        max_head: 384,
        max_body: 128,
        max_drain: 320,
        max_chunk_line: 24,
        max_trailer: 64,
        ..Limits::default()
    }
}
