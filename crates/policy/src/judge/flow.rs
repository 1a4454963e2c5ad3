//! The ends of the output of a text's commands: tools that run it, and files.

use std::rc::Rc;

use super::glob::UNKNOWN;
use super::normal::NormalCall;
use super::place::is_stdin;
use super::script::{Simple, Sink};
use super::table::{base_name, find};

/// Returns whether a call reads its commands from the standard input.
pub(super) fn reads_stdin(call: &NormalCall) -> bool {
    let table = call.known.table;
    if table.always_reads {
        return true;
    }
    let code = [&b"-c"[..], b"-e", b"-m", b"-p"];
    table.reads_commands
        && !code.iter().any(|option| call.has_option(option))
        && (call.operands.is_empty()
            || (call.has_option(b"-s") && !table.reads_code)
            || call.operands.first().is_some_and(|operand| is_stdin(&operand.word)))
}

/// The files and pipes between the commands of a text.
pub(super) struct Flow {
    rows: Vec<Row>,
}

/// The ends of a command output.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// The tools that run it.
    pub(super) into: Vec<Vec<u8>>,
    /// The files of its redirections, and those of the commands that read it.
    pub(super) files: Vec<Vec<u8>>,
}

/// Maximum number of commands of a text whose files are followed.
const MAX_FLOW: usize = 256;

impl Flow {
    /// Follows the commands of a text. `calls_of` returns the call of words, and those that it runs.
    pub(super) fn of(
        commands: &[Simple],
        calls_of: impl Fn(&[Vec<u8>]) -> Vec<Rc<NormalCall>>,
    ) -> Self {
        let is_idle = |command: &Simple| {
            command.into.is_empty() && command.writes.is_empty() && !saves(command)
        };
        if commands.iter().all(is_idle) {
            return Flow { rows: Vec::new() };
        }
        let count = commands.len().min(MAX_FLOW);
        let calls: Vec<Vec<Rc<NormalCall>>> =
            commands.iter().take(count).map(|command| calls_of(&command.words)).collect();
        let calls_at = |at: usize| calls.get(at).map(Vec::as_slice).unwrap_or_default();
        let mut rows = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let mut into: Vec<Vec<u8>> = Vec::new();
            let mut files = files_of(command, calls_at(at));
            let mut written = command.writes.clone();
            for sink in &command.into {
                into.extend(takers(calls_at(sink.at), *sink));
                if let Some(reader) = commands.get(sink.at).filter(|_| !sink.is_word) {
                    let of_reader = files_of(reader, calls_at(sink.at));
                    written.extend(of_reader.iter().cloned());
                    files.extend(of_reader);
                }
            }
            for (later, command) in commands.iter().enumerate().take(count).skip(at + 1) {
                into.extend(runners(command, calls_at(later), &files));
            }
            rows.push(Row { into, files: written });
        }
        Flow { rows }
    }

    /// Returns the ends of a command output.
    pub(super) fn row(&self, at: usize) -> Row {
        self.rows.get(at).cloned().unwrap_or_default()
    }
}

/// Returns whether a command may write a file that its arguments name.
fn saves(command: &Simple) -> bool {
    command.words.iter().any(|word| {
        let table = find(base_name(word)).0.table;
        !table.saves_urls.is_empty() || table.writes_operands
    })
}

/// Returns the tools that run text that they receive.
fn takers(calls: &[Rc<NormalCall>], sink: Sink) -> Vec<Vec<u8>> {
    let takes = |call: &&Rc<NormalCall>| {
        let table = call.known.table;
        let has_unknown = |word: &[u8]| word.contains(&UNKNOWN);
        let first = call.operands.first().map(|operand| operand.word.as_slice());
        let is_reader = table.reads_commands || table.reads_files;
        match (is_reader, sink.is_word) {
            (false, _) => true,
            (true, false) => reads_stdin(call) || first.is_some_and(is_stdin),
            (true, true) => {
                let code = [&b"-c"[..], b"-e", b"-m", b"-p"];
                let mut values = code.iter().flat_map(|option| call.values(option));
                first.is_some_and(has_unknown) || values.any(has_unknown)
            }
        }
    };
    calls.iter().filter(takes).map(|call| call.tool.clone()).collect()
}

/// Returns the files that a command writes.
fn files_of(command: &Simple, calls: &[Rc<NormalCall>]) -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = command.writes.clone();
    for call in calls {
        let table = call.known.table;
        if table.writes_operands {
            let file = |word: &[u8]| word.strip_prefix(b"of=").unwrap_or(word).to_vec();
            files.extend(call.operands.iter().map(|operand| file(&operand.word)));
        }
        if !table.saves_urls.is_empty() {
            files.extend(call.paths().into_iter().map(<[u8]>::to_vec));
            files.extend(call.saved_urls().map(<[u8]>::to_vec));
        }
    }
    files
}

/// Returns the tools by which a command runs one of the files.
fn runners(command: &Simple, calls: &[Rc<NormalCall>], files: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let is_written = |word: &[u8]| {
        let name = base_name(word);
        !name.is_empty() && files.iter().any(|file| base_name(file) == name)
    };
    let mut tools = Vec::new();
    if files.is_empty() {
        return tools;
    }
    if command.words.first().is_some_and(|word| word.contains(&b'/') && is_written(word)) {
        tools.push(b"sh".to_vec());
    }
    for call in calls {
        let table = call.known.table;
        let has_code =
            [&b"-c"[..], b"-e", b"-m", b"-p"].iter().any(|option| call.has_option(option));
        let is_reader = (table.reads_commands || table.reads_files) && !has_code;
        let by_name = call.operands.first().is_some_and(|operand| is_written(&operand.word));
        let by_input = reads_stdin(call) && command.reads.iter().any(|file| is_written(file));
        if is_reader && (by_name || by_input) {
            tools.push(call.tool.clone());
        }
    }
    tools
}
