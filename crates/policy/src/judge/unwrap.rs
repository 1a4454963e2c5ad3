//! Takes a call apart: the call itself, and the calls that it starts.

mod certain;
mod guess;
mod scripts;

use std::rc::Rc;

use super::assignment::is_assignment;
use super::flow::{Flow, Row, reads_stdin};
use super::glob::{PLAIN, UNKNOWN, is_unknown};
use super::marks::{found_below, setting_of, without_marks};
use super::normal::{NormalCall, is_splitting};
use super::place::{Place, is_stdin};
use super::script::{Input, RESERVED, Script};
use super::table::{How, JudgedTools, Runs, base_name};
use crate::asked_call::AskedCall;

/// A call in normal form, with its surroundings.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) call: Rc<NormalCall>,
    pub(super) place: Rc<Place<'a>>,
    /// The tools that read its output as commands.
    pub(super) into: Rc<[Vec<u8>]>,
    /// True if the tool before it is in no table, and may run it.
    pub(super) is_guess: bool,
}

/// All calls of one call.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) list: Vec<Part<'a>>,
    /// The tools of calls that cannot be taken apart; an empty one is any tool.
    pub(super) unclear: Vec<Vec<u8>>,
    pub(super) variables: Vec<Vec<u8>>,
    depth: usize,
    /// The bytes of all texts and calls that may still be read.
    budget: usize,
    pub(super) is_guess: bool,
    /// True if the texts of a call are read elsewhere.
    skips_text: bool,
    /// True if a tool around this call may run it elsewhere.
    is_elsewhere: bool,
    /// The calls that are certainly run as if they were called alone.
    certain: Option<Vec<AskedCall>>,
    /// The scripts that the calls name.
    scripts: Option<Vec<Vec<u8>>>,
    /// The tools that a rule names; empty for all.
    judged: JudgedTools<'a>,
}

/// The surroundings of a call.
#[derive(Clone, Debug)]
pub(super) struct Around<'a> {
    pub(super) place: Rc<Place<'a>>,
    into: Rc<[Vec<u8>]>,
    pub(super) input: Input,
    writes: Rc<[Vec<u8>]>,
}

impl<'a> Around<'a> {
    fn of(place: Place<'a>) -> Self {
        let none: Rc<[Vec<u8>]> = Rc::default();
        Around {
            place: Rc::new(place),
            into: Rc::clone(&none),
            input: Input::Inherited,
            writes: none,
        }
    }
}

/// Maximum nesting of calls.
const MAX_DEPTH: usize = 12;
/// Maximum number of calls in a call.
const MAX_PARTS: usize = 4096;
/// Maximum bytes of all texts in a call.
const MAX_BYTES: usize = 4 << 20;

impl<'a> Parts<'a> {
    pub(super) fn of_call(argv: &[Vec<u8>], place: Place<'a>, judged: JudgedTools<'a>) -> Self {
        let mut parts = Parts { budget: MAX_BYTES, judged, ..Parts::default() };
        parts.call(argv, &Around::of(place));
        parts
    }

    pub(super) fn of_text(text: &[u8], place: Place<'a>, judged: JudgedTools<'a>) -> Self {
        let mut parts = Parts { budget: MAX_BYTES, judged, ..Parts::default() };
        parts.text(text, &Around::of(place));
        parts
    }

    /// Returns a call and those that it runs, apart from their surroundings.
    fn nested(argv: &[Vec<u8>], depth: usize) -> Vec<Rc<NormalCall>> {
        let mut parts = Parts { budget: MAX_BYTES, depth, ..Parts::default() };
        let place =
            Place { directories: Vec::new(), workspace: &[], links: None, is_contained: false };
        parts.call(argv, &Around::of(place));
        parts.list.into_iter().map(|part| part.call).collect()
    }

    fn any_tool(&mut self) {
        self.unclear.push(Vec::new());
    }

    /// Reads shell text.
    pub(super) fn text(&mut self, text: &[u8], around: &Around<'a>) {
        // The text itself depends on an expansion.
        let mut plain = Vec::new();
        let mut text = text;
        if text.contains(&PLAIN) {
            text.iter().for_each(|byte| match *byte {
                PLAIN => plain.extend(b"$$"),
                byte => plain.push(byte),
            });
            text = &plain;
        }
        if self.skips_text {
            return;
        }
        let is_known = !text.iter().any(|byte| RESERVED.contains(byte));
        if !is_known || self.depth >= MAX_DEPTH || text.len() > self.budget {
            return self.any_tool();
        }
        self.budget -= text.len();
        self.depth += 1;
        let mut variables = self.variables.clone();
        variables.extend(self.is_elsewhere.then(|| b"TMPDIR".to_vec()));
        let script = Script::parse(text, &around.place, &variables);
        if script.is_unclear {
            self.any_tool();
        }
        let flow = Flow::of(&script.commands, |words| Parts::nested(words, self.depth));
        for (at, command) in script.commands.into_iter().enumerate() {
            self.variables.extend(command.assignments);
            if let Some(tool) = command.words.first()
                && matches!(tool.as_slice(), b"export" | b"declare" | b"typeset" | b"readonly")
            {
                let words = command.words.iter().filter(|word| is_assignment(word));
                self.variables.extend(words.cloned());
            }
            let Row { into, files } = flow.row(at);
            let around = Around {
                place: Rc::new(Place {
                    directories: command.directories,
                    ..Place::clone(&around.place)
                }),
                into: into.iter().chain(around.into.iter()).cloned().collect(),
                input: match command.input {
                    Input::Inherited => around.input.clone(),
                    input => input,
                },
                writes: files.iter().chain(around.writes.iter()).cloned().collect(),
            };
            if !command.words.is_empty() {
                self.skips_text = command.is_read;
                self.call(&command.words, &around);
                self.skips_text = false;
            }
        }
        self.depth -= 1;
    }

