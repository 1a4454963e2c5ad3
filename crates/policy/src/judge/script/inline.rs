//! Texts that run in the shell itself: functions, `eval`, and the actions of `trap`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::{Current, Input, Level, MAX_DEPTH, RESERVED, Reader, Sink};
use crate::judge::assignment::is_assignment;
use crate::judge::glob::{PLAIN, UNKNOWN};
use crate::judge::normal::NormalCall;
use crate::judge::place::is_stdin;
use crate::judge::table::{How, find};

/// The functions and traps of a text.
#[derive(Debug, Default)]
pub(super) struct Shell {
    functions: BTreeMap<Vec<u8>, Function>,
    /// The texts that run at any time later.
    traps: Vec<Vec<u8>>,
    /// The functions that are being read.
    active: Vec<Vec<u8>>,
    /// The bytes of the texts read, and their cost.
    read: usize,
    /// True in a loop.
    is_looped: bool,
    /// True if a function may have another name.
    pub(super) is_vague: bool,
}

/// A function, or an alias.
#[derive(Debug, Default)]
struct Function {
    /// The bodies of its definitions.
    bodies: Vec<Vec<u8>>,
    is_called: bool,
}

/// A function whose body is being read, at the level of its definition.
#[derive(Debug)]
pub(super) struct Definition {
    name: Vec<u8>,
    /// The offset of the body.
    start: usize,
    /// The compound commands that are open around it.
    open: usize,
    /// The commands before it.
    commands: usize,
    directories: Vec<Vec<u8>>,
    fallback: Vec<Vec<u8>>,
    /// False if a shell may run the body here: only some have the word `function`.
    is_sure: bool,
    is_closed: bool,
}

/// Maximum bytes of the texts that are read at the place where they run.
const MAX_READ: usize = 256 << 10;
/// The cost of a text besides its bytes.
const TEXT_COST: usize = 128;

impl Shell {
    /// Returns the names of all functions, if they are known.
    pub(super) fn names(&self) -> Option<Rc<[Vec<u8>]>> {
        (!self.is_vague).then(|| self.functions.keys().cloned().collect())
    }
}

impl Level {
    /// Notes that a compound command has ended, which may be the body of a function.
    pub(super) fn close(&mut self, commands: Range<usize>) {
        let open = self.open.len();
        let ended = self.definitions.iter_mut().filter(|it| it.open >= open);
        ended.for_each(|definition| definition.is_closed = true);
        self.closed = Some(commands);
    }
}

impl Current {
    /// Returns the commands that read its output.
    fn sinks(&self) -> Vec<Sink> {
        let outputs = self.outputs.iter().cloned().flatten();
        outputs.map(|at| Sink { at, is_word: false }).collect()
    }
}

