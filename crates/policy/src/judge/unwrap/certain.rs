//! The calls that a call runs as if they were called alone. An answer for the call covers them too.

use super::super::glob::is_unknown;
use super::super::place::Place;
use super::super::table::JudgedTools;
use super::{Around, MAX_BYTES, Parts};
use crate::asked_call::AskedCall;

impl<'a> Parts<'a> {
    /// Returns the calls that a call runs as if they were called alone: all of
    /// their words are known, in one directory, by the agent PATH.
    pub(in crate::judge) fn certain(
        argv: &[Vec<u8>],
        place: Place<'a>,
        judged: JudgedTools<'a>,
    ) -> Vec<AskedCall> {
        let certain = Some(Vec::new());
        let mut parts = Parts { budget: MAX_BYTES, judged, certain, ..Parts::default() };
        parts.call(argv, &Around::of(place));
        let has_path = parts.variables.iter().any(|variable| variable.starts_with(b"PATH="));
        parts.certain.filter(|_| !has_path).unwrap_or_default()
    }

    pub(super) fn note_certain(&mut self, argv: &[Vec<u8>], place: &Place<'a>) {
        let Some(certain) = &mut self.certain else { return };
        let is_known = |word: &[u8]| !word.iter().any(|byte| is_unknown(*byte));
        if self.is_guess || self.is_elsewhere || !argv.iter().all(|word| is_known(word)) {
            return;
        }
        if let [directory] = place.directories.as_slice()
            && directory.starts_with(b"/")
            && is_known(directory)
        {
            certain.push(AskedCall::new(argv.to_vec(), directory.clone()));
        }
    }
}
