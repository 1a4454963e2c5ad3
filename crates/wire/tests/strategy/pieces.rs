//! Splits of an input, for the property tests of wire and acp.

/// Splits `bytes` into pieces of the given lengths, repeated as needed.
pub(crate) fn pieces<'a>(bytes: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    lengths.iter().cycle().map_while(move |len| {
        let (piece, after) = rest.split_at((*len).min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
