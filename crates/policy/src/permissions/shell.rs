//! Splits shell text into simple commands without running a shell.

use std::iter::Peekable;
use std::str::Chars;

/// The simple commands of a text, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellText {
    /// The words of each, without quotes, redirections and leading assignments. A substitution is
    /// replaced with NUL, which no argument contains.
    pub(super) commands: Vec<Vec<String>>,
    /// True if the text is one simple command without expansions in any shell.
    pub(super) is_plain: bool,
}

impl ShellText {
    pub(super) fn parse(text: &str) -> Self {
        let found = ShellText { commands: Vec::new(), is_plain: true };
        let mut reader = Reader {
            chars: text.trim_matches([' ', '\t', '\n']).chars().peekable(),
            found,
            depth: 0,
        };
        reader.list(None);
        let mut found = reader.found;
        found.is_plain &= found.commands.len() == 1;
        found
    }
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    found: ShellText,
    depth: usize,
}

/// The simple command that is being read.
#[derive(Default)]
struct Simple {
    words: Vec<String>,
    /// The current word; a quoted one may be empty.
    word: Option<String>,
    /// True if the next word names the file of a redirection.
    is_redirected: bool,
}

impl Reader<'_> {
    /// Reads a list up to the end of the text or of a substitution.
    fn list(&mut self, end: Option<char>) {
        let mut simple = Simple::default();
        while let Some(char) = self.chars.next() {
            if Some(char) == end {
                break;
            }
            let is_start = simple.word.is_none();
            let follows_sign = simple.word.as_ref().is_none_or(|word| word.ends_with(['=', ':']));
            match char {
                ' ' | '\t' => simple.end_word(),
                '\n' | ';' | '|' | '&' | ')' => {
                    self.not_plain();
                    self.end_command(&mut simple);
                }
                '(' => {
                    self.end_command(&mut simple);
                    self.nested(')');
                }
                '<' | '>' => self.redirection(&mut simple),
                '\'' => self.quoted(simple.word()),
                '"' => self.double_quoted(simple.word()),
                '`' => {
                    simple.word().push('\0');
                    self.nested('`');
                }
                '$' => self.dollar(simple.word()),
                '\\' => match self.chars.next() {
                    // A line continuation.
                    Some('\n') => {}
                    Some('`') if end == Some('`') => self.end_command(&mut simple),
                    Some(char) => simple.word().push(char),
                    None => self.not_plain(),
                },
                '#' if is_start => {
                    self.not_plain();
                    while self.chars.next_if(|char| *char != '\n').is_some() {}
                }
                char => {
                    let expands = match char {
                        '*' | '?' | '[' | ']' | '{' | '}' => true,
                        '~' => follows_sign,
                        '!' | '=' => is_start,
                        char => char.is_control(),
                    };
                    if expands {
                        self.not_plain();
                    }
                    simple.word().push(char);
                }
            }
        }
        self.end_command(&mut simple);
    }

    /// Records that the text is more than plain words.
    fn not_plain(&mut self) {
        self.found.is_plain = false;
    }

    /// Reads a nested list. Beyond `MAX_DEPTH` its text is read as words.
    fn nested(&mut self, end: char) {
        self.not_plain();
        if self.depth < MAX_DEPTH {
            self.depth += 1;
            self.list(Some(end));
            self.depth -= 1;
        }
    }

    fn quoted(&mut self, word: &mut String) {
        for char in self.chars.by_ref() {
            match char {
                '\'' => return,
                char => word.push(char),
            }
        }
        self.not_plain();
    }

    fn double_quoted(&mut self, word: &mut String) {
        while let Some(char) = self.chars.next() {
            match char {
                '"' => return,
                '$' => self.dollar(word),
                '`' => {
                    word.push('\0');
                    self.nested('`');
                }
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(char @ ('$' | '`' | '"' | '\\')) => word.push(char),
                    Some(char) => word.extend(['\\', char]),
                },
                char => word.push(char),
            }
        }
        self.not_plain();
    }

    /// Reads an expansion. A variable is kept as it is written.
    fn dollar(&mut self, word: &mut String) {
        self.not_plain();
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                word.push('\0');
                self.nested(')');
            }
            // `$'..'` is a quoted word.
            Some('\'' | '"') => {}
            _ => word.push('$'),
        }
    }

    fn redirection(&mut self, simple: &mut Simple) {
        self.not_plain();
        // The descriptor, as in `2>`.
        if simple.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            simple.word = None;
        }
        simple.end_word();
        while self.chars.next_if(|char| matches!(char, '<' | '>' | '&' | '|')).is_some() {}
        if self.chars.next_if_eq(&'(').is_some() {
            self.nested(')');
        } else {
            simple.is_redirected = true;
        }
    }

    fn end_command(&mut self, simple: &mut Simple) {
        simple.end_word();
        let mut words = std::mem::take(simple).words;
        let before =
            words.iter().take_while(|word| is_assignment(word) || is_prefix_word(word)).count();
        if before > 0 {
            self.not_plain();
            words.drain(..before);
        }
        if words.first().is_some_and(|word| RESERVED.contains(&word.as_str())) {
            self.not_plain();
        }
        if !words.is_empty() {
            self.found.commands.push(words);
        }
    }
}

