//! Takes a call apart: the call itself, and the calls that it starts.

use super::glob::{GLOB, UNKNOWN, is_unknown};
use super::normal::{NormalCall, base_name, is_splitting};
use super::place::Place;
use super::script::{Input, Script, is_assignment};
use super::table::{How, Runs};

/// A call in normal form, with its surroundings.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) call: NormalCall,
    pub(super) place: Place<'a>,
    /// The tools that read its output.
    pub(super) into: Vec<Vec<u8>>,
}

/// All calls of one call.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) list: Vec<Part<'a>>,
    /// The tools of calls that cannot be taken apart; an empty one is any tool.
    pub(super) unclear: Vec<Vec<u8>>,
    variables: Vec<Vec<u8>>,
    depth: usize,
    /// The bytes of all texts that may still be read.
    budget: usize,
}

/// The surroundings of a call.
#[derive(Clone, Debug)]
struct Around<'a> {
    place: Place<'a>,
    into: Vec<Vec<u8>>,
    input: Input,
}

/// Maximum nesting of calls.
const MAX_DEPTH: usize = 12;
/// Maximum number of calls in a call.
const MAX_PARTS: usize = 4096;
/// Maximum bytes of all texts in a call.
const MAX_BYTES: usize = 1 << 20;

impl<'a> Parts<'a> {
    pub(super) fn of_call(argv: &[Vec<u8>], place: Place<'a>) -> Self {
        let mut parts = Parts { budget: MAX_BYTES, ..Parts::default() };
        let around = Around { place, into: Vec::new(), input: Input::Inherited };
        parts.call(argv, &around);
        parts
    }

    pub(super) fn of_text(text: &[u8], place: Place<'a>) -> Self {
        let mut parts = Parts { budget: MAX_BYTES, ..Parts::default() };
        let around = Around { place, into: Vec::new(), input: Input::Inherited };
        parts.text(text, &around);
        parts
    }

    fn any_tool(&mut self) {
        self.unclear.push(Vec::new());
    }

    /// Reads shell text.
    fn text(&mut self, text: &[u8], around: &Around<'a>) {
        // The text itself depends on an expansion.
        let is_known = !text.contains(&UNKNOWN) && !text.contains(&GLOB);
        if !is_known || self.depth >= MAX_DEPTH || text.len() > self.budget {
            return self.any_tool();
        }
        self.budget -= text.len();
        self.depth += 1;
        let script = Script::parse(text, &around.place);
        if script.is_unclear {
            self.any_tool();
        }
        for command in script.commands {
            self.variables.extend(command.assignments);
            if let Some(tool) = command.words.first()
                && matches!(tool.as_slice(), b"export" | b"declare" | b"typeset" | b"readonly")
            {
                let words = command.words.iter().filter(|word| is_assignment(word));
                self.variables.extend(words.cloned());
            }
            let around = Around {
                place: Place { directories: command.directories, ..around.place.clone() },
                into: [command.into, around.into.clone()].concat(),
                input: match command.input {
                    Input::Inherited => around.input.clone(),
                    input => input,
                },
            };
            if !command.words.is_empty() {
                self.call(&command.words, &around);
            }
        }
        self.depth -= 1;
    }

    fn call(&mut self, argv: &[Vec<u8>], around: &Around<'a>) {
        let Some(first) = argv.first() else { return };
        let is_known = |byte: &u8| !is_unknown(*byte);
        if is_splitting(first) || !base_name(first).iter().all(is_known) {
            return self.any_tool();
        }
        if self.depth >= MAX_DEPTH || self.list.len() >= MAX_PARTS {
            return self.any_tool();
        }
        let Some(call) = NormalCall::parse(argv) else { return };
        self.depth += 1;
        let part =
            Part { call: call.clone(), place: around.place.clone(), into: around.into.clone() };
        self.list.push(part);
        self.aliases(&call, argv, around);
        for runs in &call.known.table.runs {
            self.runs(runs, &call, argv, around);
        }
        let reads = call.known.table.reads_commands
            && !call.has_option(b"-c")
            && (call.operands.is_empty() || call.has_option(b"-s"));
        if reads {
            match &around.input {
                Input::Inherited => {}
                Input::Unknown => self.any_tool(),
                Input::Text(text) => {
                    let around = Around { input: Input::Unknown, ..around.clone() };
                    self.text(&text.clone(), &around);
                }
            }
        }
        self.depth -= 1;
    }

