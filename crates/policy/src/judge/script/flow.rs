//! Ends of commands, pipelines and lists: reserved words, directories, and who reads the output.

use std::ops::Range;

use super::inline::unwrapped;
use super::{Current, Input, LOOP, Level, Reader, Simple, Sink, UNKNOWN};
use crate::judge::assignment::is_assignment;
use crate::judge::printed::{Printed, printed, prints_environment, selects_lines};

/// Reserved words that a command may follow.
const PREFIX: [&[u8]; 5] = [b"then", b"elif", b"else", b"do", b"!"];

/// Reserved words that open a compound command, with the word that closes it.
const OPENING: [(&[u8], &[u8]); 7] = [
    (b"{", b"}"),
    (b"if", b"fi"),
    (b"while", b"done"),
    (b"until", b"done"),
    (b"for", b"done"),
    (b"select", b"done"),
    (b"case", b"esac"),
];

/// Compound commands that begin with words that are no command.
const HEADERS: [&[u8]; 3] = [b"for", b"select", b"case"];

impl Level {
    pub(super) fn is_in_case(&self) -> bool {
        self.open.last().is_some_and(|(close, _)| *close == b"esac")
    }
}

impl Reader<'_> {
    pub(super) fn end_command(&mut self, current: &mut Current, level: &mut Level) {
        self.end_word(current);
        self.command(std::mem::take(current), level);
        self.end_functions(level);
    }

    fn command(&mut self, mut current: Current, level: &mut Level) {
        let mut words = std::mem::take(&mut current.words);
        while let Some(first) = words.first().map(Vec::as_slice) {
            if let Some((_, close)) = OPENING.iter().find(|(open, _)| *open == first) {
                let stages = std::mem::take(&mut level.stages);
                level.open.push((close, stages));
                level.starts.push(self.script.commands.len());
                level.stages = vec![self.script.commands.len()];
                let is_header = HEADERS.contains(&first);
                let is_for = first == b"for";
                words.remove(0);
                if *close == b"done" {
                    self.known.enter_loop(if is_for { &words } else { &[] });
                }
                if is_header {
                    words.clear();
                }
                continue;
            }
            let closes = level.open.last().is_some_and(|(close, _)| *close == first);
            if closes {
                self.end_pipeline(level);
                if let Some((close, stages)) = level.open.pop() {
                    level.stages = stages;
                    if close == b"done" {
                        self.known.leave_loop();
                    }
                }
                let start = level.starts.pop().unwrap_or_default();
                level.close(start..self.script.commands.len());
                words.remove(0);
                continue;
            }
            if first == b"function" {
                current.words = words.drain(..words.len().min(2)).skip(1).collect();
                self.begin_function(&mut current, level, false);
            } else if first == b"time" {
                words.remove(0);
                let options = words.iter().take_while(|word| word.starts_with(b"-")).count();
                words.drain(..options);
            } else if first == b"coproc" {
                let is_named = words.get(2).is_some_and(|word| is_opening(word));
                words.drain(..1 + usize::from(is_named));
            } else if PREFIX.contains(&first) {
                words.remove(0);
            } else {
                break;
            }
        }
        let count = words.iter().take_while(|word| is_assignment(word)).count();
        let assignments: Vec<Vec<u8>> = words.drain(..count).collect();
        let at = self.script.commands.len();
        let closed = level.closed.take();
        if words.is_empty() && assignments.is_empty() {
            if let Some(commands) = closed {
                self.redirect(commands.clone(), &current);
                level.closed = Some(commands);
            }
            return;
        }
        self.end_simple_function(level);
        self.assign(&words, &assignments, level);
        if self.sets_environment(&words, &current.inputs) {
            return;
        }
        for (range, is_stdin) in std::mem::take(&mut current.inputs) {
            let readers = self.script.commands.get_mut(range).unwrap_or_default();
            let sink = Sink { at, is_word: !is_stdin };
            readers.iter_mut().for_each(|command| command.into.push(sink));
        }
        let is_in_loop = !level.open.is_empty() || self.is_looped();
        let directories = self.place.directories.clone();
        let (inner, text) = unwrapped(&words);
        self.change_directory(&inner, is_in_loop);
        if self.place.directories != directories {
            self.run_traps();
        }
        let is_read = text.is_some();
        let command = Simple { words, assignments, directories, is_read, ..Simple::default() };
        let mut commands = self.of_each_value(command);
        self.script.commands.append(&mut commands);
        self.run_here(&inner, text.as_deref(), is_in_loop);
        self.redirect(at..self.script.commands.len(), &current);
    }

    /// Follows assignments that hold for later commands.
    fn assign(&mut self, words: &[Vec<u8>], assignments: &[Vec<u8>], level: &Level) {
        let assignments = match words.split_first() {
            None => assignments,
            Some((first, rest)) if first == b"export" => rest,
            Some(_) => &[],
        };
        self.known.note(assignments);
        let is_certain = self.depth == 0 && level.open.is_empty();
        self.known.assign(if is_certain { assignments } else { &[] });
    }

    /// Matches `eval "$(TOOL init)"`, where the tool prints settings for this use.
    fn sets_environment(&self, words: &[Vec<u8>], inputs: &[(Range<usize>, bool)]) -> bool {
        let [tool, argument] = words else { return false };
        let [(range, false)] = inputs else { return false };
        let is_evaluated = matches!(tool.as_slice(), b"eval" | b"source" | b".");
        let output = argument.strip_prefix(b"/dev/fd/").unwrap_or(argument);
        let is_whole = !output.is_empty() && output.iter().all(|byte| *byte == UNKNOWN);
        let commands = self.script.commands.get(range.clone()).unwrap_or_default();
        let [command] = commands else { return false };
        is_evaluated && is_whole && prints_environment(&command.words)
    }

    /// Returns a command for each value of a loop's variable.
    fn of_each_value(&self, command: Simple) -> Vec<Simple> {
        let words = || command.words.iter().chain(&command.writes).chain(&command.assignments);
        let mut indices = words().flat_map(|word| {
            word.windows(2).filter(|two| two.first() == Some(&LOOP)).filter_map(|two| two.get(1))
        });
        let Some(index) = indices.next().copied() else { return vec![command] };
        let is_one = indices.all(|other| *other == index);
        let values = self.known.loops.get(usize::from(index)).filter(|_| is_one);
        let unknown = [vec![UNKNOWN, UNKNOWN]];
        let values = values.map_or(&unknown[..], Vec::as_slice);
        let with = |value: &Vec<u8>| {
            let fill =
                |words: &Vec<Vec<u8>>| words.iter().map(|word| filled(word, value)).collect();
            Simple {
                words: fill(&command.words),
                assignments: fill(&command.assignments),
                writes: fill(&command.writes),
                reads: command.reads.clone(),
                into: command.into.clone(),
                directories: command.directories.clone(),
                input: command.input.clone(),
                is_read: command.is_read,
                is_redirected: command.is_redirected,
            }
        };
        values.iter().map(with).collect()
    }

    /// Follows `cd`, whose success is certain only after `&&`.
    fn change_directory(&mut self, words: &[Vec<u8>], is_in_loop: bool) {
        let Some(tool) = words.first() else { return };
        if !matches!(tool.as_slice(), b"cd" | b"chdir" | b"pushd" | b"popd") {
            return;
        }
        if self.known.has_cdpath {
            self.place.directories = vec![Vec::new()];
            return;
        }
        let mut operands = words.iter().skip(1).filter(|word| !word.starts_with(b"-"));
        let operand = operands.next().cloned().unwrap_or_default();
        let goes_up = operand.windows(2).any(|two| two == b"..");
        self.fallback.extend(self.place.directories.iter().cloned());
        let is_known = !operand.is_empty() && !operand.contains(&LOOP) && operands.next().is_none();
        match is_known && !(is_in_loop && goes_up) {
            true => self.place.enter(&operand),
            false => self.place.directories = vec![Vec::new()],
        }
    }

    /// Ends a chain of `&&`.
    pub(super) fn end_chain(&mut self) {
        self.known.end_chain();
        for directory in std::mem::take(&mut self.fallback) {
            if !self.place.directories.contains(&directory) {
                self.place.directories.push(directory);
            }
        }
        // More alternatives than a text has reasons for.
        if self.place.directories.len() > 16 {
            self.place.directories = vec![Vec::new()];
        }
    }

    /// Records for each command of a pipeline the tools of its later stages.
    pub(super) fn end_pipeline(&mut self, level: &mut Level) {
        let end = self.script.commands.len();
        let stages = std::mem::replace(&mut level.stages, vec![end]);
        let bounds: Vec<_> =
            stages.iter().copied().zip(stages.iter().copied().skip(1).chain([end])).collect();
        let mut inputs: Vec<Input> = Vec::new();
        for (from, to) in &bounds {
            let printed = match self.script.commands.get(*from..*to) {
                Some([only]) => self.printed_by(only, inputs.last()),
                _ => Input::Unknown,
            };
            inputs.push(printed);
        }
        let mut later: Vec<Sink> = Vec::new();
        for (at, (from, to)) in bounds.iter().copied().enumerate().rev() {
            let Some(commands) = self.script.commands.get_mut(from..to) else { continue };
            for command in commands.iter_mut() {
                command.into.extend(later.iter().copied());
            }
            later.extend((from..to).map(|at| Sink { at, is_word: false }));
            let Some(input) = at.checked_sub(1).and_then(|at| inputs.get(at)) else { continue };
            let commands = self.script.commands.get_mut(from..to).unwrap_or_default();
            for command in commands.iter_mut().filter(|it| it.input == Input::Inherited) {
                command.input = match input {
                    Input::Paths(_) if !command.reads.is_empty() => Input::Unknown,
                    input => input.clone(),
                };
            }
        }
    }

    /// Returns the output of a stage of a pipeline, as the input of the next one.
    fn printed_by(&self, command: &Simple, input: Option<&Input>) -> Input {
        if let Some(text) = written_by(command) {
            return Input::Text(text.into());
        }
        let is_changed = !command.assignments.is_empty() || !command.reads.is_empty();
        if is_changed || self.known.may_define(&command.words) || command.input != Input::Inherited
        {
            return Input::Unknown;
        }
        match (printed(&command.words), input) {
            (Some(Printed::Below(roots)), _) => Input::Paths(roots),
            (_, Some(Input::Paths(roots))) if selects_lines(&command.words) => {
                Input::Paths(roots.clone())
            }
            _ => Input::Unknown,
        }
    }
}

