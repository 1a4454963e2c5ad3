//! Normal form of a call: tool, subcommand, options and operands.

use std::borrow::Cow;

use super::glob::{PLAIN, UNKNOWN, is_unknown};
use super::table::{Arity, Known, Scope, base_name, empty_scope, find, words};

/// A call in normal form.
#[derive(Clone, Debug)]
pub(super) struct NormalCall {
    pub(super) known: Known,
    /// The tool's base name.
    pub(super) tool: Vec<u8>,
    /// The program as it is spelled, up to its base name; empty for a name.
    pub(super) directory: Vec<u8>,
    pub(super) options: Vec<CallOption>,
    pub(super) operands: Vec<Operand>,
    /// True if an expansion may add words.
    pub(super) is_open: bool,
    /// True if one may add options before the subcommand.
    pub(super) is_open_before: bool,
    /// True if an operand begins with an expansion or a pattern of file names, which may be an option.
    pub(super) may_have_option: bool,
    /// The files that redirections write.
    pub(super) writes: Vec<Vec<u8>>,
}

/// An option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallOption {
    /// The first synonym of the table, else as written.
    pub(super) name: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
    /// False if it follows an unknown option, whose value it may be.
    pub(super) is_sure: bool,
    /// True for a long option that is in no table.
    pub(super) is_unknown: bool,
    /// True if an expansion is in the name.
    pub(super) has_unknown: bool,
}

/// A word that is no option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) word: Vec<u8>,
    /// True if it may be the value of an unknown option.
    pub(super) may_be_value: bool,
    /// True if it is after `--`, or after the options of a command runner.
    pub(super) is_last: bool,
}

impl NormalCall {
    /// Parses a call; `None` if it has no tool.
    pub(super) fn parse(argv: &[Vec<u8>]) -> Option<Self> {
        let (first, args) = argv.split_first()?;
        // zsh replaces `=git` by its path.
        let name = base_name(first);
        let directory = first.strip_suffix(name).unwrap_or_default().to_vec();
        let base = name.strip_prefix(b"=").unwrap_or(name);
        let (known, tool, dashed) = find(base);
        let call = NormalCall {
            known,
            tool: tool.to_vec(),
            directory,
            options: Vec::new(),
            operands: Vec::new(),
            is_open: is_splitting(first),
            is_open_before: is_splitting(first),
            may_have_option: false,
            writes: Vec::new(),
        };
        let mut reader = Reader { call, path: String::new(), scope: known.table.root(), depth: 0 };
        if let Some(word) = dashed {
            reader.operand(word, false);
        }
        reader.read(args);
        let mut call = reader.call;
        call.may_have_option = call.operands.iter().any(|operand| {
            !operand.is_last
                && operand.word.first().is_some_and(|byte| is_unknown(*byte) && *byte != PLAIN)
        });
        Some(call)
    }

    /// Returns whether the call has an option of this name.
    pub(super) fn has_option(&self, name: &[u8]) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// Returns whether a table has the tool and its subcommand.
    pub(super) fn names_command(&self) -> bool {
        let command = self.operands.iter().find(|operand| !operand.may_be_value);
        self.known.is_listed
            && command
                .is_none_or(|it| self.known.table.may_have(&String::from_utf8_lossy(&it.word)))
    }

    /// Adds an option.
    pub(super) fn set(&mut self, name: &[u8], value: Vec<u8>) {
        let (name, value) = (name.to_vec(), Some(value));
        let option =
            CallOption { name, value, is_sure: true, is_unknown: false, has_unknown: false };
        self.options.push(option);
    }

    /// Returns the number of words with unknown parts.
    pub(super) fn unknown_words(&self) -> usize {
        let is_vague = |word: &[u8]| word.iter().any(|byte| is_unknown(*byte));
        let options = self.options.iter().filter(|option| {
            option.has_unknown || option.value.as_ref().is_some_and(|value| is_vague(value))
        });
        let operands = self.operands.iter().filter(|operand| is_vague(&operand.word));
        options.count() + operands.count()
    }

    /// Returns the values of an option.
    pub(super) fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let found = self.options.iter().filter(move |option| option.name == name);
        found.filter_map(|option| option.value.as_deref())
    }
}

/// Returns whether an expansion in a word may be several words.
pub(super) fn is_splitting(word: &[u8]) -> bool {
    word.windows(2).any(|two| two == [UNKNOWN, UNKNOWN])
}

