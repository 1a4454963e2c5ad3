//! Commands that a call has as words.

use super::assignment::is_assignment;
use super::glob::UNKNOWN;
use super::marks::found_below;
use super::normal::NormalCall;
use super::printed::search_roots;
use super::script::Input;
use super::table::{Runs, base_name, find};
use super::unwrap::{Around, Parts};

impl<'a> Parts<'a> {
    /// Follows a command that is given as words.
    pub(super) fn argv(&mut self, runs: &Runs, words: &[Vec<u8>], around: &Around<'a>) {
        let mut words = words.to_vec();
        if runs.assignments {
            let count = words.iter().take_while(|word| is_assignment(word)).count();
            self.variables.extend(words.drain(..count));
        }
        if words.first().is_some_and(|word| word == b"--") {
            words.remove(0);
        }
        if let [option, text, ..] = words.as_slice()
            && matches!(option.as_slice(), b"-c" | b"--command")
        {
            return self.text(&text.clone(), around);
        }
        let Some(tool) = words.first_mut() else { return };
        if runs.versions
            && let Some(at) = tool.iter().skip(1).position(|byte| *byte == b'@')
        {
            tool.truncate(at + 1);
        }
        if runs.image {
            *tool = base_name(tool)
                .split(|byte| b":@".contains(byte))
                .next()
                .unwrap_or_default()
                .to_vec();
            if !find(tool).0.is_listed {
                return;
            }
        }
        match &around.input {
            Input::Paths(roots) if runs.appends => words.extend(found_below(b"{}", roots)),
            _ if runs.appends => words.push(vec![UNKNOWN, UNKNOWN]),
            _ => {}
        }
        self.call(&words, around);
    }

    /// Follows the commands after options such as `-exec`.
    pub(super) fn until(
        &mut self,
        runs: &Runs,
        call: &NormalCall,
        argv: &[Vec<u8>],
        around: &Around<'a>,
    ) {
        let starts: Vec<&[u8]> = runs.option.split(' ').map(str::as_bytes).collect();
        let roots = search_roots(call);
        let mut rest = argv.iter().skip(1);
        while let Some(word) = rest.next() {
            if !starts.contains(&word.as_slice()) {
                continue;
            }
            let words: Vec<_> =
                rest.by_ref().take_while(|word| *word != b";" && *word != b"+").collect();
            let mut command: Vec<Vec<u8>> =
                words.iter().flat_map(|word| found_below(word, &roots)).collect();
            if runs.appends && !words.iter().any(|word| word.contains(&b'{')) {
                command.push(vec![UNKNOWN, UNKNOWN]);
            }
            self.call(&command, around);
        }
    }
}