    /// Follows an alias that the call itself defines.
    fn aliases(&mut self, call: &NormalCall, argv: &[Vec<u8>], around: &Around<'a>) {
        let table = call.known.table;
        let Some(command) = call.operands.iter().find(|operand| !operand.may_be_value) else {
            return;
        };
        let text = String::from_utf8_lossy(&command.word);
        if table.has_command(&text) {
            return;
        }
        let defines = |variable: &Vec<u8>| {
            table.alias_variables.iter().any(|start| variable.starts_with(start.as_bytes()))
        };
        if self.variables.iter().any(defines) {
            self.unclear.push(call.tool.clone());
        }
        let from_environment = table.alias_environment.iter().any(|option| {
            let mut values = call.values(option.as_bytes());
            values.any(|value| value.to_ascii_lowercase().starts_with(b"alias."))
        });
        if from_environment {
            self.unclear.push(call.tool.clone());
        }
        // An alias may be that of another one.
        let mut options = Vec::new();
        for option in &table.alias_options {
            for value in call.values(option.as_bytes()) {
                options.extend([option.clone().into_bytes(), value.to_vec()]);
            }
        }
        for option in &table.alias_options {
            for value in call.values(option.as_bytes()) {
                let text = String::from_utf8_lossy(value);
                let Some((name, definition)) = text.split_once('=') else {
                    // A file, or a value of the environment.
                    self.unclear.push(call.tool.clone());
                    continue;
                };
                if name.contains(['\0', '\u{1}']) {
                    self.unclear.push(call.tool.clone());
                    continue;
                }
                let name = name.trim().to_ascii_lowercase();
                let Some(name) = name.strip_prefix("alias.") else { continue };
                let name = name.strip_suffix(".command").unwrap_or(name).trim_matches('"');
                if !name.as_bytes().eq_ignore_ascii_case(&command.word) {
                    continue;
                }
                let at = argv.iter().position(|word| *word == command.word);
                let rest = at.and_then(|at| argv.get(at + 1..)).unwrap_or_default();
                let head = [vec![call.tool.clone()], options.clone()].concat();
                self.definition(definition, &head, rest, around);
            }
        }
    }

    /// Reads the definition of a tool's alias, with further words.
    ///
    /// `head` is the tool with the options before the alias.
    fn definition(&mut self, text: &str, head: &[Vec<u8>], rest: &[Vec<u8>], around: &Around<'a>) {
        let text = text.trim();
        if let Some(shell) = text.strip_prefix('!') {
            let mut shell = shell.as_bytes().to_vec();
            for word in rest {
                shell.push(b' ');
                shell.extend(if is_splitting(word) { b"$X".to_vec() } else { quote(word) });
            }
            return self.text(&shell, around);
        }
        // TOML's list or string.
        let is_list = text.starts_with(['[', '"', '\'']);
        let text: String = match is_list {
            true => text.replace(['[', ']', ',', '"', '\''], " "),
            false => text.to_owned(),
        };
        let mut argv = head.to_vec();
        match self.words_of(text.as_bytes(), around) {
            Some(words) => argv.extend(words),
            None => return self.unclear.push(head.first().cloned().unwrap_or_default()),
        }
        argv.extend(rest.iter().cloned());
        self.call(&argv, around);
    }