    pub(super) fn call(&mut self, argv: &[Vec<u8>], around: &Around<'a>) {
        let Some(first) = argv.first() else { return };
        let is_known = |byte: &u8| !is_unknown(*byte);
        if is_splitting(first) || !base_name(first).iter().all(is_known) {
            return self.any_tool();
        }
        if self.depth >= MAX_DEPTH || self.list.len() >= MAX_PARTS {
            return self.any_tool();
        }
        // The number of calls in a call's own words is limited.
        if self.depth > 1 {
            let bytes: usize = argv.iter().map(|word| word.len() + 1).sum();
            let Some(rest) = self.budget.checked_sub(bytes) else { return self.any_tool() };
            self.budget = rest;
        }
        let Some(mut call) = NormalCall::parse(argv) else { return };
        self.depth += 1;
        let table = call.known.table;
        call.writes.extend_from_slice(&around.writes);
        self.settings(&mut call);
        let call = Rc::new(call);
        self.list.push(Part {
            call: Rc::clone(&call),
            place: Rc::clone(&around.place),
            into: Rc::clone(&around.into),
            is_guess: self.is_guess,
        });
        self.note_scripts(argv, &call, &around.place);
        if !table.here {
            self.note_certain(argv, &around.place);
        }
        let was_elsewhere = self.is_elsewhere;
        let drops = |option: &&str| call.has_option(option.as_bytes());
        self.is_elsewhere |= !table.here || table.drops.iter().any(drops);
        self.aliases(&call, argv, around);
        for runs in &table.runs {
            self.runs(runs, &call, argv, around);
        }
        self.variables_with_text(&call, around);
        if !call.names_command() {
            self.guesses(argv, around);
        }
        self.standard_input(&call, around);
        self.is_elsewhere = was_elsewhere;
        self.depth -= 1;
    }

    /// Reads the commands of a tool's standard input.
    fn standard_input(&mut self, call: &NormalCall, around: &Around<'a>) {
        let table = call.known.table;
        let is_file = call.operands.first().is_some_and(|operand| is_stdin(&operand.word));
        let first = call.operands.first().map(|operand| operand.word.as_slice());
        let is_substitution =
            first.is_some_and(|word| word.starts_with(b"/dev/fd/") && word.contains(&UNKNOWN));
        if is_substitution && (table.reads_commands || table.reads_files) && !table.reads_code {
            return self.any_tool();
        }
        let reads = reads_stdin(call) || ((table.reads_files || table.reads_commands) && is_file);
        if !reads || table.reads_code {
            return;
        }
        match &around.input {
            Input::Inherited => {}
            Input::Unknown | Input::Paths(_) => self.any_tool(),
            Input::Text(text) => {
                let around = Around { input: Input::Unknown, ..around.clone() };
                self.text(&text.clone(), &around);
            }
        }
    }

    /// Splits a text that is one simple command.
    pub(super) fn words_of(&mut self, text: &[u8], around: &Around<'a>) -> Option<Vec<Vec<u8>>> {
        let is_known = !text.contains(&UNKNOWN) && text.len() <= self.budget;
        if !is_known {
            return None;
        }
        self.budget -= text.len();
        let script = Script::parse(text, &around.place, &[]);
        let mut commands = script.commands.into_iter();
        match (commands.next(), commands.next(), script.is_unclear) {
            (Some(only), None, false) => Some([only.assignments, only.words].concat()),
            (None, None, false) => Some(Vec::new()),
            _ => None,
        }
    }

