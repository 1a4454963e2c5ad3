//! Calls that a tool without a table may run.

use super::{Around, Parts};
use crate::judge::glob::UNKNOWN;
use crate::judge::marks::without_quotes;
use crate::judge::table::base_name;

/// Maximum number of calls that a tool without a table may run, by its operands.
const MAX_GUESSES: usize = 16;

impl<'a> Parts<'a> {
    /// Reads the operands of a tool without a table, or of a subcommand that its table does not name, as calls that
    /// it may run.
    pub(super) fn guesses(&mut self, argv: &[Vec<u8>], around: &Around<'a>) {
        let judged = self.judged;
        let may_run = |word: &Vec<u8>| {
            !word.is_empty()
                && !word.starts_with(b"-")
                && !word.contains(&UNKNOWN)
                && judged.may_matter(base_name(word))
        };
        let words = argv.iter().enumerate().skip(1).filter(|(_, word)| may_run(word));
        let starts: Vec<usize> = words.map(|(at, _)| at).take(MAX_GUESSES).collect();
        if !self.is_guess {
            self.is_guess = true;
            starts.iter().for_each(|at| self.call(argv.get(*at..).unwrap_or_default(), around));
            self.is_guess = false;
        }
        let is_text = |word: &&Vec<u8>| judged.may_hold_call(word);
        let texts = argv.iter().skip(1).filter(is_text).take(MAX_GUESSES);
        for word in texts {
            self.guess(word, around);
            // `--option=TEXT`
            let value =
                word.iter().position(|byte| *byte == b'=').and_then(|at| word.get(at + 1..));
            self.guess(value.unwrap_or_default(), around);
        }
    }

    /// Reads a text that may be a call.
    pub(in crate::judge) fn guess(&mut self, text: &[u8], around: &Around<'a>) {
        if self.is_guess || !self.judged.may_hold_call(text) {
            return;
        }
        let unclear = self.unclear.len();
        let text = text.trim_ascii();
        let text = without_quotes(text.strip_prefix(b"!").unwrap_or(text));
        self.is_guess = true;
        self.text(&text, around);
        self.is_guess = false;
        self.unclear.truncate(unclear);
    }
}
