//! Splits shell text into simple commands, with the tools that read their output.
//!
//! Expansions become [`UNKNOWN`] bytes, two where they may be several words.

use std::ops::Range;
use std::rc::Rc;

use super::glob::{GLOB, PLAIN, UNKNOWN};
use super::place::Place;

mod brace;
mod expansion;
mod flow;
mod heredoc;
mod inline;
mod known;

use self::flow::is_reserved;
use self::heredoc::Heredoc;
use self::inline::{Definition, Shell};
use self::known::Known;

/// A simple command of a text.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Vec<u8>>,
    /// `NAME=VALUE` before the words.
    pub(super) assignments: Vec<Vec<u8>>,
    /// The commands that read its output.
    pub(super) into: Vec<Sink>,
    /// The files of its redirections.
    pub(super) writes: Vec<Vec<u8>>,
    pub(super) reads: Vec<Vec<u8>>,
    /// The possible working directories.
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) input: Input,
    /// True if the text that it runs is read: its commands follow.
    pub(super) is_read: bool,
    /// True if a redirection is about a file or a text.
    pub(super) is_redirected: bool,
}

/// A command that reads the output of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sink {
    /// Its index.
    pub(super) at: usize,
    /// True if the output is in its words, false if it is its standard input.
    pub(super) is_word: bool,
}

/// The standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Input {
    /// That of the whole text.
    #[default]
    Inherited,
    /// This text.
    Text(Rc<[u8]>),
    /// Paths below these directories.
    Paths(Vec<Vec<u8>>),
    /// A command output.
    Unknown,
}

/// The commands of a text.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    /// True if a part of the text has been left out.
    pub(super) is_unclear: bool,
}

impl Script {
    /// Parses a text. `variables` are those that calls around it set, each with its value if it has one.
    pub(super) fn parse(text: &[u8], place: &Place<'_>, variables: &[Vec<u8>]) -> Self {
        let read = |known| {
            let mut reader = Reader {
                text,
                at: 0,
                script: Script::default(),
                place: place.clone(),
                fallback: Vec::new(),
                heredocs: Vec::new(),
                depth: 0,
                known,
                shell: Shell::default(),
            };
            reader.list(None);
            reader.end_shell();
            reader
        };
        let reader = read(Known::of_text(text, variables));
        // The first reading finds the functions that hide commands from the second one.
        match reader.shell.names().filter(|_| reader.known.defines_commands()) {
            Some(names) => read(Known::of_text(text, variables).with_functions(names)).script,
            None => reader.script,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    script: Script,
    /// The directories of the next command.
    place: Place<'a>,
    /// Directories that hold if a `cd` of this list has failed.
    fallback: Vec<Vec<u8>>,
    heredocs: Vec<Heredoc>,
    depth: usize,
    known: Known,
    shell: Shell,
}

/// The command that is being read.
#[derive(Default)]
struct Current {
    words: Vec<Vec<u8>>,
    word: Option<Vec<u8>>,
    redirection: Redirection,
    /// The commands of its substitutions, which it reads; true if as its standard input.
    inputs: Vec<(Range<usize>, bool)>,
    /// The commands that read its output.
    outputs: Vec<Range<usize>>,
    input: Input,
    writes: Vec<Vec<u8>>,
    reads: Vec<Vec<u8>>,
    /// True if a word before was quoted, so that it is no reserved word.
    is_quoted: bool,
    /// True if a part of the word is quoted.
    is_word_quoted: bool,
}

/// The meaning of the next word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Redirection {
    #[default]
    None,
    /// A file that is written.
    Output,
    /// A descriptor, as in `2>&1`, or a file that is written.
    Descriptor,
    /// A file that is read.
    Input,
    Text,
    Heredoc {
        strips_tabs: bool,
    },
}

/// Compound commands that are open, and the stages of the current pipeline.
#[derive(Default)]
struct Level {
    /// The index of the pipeline's first command, and of each later stage.
    stages: Vec<usize>,
    /// The stages around each open compound command, with its closing word.
    open: Vec<(&'static [u8], Vec<usize>)>,
    /// The index of the first command of each open compound command.
    starts: Vec<usize>,
    /// The commands of the compound command before, which the next redirections are for.
    closed: Option<Range<usize>>,
    /// The functions whose bodies are being read.
    definitions: Vec<Definition>,
}

/// Maximum nesting of substitutions and subshells.
const MAX_DEPTH: usize = 32;
/// Maximum number of commands of a text.
const MAX_COMMANDS: usize = 4096;
/// An unquoted `{`, until the word has ended.
const BRACE: u8 = 2;
/// Stands for the variable of a loop in a word, with its index in the next byte, until the command has ended.
const LOOP: u8 = 4;
/// The bytes with a meaning of their own; a text that contains one of them is not read.
pub(super) const RESERVED: [u8; 5] = [UNKNOWN, GLOB, BRACE, PLAIN, LOOP];

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn next_if(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn starts_with(&self, text: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(text))
    }