    fn runs(&mut self, runs: &Runs, call: &NormalCall, argv: &[Vec<u8>], around: &Around<'a>) {
        let mut at = 0;
        for word in runs.after.split_whitespace() {
            let operands = call.operands.iter().skip(at);
            let values = operands.take_while(|it| it.may_be_value && it.word != word.as_bytes());
            at += values.count();
            match call.operands.get(at) {
                Some(operand) if operand.word == word.as_bytes() => at += 1,
                _ => return,
            }
        }
        let is_absent = |name: &str| !name.is_empty() && !call.has_option(name.as_bytes());
        if is_absent(runs.needs) || (!runs.option.is_empty() && runs.how == How::Argv) {
            return;
        }
        if runs.how != How::Until && is_absent(runs.option) {
            return;
        }
        let operands = call.operands.get(at..).unwrap_or_default();
        let is_end = |word: &Vec<u8>| !runs.ends.is_empty() && *word == runs.ends.as_bytes();
        let words = operands.iter().map(|operand| operand.word.clone());
        let words: Vec<Vec<u8>> = words.take_while(|word| !is_end(word)).collect();
        let mut around = around.clone();
        if !runs.chdir.is_empty() {
            let directories: Vec<_> = call.values(runs.chdir.as_bytes()).collect();
            directories.into_iter().for_each(|path| Rc::make_mut(&mut around.place).enter(path));
        }
        if runs.contained {
            Rc::make_mut(&mut around.place).is_contained = true;
        }
        let values = call.values(runs.option.as_bytes());
        let values = values.filter_map(|value| setting_of(value, runs.prefix.as_bytes()));
        let values: Vec<Vec<u8>> = values.map(<[u8]>::to_vec).collect();
        let replaced: Vec<Vec<u8>> = match runs.replaces.is_empty() {
            true => Vec::new(),
            false => call.values(runs.replaces.as_bytes()).map(<[u8]>::to_vec).collect(),
        };
        let reads_input = !runs.unless.is_empty() && is_absent(runs.unless);
        if !reads_input && matches!(around.input, Input::Paths(_)) {
            around.input = Input::Unknown;
        }
        match runs.how {
            How::Argv => {
                let is_unsure = operands.iter().take(runs.skip + 1).any(|it| it.may_be_value);
                let words: Vec<Vec<u8>> = words
                    .iter()
                    .flat_map(|word| match &around.input {
                        Input::Paths(roots) if replaced.contains(word) => found_below(b"{}", roots),
                        _ => vec![without_marks(word, &replaced)],
                    })
                    .collect();
                for skip in runs.skip..=runs.skip + usize::from(is_unsure) {
                    self.argv(runs, words.get(skip..).unwrap_or_default(), &around);
                }
            }
            How::Shell if !runs.option.is_empty() => {
                values.iter().for_each(|text| self.text(text, &around));
            }
            How::Shell => {
                if let Some(text) = words.get(runs.skip) {
                    self.text(text, &around);
                }
            }
            How::Joined => {
                let words = words.get(runs.skip..).unwrap_or_default();
                let words = words.strip_prefix(&[b"--".to_vec()][..]).unwrap_or(words);
                let mut text = words.join(&b' ');
                if !runs.ends.is_empty() && !text.is_empty() {
                    let has_mark = text.windows(2).any(|two| two == b"{}");
                    text = String::from_utf8_lossy(&text).replace("{}", "$X").into_bytes();
                    text.extend(if has_mark { &b""[..] } else { b" $X" });
                }
                if !text.is_empty() {
                    self.text(&text, &around);
                }
            }
            How::Rest => {
                let rest = operands.iter().filter(|it| it.is_last).map(|it| it.word.clone());
                let words: Vec<Vec<u8>> = values.into_iter().chain(rest).collect();
                self.text(&words.join(&b' '), &around);
            }
            How::Each => {
                let words = words.get(runs.skip..).unwrap_or_default().iter();
                let texts = words.filter_map(|word| word.strip_prefix(runs.prefix.as_bytes()));
                texts.for_each(|text| self.text(text, &around));
            }
            How::Same => {
                let rest = words.get(runs.skip..).unwrap_or_default();
                let again = [std::slice::from_ref(&call.tool), rest].concat();
                self.call(&again, &around);
            }
            How::Package => {
                let Some((package, rest)) = words.split_first() else { return };
                let name = package.rsplit(|byte| *byte == b'#').next().unwrap_or_default();
                let name = name.rsplit(|byte| *byte == b':').next().unwrap_or_default();
                self.call(&[&[name.to_vec()], rest].concat(), &around);
            }
            How::Setting if runs.option.is_empty() => {
                if let [name, value, ..] = words.as_slice() {
                    let setting = [name.as_slice(), b"=", value].concat();
                    self.setting(&setting, call, &around);
                }
            }
            How::Setting => {
                for setting in &values {
                    self.setting(setting, call, &around);
                    let at = setting.iter().position(|byte| *byte == b'=');
                    // The settings of a new repository hold for later calls.
                    if let (Some(at), false) = (at, runs.after.is_empty()) {
                        let (name, value) = setting.split_at(at);
                        let value = value.get(1..).unwrap_or_default();
                        self.alias(&[name.to_vec(), value.to_vec()], &call.tool, &around);
                    }
                }
            }
            How::Split => {
                for text in &values {
                    let mut again = vec![call.tool.clone()];
                    match self.words_of(text, &around) {
                        Some(split) => again.extend(split),
                        None => self.any_tool(),
                    }
                    again.extend(words.iter().cloned());
                    self.call(&again, &around);
                }
            }
            How::Until => self.until(runs, call, argv, &around),
            How::Module => {
                let rest = operands.iter().filter(|operand| operand.is_last);
                for module in &values {
                    let mut again = vec![module.clone()];
                    again.extend(rest.clone().map(|operand| operand.word.clone()));
                    self.call(&again, &around);
                }
            }
            How::Alias => self.alias(&words, &call.tool, &around),
        }
    }
}
