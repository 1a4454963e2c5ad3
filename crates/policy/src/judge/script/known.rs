//! Variables whose value the text itself gives.
//!
//! A value counts only if its name is in the text once except in expansions, so that no `read`, `for` or
//! `unset` can change it, and if no command is in the text that assigns to names that are not written.

use std::collections::HashMap;
use std::rc::Rc;

use crate::judge::glob::{GLOB, PLAIN, is_unknown};

/// Words of commands that assign to names that the text may not contain.
const HIDDEN: [&[u8]; 14] = [
    b"eval",
    b"source",
    b"declare",
    b"typeset",
    b"local",
    b"readonly",
    b"mapfile",
    b"readarray",
    b"let",
    b"getopts",
    b"unset",
    b"read",
    b"IFS",
    b"nameref",
];
/// Variables that the shell itself changes.
const SPECIAL: [&[u8]; 7] =
    [b"_", b"RANDOM", b"SECONDS", b"LINENO", b"PWD", b"OLDPWD", b"BASH_ARGV0"];
/// Maximum number of values of a loop's variable.
const MAX_VALUES: usize = 16;

#[derive(Clone, Debug)]
pub(super) enum Value {
    One(Vec<u8>),
    /// The index in [`Known::loops`].
    Loop(u8),
}

/// The variables of a text.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Names, with how often they are in the text outside of expansions.
    names: HashMap<Vec<u8>, usize>,
    is_off: bool,
    /// True if `cd` may search other directories.
    pub(super) has_cdpath: bool,
    /// True if the text may define functions or aliases with the names of tools.
    defines_commands: bool,
    /// All of their names, if they are known.
    functions: Option<Rc<[Vec<u8>]>>,
    /// The variables that calls around the text set.
    set: Rc<[Vec<u8>]>,
    values: HashMap<Vec<u8>, Value>,
    /// Names whose assignment may not have run once the list has ended.
    unsure: Vec<Vec<u8>>,
    last: Vec<Vec<u8>>,
    /// The values of loops' variables.
    pub(super) loops: Vec<Vec<Vec<u8>>>,
    /// The variables of the loops that are open.
    pub(super) open: Vec<Option<Vec<u8>>>,
    /// False after `||` and `|`.
    pub(super) is_sure: bool,
    /// True after `&&`.
    pub(super) is_chained: bool,
}

/// Returns whether a text has `()`, also with blanks between, as a function has after its name.
fn has_empty_parentheses(text: &[u8]) -> bool {
    let mut opens = text.split(|byte| *byte == b'(').skip(1);
    opens.any(|after| after.trim_ascii_start().first() == Some(&b')'))
}

impl Known {
    /// Reads the names of a text. `variables` are those that calls around it set.
    pub(super) fn of_text(text: &[u8], variables: &[Vec<u8>]) -> Self {
        let name = |it: &Vec<u8>| it.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        let mut known = match text.contains(&b'$') {
            true => Known::scan(text),
            false => Known::default(),
        };
        known.is_sure = true;
        known.set = variables.iter().filter_map(name).collect();
        let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
        known.defines_commands = has(b"function") || has(b"alias") || has_empty_parentheses(text);
        let searches = [&b"CDPATH"[..], b"cdpath", b"cdable_vars"];
        known.has_cdpath =
            searches.iter().any(|name| has(name) || known.set.iter().any(|it| it == name));
        known
    }

    /// Returns the variables of a text that the same shell runs, and forgets those that it may change.
    pub(super) fn enter(&mut self, text: &[u8]) -> Self {
        let mut inner = Known { is_sure: true, ..Known::scan(text) };
        self.values.retain(|name, _| inner.is_free(name));
        self.is_off |= inner.is_off;
        inner.is_off = self.is_off;
        inner.values = self.values.clone();
        inner.loops = self.loops.clone();
        inner.set = Rc::clone(&self.set);
        // A variable that either text sets is not that of the session.
        for name in inner.names.keys() {
            *self.names.entry(name.clone()).or_default() += 1;
        }
        inner.names.extend(self.names.iter().map(|(name, count)| (name.clone(), *count)));
        inner.has_cdpath = self.has_cdpath || text.windows(6).any(|part| part == b"CDPATH");
        inner.defines_commands = self.defines_commands;
        inner.functions = self.functions.clone();
        inner
    }

    pub(super) fn with_functions(self, names: Rc<[Vec<u8>]>) -> Self {
        Known { functions: Some(names), ..self }
    }

    pub(super) fn defines_commands(&self) -> bool {
        self.defines_commands
    }

    /// Returns whether a command may be a function or an alias.
    pub(super) fn may_define(&self, words: &[Vec<u8>]) -> bool {
        self.defines_commands
            && self
                .functions
                .as_ref()
                .is_none_or(|names| words.first().is_none_or(|tool| names.contains(tool)))
    }

    /// Keeps the state of the chain around a nested list.
    pub(super) fn begin_nested(&mut self) -> (bool, bool, Vec<Vec<u8>>) {
        (self.is_sure, self.is_chained, std::mem::take(&mut self.unsure))
    }

    pub(super) fn end_nested(&mut self, chain: (bool, bool, Vec<Vec<u8>>)) {
        (self.is_sure, self.is_chained, self.unsure) = chain;
    }