    /// Reads a list up to the end of the text, or of a substitution.
    fn list(&mut self, end: Option<u8>) {
        let start = self.script.commands.len();
        let mut level = Level { stages: vec![start], ..Level::default() };
        let mut current = Current::default();
        while let Some(byte) = self.next() {
            if Some(byte) == end && (byte != b')' || !level.is_in_case()) {
                break;
            }
            if self.script.commands.len() > MAX_COMMANDS {
                self.script.is_unclear = true;
                break;
            }
            let is_test = current.words.first().is_some_and(|word| word == b"[[")
                && current.words.last().is_none_or(|word| word != b"]]")
                && current.word.as_ref().is_none_or(|word| word != b"]]");
            match byte {
                b' ' | b'\t' => {
                    self.end_word(&mut current);
                    if let [before @ .., keyword, _] = current.words.as_slice()
                        && keyword == b"function"
                        && before.iter().all(|word| is_reserved(word))
                        && !current.is_quoted
                    {
                        self.begin_function(&mut current, &mut level, false);
                    }
                }
                b'\n' => {
                    self.end_command(&mut current, &mut level);
                    self.end_pipeline(&mut level);
                    self.end_chain();
                    self.known.is_sure = true;
                    self.read_heredocs();
                }
                b'&' | b'|' | b'(' | b')' | b'<' | b'>' if is_test => self.end_word(&mut current),
                b';' | b'&' | b'|' => self.operator(byte, &mut current, &mut level),
                b')' if level.is_in_case() => {
                    // A pattern.
                    current = Current::default();
                }
                b')' => self.end_command(&mut current, &mut level),
                b'(' => self.parenthesis(&mut current, &mut level),
                b'<' | b'>' => self.redirection(byte, &mut current),
                b'#' if current.word.is_none() => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                byte => self.word_byte(byte, end, &mut current),
            }
        }
        self.end_command(&mut current, &mut level);
        while let Some((_, stages)) = level.open.pop() {
            self.end_pipeline(&mut level);
            level.stages = stages;
        }
        self.end_pipeline(&mut level);
        self.end_chain();
        self.read_heredocs();
    }

    fn operator(&mut self, byte: u8, current: &mut Current, level: &mut Level) {
        // `&>file`
        if byte == b'&' && self.peek() == Some(b'>') {
            self.end_word(current);
            return;
        }
        self.end_command(current, level);
        if byte == b'|' && !self.next_if(b'|') {
            self.next_if(b'&');
            level.stages.push(self.script.commands.len());
            self.known.is_sure = false;
            self.known.forget_last();
            return;
        }
        let is_and = byte == b'&' && self.next_if(b'&');
        if byte == b'&' && !is_and {
            self.known.forget_last();
        }
        while byte == b';' && (self.next_if(b';') || self.next_if(b'&')) {}
        self.end_pipeline(level);
        if !is_and {
            self.end_chain();
        }
        self.known.is_sure = byte != b'|';
        self.known.is_chained = is_and;
    }

