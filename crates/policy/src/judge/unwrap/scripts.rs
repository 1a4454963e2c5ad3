//! The scripts that a call names.

use super::super::glob::is_unknown;
use super::super::normal::NormalCall;
use super::super::place::Place;
use super::super::table::JudgedTools;
use super::{Around, MAX_BYTES, Parts};

/// Options of interpreters with code or a module: no operand is a script.
const CODE: [&[u8]; 4] = [b"-c", b"-e", b"-m", b"-p"];

impl<'a> Parts<'a> {
    /// Returns the absolute paths of the scripts that a call and the calls in it name.
    pub(in crate::judge) fn scripts(argv: &[Vec<u8>], place: Place<'a>) -> Vec<Vec<u8>> {
        let (judged, scripts) = (JudgedTools::default(), Some(Vec::new()));
        let mut parts = Parts { budget: MAX_BYTES, judged, scripts, ..Parts::default() };
        parts.call(argv, &Around::of(place));
        let mut scripts = parts.scripts.unwrap_or_default();
        scripts.sort();
        scripts.dedup();
        scripts
    }

    pub(super) fn note_scripts(&mut self, argv: &[Vec<u8>], call: &NormalCall, place: &Place<'a>) {
        let Some(scripts) = &mut self.scripts else { return };
        let table = call.known.table;
        // The letters are flags of a shell.
        let code = if table.reads_code { &CODE[..] } else { &CODE[..1] };
        let is_reader = (table.reads_commands || table.reads_files)
            && !code.iter().any(|option| call.has_option(option));
        let operand = call.operands.first().map(|operand| &operand.word).filter(|_| is_reader);
        let is_nested = self.depth > 1;
        // `uv run x.py` names a file without a slash.
        let is_path = |word: &[u8]| word.contains(&b'/') || (is_nested && word.contains(&b'.'));
        let program = argv.first().filter(|word| is_path(word));
        let words = program.into_iter().chain(operand).filter(|_| !place.is_contained);
        for path in words.flat_map(|word| place.absolute(word)) {
            let is_path = path.starts_with(b"/") && !path.iter().any(|byte| is_unknown(*byte));
            scripts.extend(is_path.then_some(path));
        }
    }
}
