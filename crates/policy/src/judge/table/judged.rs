//! Whether a call may be one of a tool that a rule names.

use std::fmt;

use super::{base_name, find};
use crate::judge::glob::is_unknown;

/// The tools that rules name.
#[derive(Clone, Copy, Default)]
pub(in crate::judge) struct JudgedTools<'a>(Option<&'a IsNamed<'a>>);

type IsNamed<'a> = dyn Fn(&[u8]) -> bool + 'a;

impl<'a> JudgedTools<'a> {
    pub(in crate::judge) fn new(is_named: &'a IsNamed<'a>) -> Self {
        JudgedTools(Some(is_named))
    }

    /// Returns whether a rule is on the tool, or the tool runs others.
    pub(in crate::judge) fn may_matter(&self, tool: &[u8]) -> bool {
        let (known, name, _) = find(tool);
        let is_runner = !known.table.runs.is_empty() || known.table.reads_commands;
        is_runner || self.is_named(name)
    }

    /// Returns whether a word, or the value of an option, may be the text of a call that matters.
    pub(in crate::judge) fn may_hold_call(&self, word: &[u8]) -> bool {
        let text = word.trim_ascii();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b";&|(){}`'\"\\!=[,".contains(byte);
        text.iter().any(u8::is_ascii_whitespace)
            && text.split(ends).any(|word| self.may_matter(base_name(word)))
    }

    fn is_named(&self, tool: &[u8]) -> bool {
        self.0.is_none_or(|is_named| is_named(tool))
    }
}

/// Returns whether rules for other tools cannot be about a call of this tool: it runs none of its words.
pub(in crate::judge) fn runs_nothing(argv: &[Vec<u8>], judged: JudgedTools<'_>) -> bool {
    let Some((first, args)) = argv.split_first() else { return true };
    let tool = base_name(first);
    let (known, name, _) = find(tool);
    let table = known.table;
    if judged.is_named(name) || !table.runs.is_empty() || !table.alias_options.is_empty() {
        return false;
    }
    let reads = table.reads_commands || table.reads_files;
    let is_plain = !tool.iter().any(|byte| is_unknown(*byte)) && !reads;
    let may_run = |word: &Vec<u8>| judged.may_matter(base_name(word)) || judged.may_hold_call(word);
    is_plain && (known.is_listed || !args.iter().any(may_run))
}

impl fmt::Debug for JudgedTools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JudgedTools(..)")
    }
}