    /// Reads a subshell, an arithmetic command or the parentheses of a function.
    fn parenthesis(&mut self, current: &mut Current, level: &mut Level) {
        self.end_word(current);
        if self.next_if(b'(') {
            self.arithmetic();
            return;
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_name = |(_, before): (_, &[Vec<u8>])| before.iter().all(|word| is_reserved(word));
        let is_definition = current.words.split_last().is_none_or(is_name);
        if is_definition && rest.get(blank) == Some(&b')') {
            self.at += blank + 1;
            return self.begin_function(current, level, true);
        }
        self.shell.is_vague |= rest.get(blank) == Some(&b')');
        self.end_command(current, level);
        let commands = self.isolated(b')');
        level.close(commands);
    }

    /// Reads a nested list and returns its commands.
    fn nested(&mut self, end: u8) -> Range<usize> {
        let start = self.script.commands.len();
        if self.depth >= MAX_DEPTH {
            self.script.is_unclear = true;
            self.at = self.text.len();
            return start..start;
        }
        self.depth += 1;
        let heredocs = std::mem::take(&mut self.heredocs);
        let chain = self.known.begin_nested();
        self.list(Some(end));
        self.known.end_nested(chain);
        self.heredocs = heredocs;
        self.depth -= 1;
        start..self.script.commands.len()
    }

    fn redirection(&mut self, byte: u8, current: &mut Current) {
        let is_descriptor =
            current.word.as_ref().is_some_and(|word| word.iter().all(u8::is_ascii_digit));
        if is_descriptor {
            current.word = None;
        }
        self.end_word(current);
        if self.next_if(b'(') {
            let is_stdin = current.redirection == Redirection::Input;
            let inner = self.isolated(b')');
            if byte == b'<' {
                current.inputs.push((inner, is_stdin));
            } else {
                current.outputs.push(inner);
            }
            current.word.get_or_insert_default().extend(b"/dev/fd/\0");
            return;
        }
        current.redirection = match (byte, self.peek()) {
            (b'<', _) => Redirection::Input,
            (_, Some(b'&')) => Redirection::Descriptor,
            _ => Redirection::Output,
        };
        if byte == b'<' && self.next_if(b'<') {
            current.redirection = match self.next_if(b'<') {
                true => Redirection::Text,
                false => Redirection::Heredoc { strips_tabs: self.next_if(b'-') },
            };
        }
        while self.peek().is_some_and(|byte| matches!(byte, b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
    }

    /// Reads a nested list whose `cd` does not hold after it.
    fn isolated(&mut self, end: u8) -> Range<usize> {
        let saved = (self.place.directories.clone(), std::mem::take(&mut self.fallback));
        let range = self.nested(end);
        (self.place.directories, self.fallback) = saved;
        range
    }

    fn end_word(&mut self, current: &mut Current) {
        let Some(word) = current.word.take() else { return };
        let is_quoted = std::mem::take(&mut current.is_word_quoted);
        let mut words = brace::expand(word, is_quoted);
        let redirection = std::mem::take(&mut current.redirection);
        if redirection == Redirection::None {
            return current.words.append(&mut words);
        }
        let word = words.pop().unwrap_or_default();
        match redirection {
            Redirection::None => {}
            Redirection::Descriptor if word.iter().all(|it| it.is_ascii_digit() || *it == b'-') => {
            }
            Redirection::Output | Redirection::Descriptor => current.writes.push(word),
            Redirection::Input => current.reads.push(word),
            Redirection::Text => current.input = Input::Text(word.into()),
            Redirection::Heredoc { strips_tabs } => self.heredocs.push(Heredoc {
                delimiter: word,
                strips_tabs,
                is_quoted: std::mem::take(&mut current.is_quoted),
                commands: None,
            }),
        }
    }
}