    /// Reads the names of a text.
    fn scan(text: &[u8]) -> Self {
        let mut known = Known::default();
        let has_printf = text.windows(6).any(|word| word == b"printf");
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            if !is_name(byte) {
                let is_dot = *byte == b'.' && matches!(text.get(at + 1), Some(b' ' | b'\t'));
                known.is_off |= is_dot && begins_command(text.get(..at).unwrap_or_default());
                at += 1;
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| is_name(byte)).count();
            let name = rest.get(..length).unwrap_or_default();
            let before = text.get(..at).unwrap_or_default();
            let after = rest.get(length);
            let ends = after == Some(&b'}')
                || rest.get(length..).is_some_and(|rest| rest.starts_with(b":-"));
            let is_expansion = before.ends_with(b"$") || (before.ends_with(b"${") && ends);
            // `-f` is no variable, but `printf -v` sets one.
            let is_option = before.ends_with(b"-");
            known.is_off |= is_option && has_printf && name.starts_with(b"v");
            // `-e NAME=$NAME` changes nothing.
            let value = rest.get(length..).and_then(|rest| rest.strip_prefix(b"=$"));
            let value = value.map(|value| value.strip_prefix(b"{").unwrap_or(value));
            let is_itself = value
                .and_then(|value| value.strip_prefix(name))
                .is_some_and(|rest| rest.first().is_none_or(|byte| !is_name(byte)));
            // Nor is a part of a path.
            let is_path = before.ends_with(b"/") && !after.is_some_and(|it| b"=+-[".contains(it));
            if !is_expansion && !is_option && !is_itself && !is_path {
                known.is_off |= HIDDEN.contains(&name);
                *known.names.entry(name.to_vec()).or_default() += 1;
            }
            at += length;
        }
        known
    }

    /// Returns whether the text gives this variable no value.
    pub(super) fn is_free(&self, name: &[u8]) -> bool {
        !self.is_off && !self.names.contains_key(name)
    }

    /// Returns whether a variable has a value of the session, which is one word as a part of a word.
    pub(super) fn is_of_session(&self, name: &[u8]) -> bool {
        let is_set = |name: &[u8]| self.set.iter().any(|set| set == name);
        self.is_free(name) && name != b"IFS" && !is_set(b"IFS") && !is_set(name)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Value> {
        self.values.get(name).filter(|_| !self.is_off)
    }

    /// Notes the names of assignments, which may not be in the text as they are.
    pub(super) fn note(&mut self, assignments: &[Vec<u8>]) {
        for assignment in assignments {
            let name = assignment.split(|byte| *byte == b'=').next().unwrap_or_default();
            self.is_off |= name.iter().any(|byte| is_unknown(*byte)) && assignment.contains(&b'=');
            if !self.names.contains_key(name) {
                self.names.insert(name.to_vec(), 2);
            }
        }
    }

    /// Records assignments of a command that runs in any case, or after the commands of its `&&` before it.
    pub(super) fn assign(&mut self, assignments: &[Vec<u8>]) {
        self.last.clear();
        if !self.is_sure {
            return;
        }
        for assignment in assignments {
            let Some(at) = assignment.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = assignment.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            if self.is_off || SPECIAL.contains(&name) {
                continue;
            }
            if self.names.get(name) != Some(&1) || !is_plain(value) {
                continue;
            }
            self.values.insert(name.to_vec(), Value::One(value.to_vec()));
            self.last.push(name.to_vec());
            if self.is_chained {
                self.unsure.push(name.to_vec());
            }
        }
    }

    /// Opens a loop with the words of its header.
    pub(super) fn enter_loop(&mut self, header: &[Vec<u8>]) {
        let opened = match header {
            [name, of, values @ ..]
                if of == b"in"
                    && !self.is_off
                    && values.len() <= MAX_VALUES
                    && values.iter().all(|value| is_plain(value))
                    && self.names.get(name) == Some(&1) =>
            {
                u8::try_from(self.loops.len()).ok().map(|index| (name, index, values))
            }
            _ => None,
        };
        self.open.push(opened.map(|(name, index, values)| {
            self.loops.push(values.to_vec());
            self.values.insert(name.clone(), Value::Loop(index));
            name.clone()
        }));
    }

    pub(super) fn leave_loop(&mut self) {
        if let Some(Some(name)) = self.open.pop() {
            self.values.remove(&name);
        }
    }

    /// Forgets the assignments of the command before, which ran in a process of its own.
    pub(super) fn forget_last(&mut self) {
        for name in std::mem::take(&mut self.last) {
            self.values.remove(&name);
        }
    }

    /// Ends a chain of `&&`.
    pub(super) fn end_chain(&mut self) {
        self.is_chained = false;
        for name in std::mem::take(&mut self.unsure) {
            self.values.remove(&name);
        }
    }
}

/// Returns whether a word after this text may be a command.
fn begins_command(before: &[u8]) -> bool {
    let end = before.trim_ascii_end();
    let starts = [
        &b"then"[..],
        b"do",
        b"else",
        b"if",
        b"elif",
        b"while",
        b"until",
        b"time",
        b"command",
        b"builtin",
    ];
    let is_line = before.get(end.len()..).unwrap_or_default().contains(&b'\n');
    end.is_empty()
        || is_line
        || end.ends_with(b"\\")
        || end.last().is_some_and(|byte| b";&|({!`".contains(byte))
        || starts.iter().any(|word| end.ends_with(word))
}

/// Returns whether a value is one word, wherever it is expanded.
fn is_plain(value: &[u8]) -> bool {
    let is_safe = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'.' | b'/' | b'-' | b'+' | b':' | b'@' | b'%' | b',' | b'=' | b'$'
            )
            || matches!(*byte, GLOB | PLAIN)
    };
    !value.is_empty() && value.iter().all(is_safe)
}