    /// Splits a text that is one simple command.
    fn words_of(&mut self, text: &[u8], around: &Around<'a>) -> Option<Vec<Vec<u8>>> {
        let is_known = !text.contains(&UNKNOWN) && text.len() <= self.budget;
        if !is_known {
            return None;
        }
        self.budget -= text.len();
        let script = Script::parse(text, &around.place);
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
            match call.operands.get(at) {
                Some(operand) if operand.word == word.as_bytes() => at += 1,
                _ => return,
            }
        }
        let is_absent = |name: &str| !name.is_empty() && !call.has_option(name.as_bytes());
        if is_absent(&runs.needs) || (!runs.option.is_empty() && runs.how == How::Argv) {
            return;
        }
        let operands = call.operands.get(at..).unwrap_or_default();
        let words: Vec<Vec<u8>> = operands.iter().map(|operand| operand.word.clone()).collect();
        let mut around = around.clone();
        if !runs.chdir.is_empty() {
            let directories: Vec<_> = call.values(runs.chdir.as_bytes()).collect();
            directories.into_iter().for_each(|path| around.place.enter(path));
        }
        let values: Vec<Vec<u8>> =
            call.values(runs.option.as_bytes()).map(<[u8]>::to_vec).collect();
        match runs.how {
            How::Argv => {
                let is_unsure = operands.iter().take(runs.skip + 1).any(|it| it.may_be_value);
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
                let text = words.get(runs.skip..).unwrap_or_default().join(&b' ');
                self.text(&text, &around);
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
                for module in &values {
                    let mut again = vec![module.clone()];
                    again.extend(words.iter().cloned());
                    self.call(&again, &around);
                }
            }
            How::Alias => self.alias(&words, &call.tool, &around),
        }
    }

    /// Follows a command that is given as words.
    fn argv(&mut self, runs: &Runs, words: &[Vec<u8>], around: &Around<'a>) {
        let mut words = words.to_vec();
        if runs.assignments {
            let count = words.iter().take_while(|word| is_assignment(word)).count();
            self.variables.extend(words.drain(..count));
        }
        if words.first().is_some_and(|word| word == b"--") {
            words.remove(0);
        }
        if let [option, text, ..] = words.as_slice()
            && option == b"-c"
        {
            return self.text(&text.clone(), around);
        }
        let Some(tool) = words.first_mut() else { return };
        if runs.versions
            && let Some(at) = tool.iter().skip(1).position(|byte| *byte == b'@')
        {
            tool.truncate(at + 1);
        }
        if runs.appends {
            words.push(vec![UNKNOWN, UNKNOWN]);
        }
        self.call(&words, around);
    }

    /// Follows the commands after options such as `-exec`.
    fn until(&mut self, runs: &Runs, call: &NormalCall, argv: &[Vec<u8>], around: &Around<'a>) {
        let starts: Vec<&[u8]> = runs.option.split(' ').map(str::as_bytes).collect();
        let roots: Vec<Vec<u8>> = call
            .operands
            .iter()
            .map(|operand| operand.word.clone())
            .take_while(|word| !word.starts_with(b"(") && !word.starts_with(b"!"))
            .collect();
        let mut rest = argv.iter().skip(1);
        while let Some(word) = rest.next() {
            if !starts.contains(&word.as_slice()) {
                continue;
            }
            let command: Vec<Vec<u8>> = rest
                .by_ref()
                .take_while(|word| *word != b";" && *word != b"+")
                .flat_map(|word| found_below(word, &roots))
                .collect();
            self.call(&command, around);
        }
    }

    /// Reads definitions of aliases, whose use may add any word.
    fn alias(&mut self, words: &[Vec<u8>], tool: &[u8], around: &Around<'a>) {
        let more = [vec![UNKNOWN, UNKNOWN]];
        if let [name, definition, ..] = words
            && name.to_ascii_lowercase().starts_with(b"alias.")
        {
            let text = String::from_utf8_lossy(definition).into_owned();
            return self.definition(&text, &[tool.to_vec()], &more, around);
        }
        for word in words {
            let at = word.iter().position(|byte| *byte == b'=');
            let Some(text) = at.and_then(|at| word.get(at + 1..)) else { continue };
            self.text(&[text, b" $X"].concat(), around);
        }
    }
}

/// Replaces `{}` with names below the directories of a search.
fn found_below(word: &[u8], roots: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if word != b"{}" {
        return vec![word.to_vec()];
    }
    if roots.is_empty() {
        return vec![b"./\x01".to_vec()];
    }
    roots.iter().map(|root| [root, &b"/\x01"[..]].concat()).collect()
}

/// Quotes a word for a shell.
fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}
