//! Ends of commands, pipelines and lists: reserved words, directories, and who reads the output.

use super::{Current, Input, Level, Reader, Simple, is_assignment, tool_of};

/// Reserved words that a command may follow.
const PREFIX: [&[u8]; 7] = [b"then", b"elif", b"else", b"do", b"!", b"time", b"coproc"];

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
        let current = std::mem::take(current);
        let mut words = current.words;
        while let Some(first) = words.first().map(Vec::as_slice) {
            if let Some((_, close)) = OPENING.iter().find(|(open, _)| *open == first) {
                let stages = std::mem::take(&mut level.stages);
                level.open.push((close, stages));
                level.stages = vec![self.script.commands.len()];
                let is_header = HEADERS.contains(&first);
                words.remove(0);
                if is_header {
                    words.clear();
                }
                continue;
            }
            let closes = level.open.last().is_some_and(|(close, _)| *close == first);
            if closes {
                self.end_pipeline(level);
                if let Some((_, stages)) = level.open.pop() {
                    level.stages = stages;
                }
                words.remove(0);
                continue;
            }
            if first == b"function" {
                words.drain(..words.len().min(2));
            } else if PREFIX.contains(&first) {
                words.remove(0);
            } else {
                break;
            }
        }
        let count = words.iter().take_while(|word| is_assignment(word)).count();
        let assignments: Vec<Vec<u8>> = words.drain(..count).collect();
        let at = self.script.commands.len();
        if words.is_empty() && assignments.is_empty() {
            return;
        }
        let tool = tool_of(&words).map(<[u8]>::to_vec);
        for range in current.inputs {
            let readers = self.script.commands.get_mut(range).unwrap_or_default();
            readers.iter_mut().for_each(|command| command.into.extend(tool.clone()));
        }
        let outputs = current.outputs.into_iter();
        let read_by: Vec<Vec<u8>> = outputs
            .flat_map(|range| self.script.commands.get(range).unwrap_or_default())
            .filter_map(|command| tool_of(&command.words).map(<[u8]>::to_vec))
            .collect();
        for heredoc in &mut self.heredocs {
            heredoc.command.get_or_insert(at);
        }
        let is_in_loop = !level.open.is_empty();
        let directories = self.place.directories.clone();
        self.change_directory(&words, is_in_loop);
        let input = current.input;
        let command = Simple { words, assignments, into: read_by, directories, input };
        self.script.commands.push(command);
    }

    /// Follows `cd`, whose success is certain only after `&&`.
    fn change_directory(&mut self, words: &[Vec<u8>], is_in_loop: bool) {
        let Some(tool) = words.first() else { return };
        if !matches!(tool.as_slice(), b"cd" | b"pushd" | b"popd") {
            return;
        }
        let mut operands = words.iter().skip(1).filter(|word| !word.starts_with(b"-"));
        let operand = operands.next().cloned().unwrap_or_default();
        let goes_up = operand.windows(2).any(|two| two == b"..");
        self.fallback.extend(self.place.directories.iter().cloned());
        let is_known = !operand.is_empty() && operands.next().is_none();
        match is_known && !(is_in_loop && goes_up) {
            true => self.place.enter(&operand),
            false => self.place.directories = vec![Vec::new()],
        }
    }

    /// Ends a chain of `&&`.
    pub(super) fn end_chain(&mut self) {
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
        let mut later: Vec<Vec<u8>> = Vec::new();
        for (at, (from, to)) in bounds.iter().copied().enumerate().rev() {
            let Some(commands) = self.script.commands.get_mut(from..to) else { continue };
            let tools: Vec<Vec<u8>> = commands
                .iter()
                .filter_map(|command| tool_of(&command.words).map(<[u8]>::to_vec))
                .collect();
            for command in commands.iter_mut() {
                command.into.extend(later.iter().cloned());
            }
            later.extend(tools);
            let before = at.checked_sub(1).and_then(|at| bounds.get(at));
            let Some((from_before, to_before)) = before.copied() else { continue };
            let written = match self.script.commands.get(from_before..to_before) {
                Some([only]) => written_by(only),
                _ => None,
            };
            let input = written.map_or(Input::Unknown, Input::Text);
            let commands = self.script.commands.get_mut(from..to).unwrap_or_default();
            for command in commands.iter_mut().filter(|it| it.input == Input::Inherited) {
                command.input = input.clone();
            }
        }
    }
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
            b'%' | 0..=2 => return None,
            byte => plain.push(byte),
        }
    }
    Some(plain)
}
