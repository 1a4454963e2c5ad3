//! Aliases and settings that a call defines, in options and variables.

use super::glob::{Match, UNKNOWN, is_unknown, matches};
use super::marks::without_quotes;
use super::normal::{NormalCall, is_splitting};
use super::table::find;
use super::unwrap::{Around, Parts};

impl<'a> Parts<'a> {
    /// Adds settings from elsewhere, whose value is unknown.
    pub(super) fn settings(&mut self, call: &mut NormalCall) {
        let table = call.known.table;
        let Some(option) = table.alias_options.first() else { return };
        let defines = |variable: &&Vec<u8>| {
            let starts = |start: &&str| variable.starts_with(start.as_bytes());
            table.alias_variables.iter().any(starts) && !variable.ends_with(b"=/dev/null")
        };
        let from_variables = self.variables.iter().find(defines).is_some();
        let of = |name: &&'static str| {
            call.values(name.as_bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let names_file = table.alias_options.iter().flat_map(of).any(|value| {
            let name = value.split(|byte| *byte == b'=').next().unwrap_or_default();
            let name = name.to_ascii_lowercase();
            table.setting_files.iter().any(|it| matches(it.as_bytes(), &name) != Match::No)
        });
        let from_environment: Vec<Vec<u8>> = table.alias_environment.iter().flat_map(of).collect();
        if from_variables || names_file {
            call.set(option.as_bytes(), vec![UNKNOWN]);
        }
        for value in from_environment {
            let name = value.split(|byte| *byte == b'=').next().unwrap_or_default();
            let name = name.to_ascii_lowercase();
            call.set(option.as_bytes(), [&name[..], b"=", &[UNKNOWN]].concat());
        }
    }

    /// Reads the variables whose text the tool runs.
    pub(super) fn variables_with_text(&mut self, call: &NormalCall, around: &Around<'a>) {
        // The text's own calls have the same variables.
        let variables = std::mem::take(&mut self.variables);
        for name in &call.known.table.shell_variables {
            let of_name =
                |variable: &Vec<u8>| variable.strip_prefix(name.as_bytes()).map(<[u8]>::to_vec);
            let texts = variables.iter().filter_map(of_name);
            texts.for_each(|text| self.program(&text, around));
        }
        self.variables = variables;
    }

    /// Reads a text that the tool runs, perhaps with further words; an empty one is no program.
    fn program(&mut self, text: &[u8], around: &Around<'a>) {
        if !text.is_empty() {
            self.text(text, around);
            self.text(&[text, b" $X"].concat(), around);
        }
    }

    /// Follows an alias that the call itself defines.
    pub(super) fn aliases(&mut self, call: &NormalCall, argv: &[Vec<u8>], around: &Around<'a>) {
        let table = call.known.table;
        let Some(command) = call.operands.iter().find(|operand| !operand.may_be_value) else {
            return;
        };
        let text = String::from_utf8_lossy(&command.word);
        if table.has_command(&text) {
            return;
        }
        // An alias may be that of another one.
        let mut options = Vec::new();
        for option in &table.alias_options {
            for value in call.values(option.as_bytes()) {
                options.extend([option.as_bytes().to_vec(), value.to_vec()]);
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
                // The value, or the name, is known only when the call runs.
                let is_alias = name.to_ascii_lowercase().starts_with("alias.");
                let is_unknown_name = name.bytes().any(is_unknown);
                if is_unknown_name || (is_alias && definition.bytes().any(is_unknown)) {
                    self.unclear.push(call.tool.clone());
                    continue;
                }
                let name = name.trim().to_ascii_lowercase();
                if name == "alias" {
                    // A table of aliases.
                    self.unclear.push(call.tool.clone());
                    continue;
                }
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
    pub(super) fn definition(
        &mut self,
        text: &str,
        head: &[Vec<u8>],
        rest: &[Vec<u8>],
        around: &Around<'a>,
    ) {
        let text = text.trim();
        if let Some(shell) = text.strip_prefix('!') {
            let mut shell = shell.as_bytes().to_vec();
            for word in rest {
                shell.push(b' ');
                shell.extend(if is_splitting(word) { b"$X".to_vec() } else { quote(word) });
            }
            return self.text(&shell, around);
        }
        let mut argv = head.to_vec();
        match self.words_of(&without_quotes(text.as_bytes()), around) {
            Some(words) => argv.extend(words),
            None => return self.unclear.push(head.first().cloned().unwrap_or_default()),
        }
        argv.extend(rest.iter().cloned());
        self.call(&argv, around);
    }

    /// Reads a setting whose value the tool runs. The value of a setting that no table has may be a call.
    pub(super) fn setting(&mut self, setting: &[u8], call: &NormalCall, around: &Around<'a>) {
        let Some(at) = setting.iter().position(|byte| *byte == b'=') else { return };
        let (name, value) = setting.split_at(at);
        let name = name.to_ascii_lowercase();
        let value = value.get(1..).unwrap_or_default();
        let has_text = call.known.table.shell_settings.iter().any(|pattern| {
            let (pattern, is_sure) = match pattern.strip_suffix('!') {
                Some(pattern) => (pattern, value.first().copied().is_some_and(is_unknown)),
                None => (*pattern, true),
            };
            is_sure && matches(pattern.as_bytes(), &name) == Match::Yes
        });
        match value.trim_ascii_start().strip_prefix(b"!") {
            Some(text) => self.program(text, around),
            None if has_text => self.program(value, around),
            None => self.guess(value, around),
        }
    }

    /// Reads definitions of aliases, whose use may add any word.
    pub(super) fn alias(&mut self, words: &[Vec<u8>], tool: &[u8], around: &Around<'a>) {
        let more = [vec![UNKNOWN, UNKNOWN]];
        if let [name, definition, ..] = words
            && name.to_ascii_lowercase().starts_with(b"alias.")
        {
            let text = String::from_utf8_lossy(definition).into_owned();
            return self.definition(&text, &[tool.to_vec()], &more, around);
        }
        if let [name, definition, ..] = words
            && !name.contains(&b'=')
            && find(tool).0.table.alias_options.is_empty()
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