struct Reader {
    call: NormalCall,
    /// The subcommand's words so far.
    path: String,
    scope: &'static Scope,
    /// The words of `path`.
    depth: usize,
}

impl Reader {
    fn read(&mut self, args: &[Vec<u8>]) {
        let table = self.call.known.table;
        let mut args = args.iter();
        let mut may_be_value = false;
        while let Some(word) = args.next() {
            let was_unsure = std::mem::take(&mut may_be_value);
            if is_splitting(word) {
                self.call.is_open = true;
            }
            if self.depth == 0 && word.first().is_some_and(|byte| is_unknown(*byte)) {
                self.call.is_open_before = true;
            }
            if word == b"--" {
                self.push(b"--", None, true, false);
                return self.rest(args);
            }
            let has_plus = self.call.known.table.plus && self.depth == 0;
            if has_plus && word.first() == Some(&b'+') {
                if self.find(word).is_some_and(|(arity, _)| arity == Arity::Value) {
                    args.next();
                }
                continue;
            }
            if word == b"-" && self.find(word).is_some() {
                continue;
            }
            if word.len() < 2 || word.first() != Some(&b'-') {
                if self.operand(word, was_unsure) {
                    return if was_unsure { self.rest_or_options(args) } else { self.rest(args) };
                }
                continue;
            }
            match self.option(word, !was_unsure) {
                Next::Nothing => {
                    let next = args.as_slice().first().filter(|_| table.flags_take_words);
                    let is_switch = |word: &&Vec<u8>| matches!(word.as_slice(), b"true" | b"false");
                    let option = self.call.options.last_mut().filter(|it| it.value.is_none());
                    if let (Some(value), Some(option)) = (next.filter(is_switch), option) {
                        option.value = (value == b"false").then(|| value.clone());
                        args.next();
                    }
                }
                Next::Unsure => may_be_value = true,
                Next::Value => {
                    if let (Some(option), Some(value)) = (self.call.options.last_mut(), args.next())
                    {
                        self.call.is_open |= is_splitting(value);
                        self.call.is_open_before |= self.depth == 0 && is_splitting(value);
                        option.value = Some(table.normal_value(&option.name, value.clone()));
                    }
                }
            }
            let is_last = self.call.options.last().is_some_and(|option| {
                self.scope.last.iter().any(|name| name.as_bytes() == option.name)
            });
            if is_last {
                return self.rest(args);
            }
        }
    }