impl Reader<'_> {
    /// Begins the definition of a function, whose name is the last word so far.
    pub(super) fn begin_function(
        &mut self,
        current: &mut Current,
        level: &mut Level,
        is_sure: bool,
    ) {
        let Some(name) = current.words.pop() else {
            // `function NAME ()`
            if let Some(definition) = level.definitions.last_mut() {
                (definition.is_sure, definition.start) = (is_sure, self.at);
            }
            return;
        };
        current.words.retain(|word| word != b"function");
        self.end_command(current, level);
        level.definitions.push(Definition {
            name,
            start: self.at,
            open: level.open.len(),
            commands: self.script.commands.len(),
            directories: self.place.directories.clone(),
            fallback: self.fallback.clone(),
            is_sure,
            is_closed: false,
        });
    }

    /// Ends the definitions whose bodies have ended. A body is read where the function is called.
    pub(super) fn end_functions(&mut self, level: &mut Level) {
        while let Some(definition) = level.definitions.pop_if(|it| it.is_closed) {
            let body = self.text.get(definition.start..self.at).unwrap_or_default().to_vec();
            let function = self.shell.functions.entry(definition.name).or_default();
            if !function.bodies.contains(&body) {
                function.bodies.push(body);
            }
            if !definition.is_sure {
                self.fallback.extend(definition.directories);
                continue;
            }
            self.script.commands.truncate(definition.commands);
            level.closed = None;
            self.place.directories = definition.directories;
            self.fallback = definition.fallback;
            for heredoc in &mut self.heredocs {
                let command = heredoc.commands.as_ref().map_or(0, |range| range.start);
                if command >= definition.commands {
                    // Its text is after the body.
                    self.script.is_unclear = true;
                    heredoc.commands = Some(0..0);
                }
            }
        }
    }

    /// Ends a definition without a compound command, which is one only in some shells.
    pub(super) fn end_simple_function(&mut self, level: &mut Level) {
        let open = level.open.len();
        if let Some(definition) = level.definitions.last_mut().filter(|it| it.open == open) {
            (definition.is_sure, definition.is_closed) = (false, true);
        }
    }

    /// Reads the functions that no command calls by name.
    pub(super) fn end_shell(&mut self) {
        while let Some((name, _)) = self.shell.functions.iter().find(|(_, it)| !it.is_called) {
            self.call_function(&name.clone());
        }
    }

    /// Reads the text that a command runs in the shell itself. `words` are those of [`unwrapped`].
    pub(super) fn run_here(&mut self, words: &[Vec<u8>], text: Option<&[u8]>, is_in_loop: bool) {
        let was_looped = self.shell.is_looped;
        self.shell.is_looped |= is_in_loop;
        let Some((tool, args)) = words.split_first() else { return };
        match text {
            Some(text) if tool == b"trap" => {
                let before = self.place.directories.clone();
                self.read_here(text);
                let ends = |word: &Vec<u8>| matches!(word.as_slice(), b"EXIT" | b"0" | b"--");
                if args.iter().all(|word| word == text || ends(word)) {
                    self.place.directories = before;
                }
                if !self.shell.traps.iter().any(|trap| trap == text) {
                    self.shell.traps.push(text.to_vec());
                }
            }
            Some(text) => self.read_here(text),
            // Its text is known only for each value of a loop.
            None if tool == b"eval" => self.place.directories = vec![Vec::new()],
            None if matches!(tool.as_slice(), b"source" | b".")
                && args.first().is_some_and(|file| is_stdin(file) || file.contains(&UNKNOWN)) =>
            {
                self.place.directories = vec![Vec::new()];
            }
            None if tool == b"alias" => {
                for word in args.iter().filter(|word| is_assignment(word) && is_known(word)) {
                    let at = word.iter().position(|byte| *byte == b'=').unwrap_or_default();
                    let (name, body) = word.split_at(at);
                    let function = self.shell.functions.entry(name.to_vec()).or_default();
                    function.bodies.push(body.get(1..).unwrap_or_default().to_vec());
                    // The table of `alias` has read it.
                    function.is_called = true;
                }
            }
            None => self.call_function(tool),
        }
        self.shell.is_looped = was_looped;
    }

    /// Reads the texts of traps in another directory.
    pub(super) fn run_traps(&mut self) {
        for trap in self.shell.traps.clone() {
            let before = self.place.directories.clone();
            self.read_here(&trap);
            self.place.directories = before;
        }
    }

    pub(super) fn is_looped(&self) -> bool {
        self.shell.is_looped
    }

    fn call_function(&mut self, name: &[u8]) {
        let Some(function) = self.shell.functions.get_mut(name) else { return };
        function.is_called = true;
        if self.shell.active.iter().any(|active| active == name) {
            return;
        }
        let bodies = function.bodies.clone();
        self.shell.active.push(name.to_vec());
        bodies.iter().for_each(|body| self.read_here(body));
        self.shell.active.pop();
    }

    fn read_here(&mut self, text: &[u8]) {
        self.shell.read += text.len() + TEXT_COST;
        if self.depth >= MAX_DEPTH || self.shell.read > MAX_READ {
            self.script.is_unclear = true;
            return;
        }
        let known = self.known.enter(text);
        let mut reader = Reader {
            text,
            at: 0,
            script: std::mem::take(&mut self.script),
            place: self.place.clone(),
            fallback: Vec::new(),
            heredocs: Vec::new(),
            depth: self.depth + 1,
            known,
            shell: std::mem::take(&mut self.shell),
        };
        reader.list(None);
        let Reader { script, place, shell, .. } = reader;
        (self.script, self.shell) = (script, shell);
        self.place.directories = place.directories;
    }

    /// Adds the redirections around commands to them.
    pub(super) fn redirect(&mut self, range: Range<usize>, current: &Current) {
        let outputs = current.sinks();
        let mut files = current.writes.iter().chain(&current.reads);
        let is_redirected = files.any(|file| file != b"/dev/null")
            || current.input != Input::Inherited
            || self.heredocs.iter().any(|heredoc| heredoc.commands.is_none());
        for command in self.script.commands.get_mut(range.clone()).unwrap_or_default() {
            if command.input == Input::Inherited {
                command.input = current.input.clone();
            }
            command.writes.extend(current.writes.iter().cloned());
            command.reads.extend(current.reads.iter().cloned());
            command.into.extend(&outputs);
            command.is_redirected |= is_redirected;
        }
        for heredoc in &mut self.heredocs {
            heredoc.commands.get_or_insert(range.clone());
        }
    }
}

fn is_known(text: &[u8]) -> bool {
    !text.iter().any(|byte| RESERVED.contains(byte))
}

/// Returns a command without the words that run the rest in the same shell, such as `command`, and its text if
/// it runs one.
pub(super) fn unwrapped(words: &[Vec<u8>]) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let mut words = words.to_vec();
    while let Some(table) = words.first().map(|tool| find(tool).0.table)
        && table.in_shell
        && let (Some(runs), Some(call)) = (table.runs.first(), NormalCall::parse(&words))
    {
        let operands: Vec<Vec<u8>> = call.operands.into_iter().map(|it| it.word).collect();
        let text = match runs.how {
            How::Argv => {
                words = operands;
                continue;
            }
            How::Shell => operands.first().cloned().unwrap_or_default(),
            _ => operands.join(&b' '),
        };
        let text = text.split(|byte| *byte == PLAIN).collect::<Vec<_>>().join(&b"$$"[..]);
        return (words, Some(text).filter(|text| is_known(text)));
    }
    (words, None)
}
