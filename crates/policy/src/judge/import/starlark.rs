//! The part of Starlark that rule files use: calls and assignments of literals.

use std::collections::HashMap;

/// A call at the top level of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StarlarkCall {
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) arguments: HashMap<String, Value>,
}

/// A value of a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Value>),
    /// A number, a boolean or `None`.
    Other,
}

/// The calls of a file, and the lines of statements that are neither a call nor an assignment.
#[derive(Debug, Default)]
pub(super) struct StarlarkFile {
    pub(super) calls: Vec<StarlarkCall>,
    pub(super) skipped: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Sign(char),
}

/// Nesting of lists.
const MAX_DEPTH: usize = 32;

impl StarlarkFile {
    pub(super) fn parse(text: &str) -> Self {
        let mut file = StarlarkFile::default();
        let mut names = HashMap::new();
        for statement in statements(text) {
            let line = statement.first().map_or(1, |(line, _)| *line);
            let mut reader = Reader { tokens: &statement, at: 0, names: &names };
            match reader.statement() {
                Some(Statement::Call(call)) => file.calls.push(StarlarkCall { line, ..call }),
                Some(Statement::Set(name, value)) => {
                    names.insert(name, value);
                }
                None => file.skipped.push(line),
            }
        }
        file
    }
}

enum Statement {
    Call(StarlarkCall),
    Set(String, Value),
}

struct Reader<'a> {
    tokens: &'a [(usize, Token)],
    at: usize,
    names: &'a HashMap<String, Value>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (_, token) = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn next_if(&mut self, sign: char) -> bool {
        let is_next =
            matches!(self.tokens.get(self.at), Some((_, Token::Sign(next))) if *next == sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn statement(&mut self) -> Option<Statement> {
        let Token::Name(name) = self.next()?.clone() else { return None };
        let found = if self.next_if('=') {
            Statement::Set(name, self.value(0)?)
        } else {
            if !self.next_if('(') {
                return None;
            }
            let mut arguments = HashMap::new();
            while !self.next_if(')') {
                let Token::Name(key) = self.next()?.clone() else { return None };
                if !self.next_if('=') {
                    return None;
                }
                arguments.insert(key, self.value(0)?);
                if !self.next_if(',') && !self.next_if(')') {
                    return None;
                } else if matches!(self.tokens.get(self.at - 1), Some((_, Token::Sign(')')))) {
                    break;
                }
            }
            Statement::Call(StarlarkCall { line: 0, function: name, arguments })
        };
        (self.at == self.tokens.len()).then_some(found)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let mut value = self.operand(depth)?;
        while self.next_if('+') {
            value = match (value, self.operand(depth)?) {
                (Value::Text(a), Value::Text(b)) => Value::Text(a + &b),
                (Value::List(a), Value::List(b)) => Value::List([a, b].concat()),
                _ => return None,
            };
        }
        Some(value)
    }

    fn operand(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.next()?.clone() {
            Token::Text(mut text) => {
                // Adjacent strings are one.
                while let Some((_, Token::Text(more))) = self.tokens.get(self.at) {
                    text += more;
                    self.at += 1;
                }
                Some(Value::Text(text))
            }
            Token::Name(name) => match self.names.get(&name) {
                Some(value) => Some(value.clone()),
                None => {
                    let is_literal = matches!(name.as_str(), "True" | "False" | "None")
                        || name.starts_with(|char: char| char.is_ascii_digit());
                    is_literal.then_some(Value::Other)
                }
            },
            Token::Sign(open @ ('[' | '(')) => {
                let close = if open == '[' { ']' } else { ')' };
                let mut list = Vec::new();
                while !self.next_if(close) {
                    list.push(self.value(depth + 1)?);
                    if !self.next_if(',') {
                        if self.next_if(close) {
                            break;
                        }
                        return None;
                    }
                }
                Some(Value::List(list))
            }
            Token::Sign(_) => None,
        }
    }
}

/// Splits a text into statements, each with the tokens and their lines. An indented line belongs to the
/// statement before it.
fn statements(text: &str) -> Vec<Vec<(usize, Token)>> {
    let mut statements: Vec<Vec<(usize, Token)>> = Vec::new();
    let mut chars = text.chars().peekable();
    let (mut line, mut depth, mut is_new, mut raw) = (1, 0_usize, true, false);
    while let Some(char) = chars.next() {
        let was_raw = std::mem::take(&mut raw);
        let token = match char {
            '\n' => {
                line += 1;
                let is_indented = chars.peek().is_some_and(|next| matches!(next, ' ' | '\t'));
                is_new |= depth == 0 && !is_indented;
                continue;
            }
            char if char.is_whitespace() => continue,
            '\\' => continue,
            '#' => {
                while chars.next_if(|char| *char != '\n').is_some() {}
                continue;
            }
            'r' | 'b' if matches!(chars.peek(), Some('"' | '\'')) => {
                raw = true;
                continue;
            }
            '"' | '\'' => {
                let start = line;
                let text = string(&mut chars, char, was_raw, &mut line);
                push(&mut statements, &mut is_new, (start, Token::Text(text)));
                continue;
            }
            char if char.is_alphanumeric() || char == '_' => {
                let mut name = String::from(char);
                while let Some(next) =
                    chars.next_if(|char| char.is_alphanumeric() || matches!(char, '_' | '.'))
                {
                    name.push(next);
                }
                Token::Name(name)
            }
            ';' if depth == 0 => {
                is_new = true;
                continue;
            }
            sign => {
                match sign {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                Token::Sign(sign)
            }
        };
        push(&mut statements, &mut is_new, (line, token));
    }
    statements
}

fn push(statements: &mut Vec<Vec<(usize, Token)>>, is_new: &mut bool, token: (usize, Token)) {
    if std::mem::take(is_new) || statements.is_empty() {
        statements.push(Vec::new());
    }
    if let Some(last) = statements.last_mut() {
        last.push(token);
    }
}

/// Reads a string after its first quote.
fn string(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    is_raw: bool,
    line: &mut usize,
) -> String {
    let mut text = String::new();
    let mut is_long = false;
    if chars.next_if_eq(&quote).is_some() {
        if chars.next_if_eq(&quote).is_none() {
            return text;
        }
        is_long = true;
    }
    while let Some(char) = chars.next() {
        match char {
            '\n' => {
                *line += 1;
                text.push('\n');
            }
            '\\' if is_raw => {
                text.push('\\');
                text.extend(chars.next());
            }
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('\n') => *line += 1,
                Some(char) => text.push(char),
                None => {}
            },
            char if char == quote && !is_long => return text,
            char if char == quote => {
                let mut rest = chars.clone();
                if rest.next() == Some(quote) && rest.next() == Some(quote) {
                    *chars = rest;
                    return text;
                }
                text.push(char);
            }
            char => text.push(char),
        }
    }
    text
}