    /// Adds all other words as operands.
    fn rest<'a>(&mut self, args: impl Iterator<Item = &'a Vec<u8>>) {
        for word in args {
            self.call.is_open |= is_splitting(word);
            let operand = Operand { word: word.clone(), may_be_value: false, is_last: true };
            self.call.operands.push(operand);
        }
    }

    /// Adds all other words as operands, and those that may be options also as such.
    fn rest_or_options(&mut self, args: std::slice::Iter<'_, Vec<u8>>) {
        self.rest(args.clone());
        let mut args = args.take_while(|word| *word != b"--");
        while let Some(word) = args.next() {
            let is_option = word.len() > 1 && word.first() == Some(&b'-');
            if is_option
                && self.option(word, false) == Next::Value
                && let (Some(option), Some(value)) = (self.call.options.last_mut(), args.next())
            {
                option.value = Some(value.clone());
            }
        }
    }

    /// Adds an operand, and returns whether it ends the options.
    fn operand(&mut self, word: &[u8], may_be_value: bool) -> bool {
        let text = String::from_utf8_lossy(word);
        let table = self.call.known.table;
        let resolved: Cow<'_, str> = match self.depth {
            0 if self.call.operands.iter().all(|operand| operand.may_be_value) => {
                Cow::Borrowed(table.resolve(&text))
            }
            _ => Cow::Borrowed(text.as_ref()),
        };
        let operand = Operand { word: resolved.as_bytes().to_vec(), may_be_value, is_last: false };
        let mut path = self.path.clone();
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(&resolved);
        let is_lossless = matches!(text, Cow::Borrowed(_));
        let operand =
            if is_lossless { operand } else { Operand { word: word.to_vec(), ..operand } };
        self.call.operands.push(operand);
        if let Some(scope) = table.scope(&path) {
            self.scope = scope;
            self.path = path;
            self.depth += 1;
            return false;
        }
        if self.depth == 0 && !may_be_value {
            // A subcommand without options of its own, whose words may have some.
            self.path = path;
            self.depth = 1;
            let stops = self.scope.stops;
            if !table.inherits() && !table.is_flat() {
                self.scope = empty_scope();
            }
            return stops;
        }
        self.scope.stops
    }

    fn option(&mut self, word: &[u8], is_sure: bool) -> Next {
        let table = self.call.known.table;
        if word.starts_with(b"--") || table.single_dash {
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => (word.get(..at), word.get(at + 1..)),
                None => (Some(word), None),
            };
            let name = name.unwrap_or_default();
            return self.long(name, value, is_sure);
        }
        if !table.lists_options() && word.len() > 2 {
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => (word.get(..at), word.get(at + 1..)),
                None => (Some(word), None),
            };
            let value = value.map(<[u8]>::to_vec);
            self.push(name.unwrap_or_default(), value, is_sure, false);
        }
        self.bundle(word, is_sure)
    }

    fn long(&mut self, name: &[u8], value: Option<&[u8]>, is_sure: bool) -> Next {
        let value = value.map(<[u8]>::to_vec);
        let has_value = value.is_some();
        if let Some((arity, first)) = self.find(name) {
            self.push(first, value, is_sure, false);
            return match arity {
                Arity::Value if !has_value => Next::Value,
                _ => Next::Nothing,
            };
        }
        let abbreviated = match self.call.known.table.abbreviates {
            true => self.scope.find_abbreviation(name),
            false => None,
        };
        match abbreviated {
            // The table may lack an option that is written in full.
            Some((_, Some(only))) => self.push(only, value, false, false),
            _ => self.push(name, value, is_sure, true),
        }
        match abbreviated {
            _ if has_value => Next::Nothing,
            Some((Arity::Flag | Arity::Optional, _)) => Next::Nothing,
            Some((Arity::Value, _)) => Next::Value,
            None => Next::Unsure,
        }
    }

    /// Reads `-abc`; the rest after a letter with a value is the value.
    fn bundle(&mut self, word: &[u8], is_sure: bool) -> Next {
        let mut is_sure = is_sure;
        let mut last = Next::Nothing;
        for (at, letter) in word.iter().enumerate().skip(1) {
            let name = [b'-', *letter];
            let rest = word.get(at + 1..).unwrap_or_default();
            match self.find(&name) {
                Some((arity, first)) => {
                    if arity == Arity::Flag {
                        self.push(first, None, is_sure, false);
                        last = Next::Nothing;
                        continue;
                    }
                    let value = rest.strip_prefix(b"=").unwrap_or(rest);
                    let value = (!value.is_empty()).then(|| value.to_vec());
                    let takes_next = arity == Arity::Value && rest.is_empty();
                    self.push(first, value, is_sure, false);
                    return if takes_next { Next::Value } else { Next::Nothing };
                }
                None => {
                    self.push(&name, None, is_sure, false);
                    is_sure = false;
                    last = Next::Unsure;
                }
            }
        }
        last
    }

    fn push(&mut self, name: &[u8], value: Option<Vec<u8>>, is_sure: bool, unlisted: bool) {
        let has_unknown = name.iter().any(|byte| is_unknown(*byte));
        let table = self.call.known.table;
        let value = value.map(|value| table.normal_value(name, value));
        self.call.is_open |= table.opens.iter().any(|option| {
            let is_abbreviation = table.abbreviates && unlisted && name.len() > 3;
            option.as_bytes() == name || (is_abbreviation && option.as_bytes().starts_with(name))
        });
        let name = name.to_vec();
        let option = CallOption { name, value, is_sure, is_unknown: unlisted, has_unknown };
        self.call.options.push(option);
    }

    /// Returns an option's arity and its first synonym.
    fn find(&self, name: &[u8]) -> Option<(Arity, &'static [u8])> {
        let table = self.call.known.table;
        let own = self.scope.find(name);
        let found = own.or_else(|| if table.inherits() { table.root().find(name) } else { None });
        found.map(|(arity, row)| (arity, words(row).next().unwrap_or_default()))
    }
}

/// The effect of an option on the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// It is the option's value.
    Value,
    /// It may be.
    Unsure,
}
