//! Shared code of the fuzz targets: inputs with their splits, and small limits.
//!
//! In scope: parsing an input, delivering its bytes whole and in pieces, comparing the results. Out
//! of scope: the properties of each decoder, which its target checks.
//!
//! Architecture invariant: the targets perform no I/O, except the one for a real directory tree.

use std::fmt::Debug;

use aifo_wire::Limits;

/// A peer's bytes and how to split them.
///
/// An input is `count u8`, that many piece lengths of one byte each, then the bytes. The seeds are a
/// zero and a transcript, which is delivered whole.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    lengths: &'a [u8],
    /// The peer's bytes.
    pub wire: &'a [u8],
}

impl<'a> Input<'a> {
    /// Parses an input; every input is valid.
    pub fn parse(data: &'a [u8]) -> Self {
        let (count, rest) = data.split_first().unwrap_or((&0, &[]));
        let (lengths, wire) = rest.split_at(usize::from(*count).min(MAX_LENGTHS).min(rest.len()));
        Input { lengths, wire }
    }

    /// Splits the bytes into pieces of the given lengths, repeated as needed; whole if there are none.
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

    /// Decodes the bytes whole and in pieces, asserts equal results and returns them.
    #[track_caller]
    pub fn check_splits<T: Debug + PartialEq>(
        &self,
        decode: impl Fn(&mut dyn Iterator<Item = &'a [u8]>) -> T,
    ) -> T {
        let whole = decode(&mut std::iter::once(self.wire).filter(|wire| !wire.is_empty()));
        let pieces = decode(&mut self.pieces());
        assert_eq!(whole, pieces, "split at {:?}", self.lengths);
        whole
    }
}

/// More lengths find nothing new.
const MAX_LENGTHS: usize = 8;

/// Limits that inputs of a few hundred bytes exceed.
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