impl Simple {
    fn word(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_redirected)
        {
            self.words.push(word);
        }
    }
}

/// Maximum nesting of substitutions.
const MAX_DEPTH: usize = 32;

/// Reserved words that a command may follow.
const PREFIX_WORDS: [&str; 10] =
    ["if", "then", "elif", "else", "do", "while", "until", "!", "{", "time"];

/// Other reserved words.
const RESERVED: [&str; 12] =
    ["for", "in", "case", "esac", "fi", "done", "select", "function", "coproc", "[[", "]]", "}"];

fn is_prefix_word(word: &str) -> bool {
    PREFIX_WORDS.contains(&word)
}

/// Matches `NAME=..`, `NAME+=..` and `NAME[..]=..`.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or_default();
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(in_name) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        ShellText::parse(text).commands.iter().map(|words| words.join("\u{1}")).collect()
    }

    #[test]
    fn plain_words_match_shlex() {
        let rows = [
            "make",
            " make  CC=gcc\t-j4 ",
            "git commit -m 'it is; $x'",
            r#"echo "a b" a\ b 'it'\''s' "" "\$x \a \\" x"#,
            "cargo test -- --nocapture a:b%c@d+e,f",
            "git show HEAD~1",
            "grüße 日本",
            "make a\\\nb",
            "echo 'a\nb'",
            "echo a#b",
        ];
        for text in rows {
            let found = ShellText::parse(text);
            assert!(found.is_plain, "{text}");
            assert_eq!(found.commands, [shlex::split(text).unwrap()], "{text}");
        }
    }

    #[test]
    fn compound_text_is_not_plain_and_is_split() {
        let rows: [(&str, &[&str]); 47] = [
            ("make; rm x", &["make", "rm x"]),
            ("cd x && make CC=gcc", &["cd x", "make CC=gcc"]),
            ("a || b | c |& d & e", &["a", "b", "c", "d", "e"]),
            ("a\nb\r", &["a", "b\r"]),
            ("make\u{a0}\r", &["make\u{a0}\r"]),
            ("a;", &["a"]),
            ("make > log 2>&1 < /dev/null", &["make"]),
            ("2>x make >>y", &["make"]),
            ("make &>log", &["make"]),
            ("make > 'a b' x", &["make x"]),
            ("cat <<E\nmake\nE", &["cat", "make", "E"]),
            ("diff <(make a) >(b)", &["make a", "b", "diff"]),
            ("(make; b)", &["make", "b"]),
            ("{ make; }", &["make", "}"]),
            ("f() { make; }", &["f", "make", "}"]),
            ("if a; then make; else c; fi", &["a", "make", "c", "fi"]),
            ("for x in a; do make; done", &["for x in a", "make", "done"]),
            ("while ! make; do b; done", &["make", "b", "done"]),
            ("case x in a) make;; esac", &["case x in a", "make", "esac"]),
            ("time make", &["make"]),
            ("! make", &["make"]),
            ("CC=gcc make x", &["make x"]),
            ("A=1 B+=2 C[0]=3 make", &["make"]),
            ("A=1", &[]),
            ("$(make)", &["make", "\0"]),
            ("echo $(make a; b) c", &["make a", "b", "echo \0 c"]),
            ("echo \"$(make)\"", &["make", "echo \0"]),
            ("echo `make a`", &["make a", "echo \0"]),
            ("echo \"`make`\"", &["make", "echo \0"]),
            (r"echo `a \`make\``", &["a", "make", "echo \0"]),
            ("echo $((1 + 2))", &["1 + 2", "echo \0"]),
            ("echo $HOME ${A}", &["echo $HOME ${A}"]),
            ("echo \"$HOME\"", &["echo $HOME"]),
            ("$'make' $\"x\"", &["make x"]),
            ("rm *", &["rm *"]),
            ("ls a? [b] {c,d}", &["ls a? [b] {c,d}"]),
            ("ls ~", &["ls ~"]),
            ("ls ~/x --a=~/y", &["ls ~/x --a=~/y"]),
            ("=ls", &["=ls"]),
            ("make # x; y\nz", &["make", "z"]),
            ("make 'x", &["make x"]),
            ("make \"x", &["make x"]),
            ("make \\", &["make"]),
            ("make \u{1b}", &["make \u{1b}"]),
            ("[[ a ]]", &["[[ a ]]"]),
            ("", &[]),
            ("'' x", &[" x"]),
        ];
        for (text, expected) in rows {
            let found = ShellText::parse(text);
            let is_word = text == "'' x";
            assert_eq!(found.is_plain, is_word, "{text}");
            let commands: Vec<String> =
                found.commands.iter().map(|words| words.join(" ")).collect();
            assert_eq!(commands, expected, "{text}");
        }
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_panics() {
        for part in ["$(", "`", "(", "\"$(", "<(", "'", "\\", "a=", "<"] {
            assert!(!ShellText::parse(&part.repeat(50_001)).is_plain, "{part}");
        }
        assert_eq!(words("a b\\"), ["a\u{1}b"]);
    }
}