/// Returns whether a command may follow this word.
pub(super) fn is_reserved(word: &[u8]) -> bool {
    PREFIX.contains(&word) || (is_opening(word) && !HEADERS.contains(&word)) || word == b"function"
}

fn is_opening(word: &[u8]) -> bool {
    word == b"(" || OPENING.iter().any(|(open, _)| *open == word)
}

/// Replaces the variable of a loop by a value.
fn filled(word: &[u8], value: &[u8]) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut bytes = word.iter();
    while let Some(byte) = bytes.next() {
        if *byte == LOOP {
            bytes.next();
            filled.extend_from_slice(value);
        } else {
            filled.push(*byte);
        }
    }
    filled
}

/// Returns the output of `echo` or `printf` with plain arguments.
fn written_by(command: &Simple) -> Option<Vec<u8>> {
    let (tool, args) = command.words.split_first()?;
    let args: &[Vec<u8>] = match (tool.as_slice(), args) {
        (b"echo", [option, rest @ ..]) if option.starts_with(b"-") => rest,
        (b"echo" | b"printf", args) => args,
        _ => return None,
    };
    let text = args.join(&b' ');
    let mut plain = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.next() != Some(b'n') => return None,
            b'\\' => plain.push(b'\n'),
            b'%' | 0..=4 => return None,
            byte => plain.push(byte),
        }
    }
    Some(plain)
}
