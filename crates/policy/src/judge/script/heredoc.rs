//! Bodies of here-documents.

use std::ops::Range;
use std::rc::Rc;

use super::known::Known;
use super::{Current, Input, MAX_DEPTH, Reader, Script, Shell};

/// A here-document whose body follows the line.
pub(super) struct Heredoc {
    pub(super) delimiter: Vec<u8>,
    pub(super) strips_tabs: bool,
    pub(super) is_quoted: bool,
    /// The commands that read it, once they have ended.
    pub(super) commands: Option<Range<usize>>,
}

impl Reader<'_> {
    /// Reads the bodies of here-documents after a line.
    pub(super) fn read_heredocs(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let start = self.at;
            let mut end = self.text.len();
            while self.at < self.text.len() {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let line_start = self.at;
                self.at = (self.at + line.len() + 1).min(self.text.len());
                let tabs = line.iter().take_while(|byte| **byte == b'\t').count();
                let tabs = if heredoc.strips_tabs { tabs } else { 0 };
                if line.get(tabs..) == Some(heredoc.delimiter.as_slice()) {
                    end = line_start;
                    break;
                }
            }
            let body = self.text.get(start..end).unwrap_or_default().to_vec();
            if !heredoc.is_quoted {
                self.expansions_of(&body);
            }
            let text: Rc<[u8]> = body.into();
            let readers = heredoc.commands.and_then(|range| self.script.commands.get_mut(range));
            for (at, command) in readers.unwrap_or_default().iter_mut().enumerate() {
                if at == 0 || command.input == Input::Inherited {
                    command.input = Input::Text(Rc::clone(&text));
                }
            }
        }
    }

    /// Reads the substitutions of a here-document.
    fn expansions_of(&mut self, body: &[u8]) {
        if self.depth >= MAX_DEPTH {
            self.script.is_unclear = true;
            return;
        }
        let mut reader = Reader {
            text: body,
            at: 0,
            script: Script::default(),
            place: self.place.clone(),
            fallback: Vec::new(),
            heredocs: Vec::new(),
            depth: self.depth + 1,
            known: Known::default(),
            shell: Shell::default(),
        };
        let mut current = Current::default();
        while reader.at < body.len() {
            reader.double_quoted(&mut current);
        }
        self.script.is_unclear |= reader.script.is_unclear;
        let offset = self.script.commands.len();
        for command in &mut reader.script.commands {
            command.into.iter_mut().for_each(|sink| sink.at += offset);
        }
        self.script.commands.append(&mut reader.script.commands);
    }
}
