//! Splits Rust source into code and comments, line by line.

/// A source file with code and comments separated.
///
/// `code` and `comments` have as many lines as the file. Text of the other kind is blank, and the
/// contents of string and character literals are blank in both: a brace in a string opens nothing.
pub(super) struct Source {
    /// The path below the workspace root.
    pub(super) path: String,
    /// The code of each line.
    pub(super) code: Vec<String>,
    /// The comments of each line, with their slashes.
    pub(super) comments: Vec<String>,
}

/// A word or punctuation character of the code, and its line, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

impl Source {
    /// Splits a file. Never fails; the result is exact for code that compiles.
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let mut split = Split { rest: text, code: String::new(), comments: String::new() };
        while split.step() {}
        let lines = |text: &str| text.split('\n').map(str::to_owned).collect();
        Source { path: path.to_owned(), code: lines(&split.code), comments: lines(&split.comments) }
    }

    /// All tokens of the code.
    pub(super) fn tokens(&self) -> Vec<Token<'_>> {
        let lines = self.code.iter().enumerate();
        lines.flat_map(|(line, text)| words(text).map(move |text| Token { line, text })).collect()
    }

    /// The tokens outside items under `#[cfg(test)]`.
    pub(super) fn product_tokens(&self) -> Vec<Token<'_>> {
        const GATE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
        let tokens = self.tokens();
        let mut product = Vec::new();
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            if rest.iter().map(|token| token.text).take(GATE.len()).eq(GATE) {
                rest = after_item(&rest[GATE.len()..]);
            } else {
                product.push(*first);
                rest = after;
            }
        }
        product
    }
}

/// The tokens after one item, which ends with `;` outside brackets or its body's closing brace.
fn after_item<'a, 'b>(tokens: &'b [Token<'a>]) -> &'b [Token<'a>] {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(token.text, "}" | ";") {
            let rest = &tokens[index + 1..];
            // The brace may close a group of a `use`.
            return match rest.split_first() {
                Some((next, after)) if next.text == ";" => after,
                _ => rest,
            };
        }
    }
    &[]
}

/// The words of a line, and its punctuation one character each.
fn words(mut line: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        line = line.trim_start();
        let first = line.chars().next()?;
        let end = if is_word(first) {
            line.find(|c| !is_word(c)).unwrap_or(line.len())
        } else {
            first.len_utf8()
        };
        let (word, rest) = line.split_at(end);
        line = rest;
        Some(word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every path in the code, with the line of its first word; `a::{b, c::d}` is `a::b` and `a::c::d`.
pub(super) fn paths(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The prefixes of the open groups; `None` for a brace that is not a group of a `use`.
    let mut groups: Vec<Option<String>> = Vec::new();
    let mut rest = tokens;
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match token.text {
            "{" => groups.push(None),
            "}" => _ = groups.pop(),
            // A path after one of these may begin with `::`.
            "as" | "in" | "return" | "use" => {}
            word if word.starts_with(is_word) => {
                let prefix = groups.last().cloned().flatten();
                let mut path = prefix.map_or(word.to_owned(), |prefix| format!("{prefix}::{word}"));
                let mut opens_group = false;
                while let [a, b, next, tail @ ..] = rest
                    && (a.text, b.text) == (":", ":")
                {
                    rest = tail;
                    match next.text {
                        "{" => {
                            opens_group = true;
                            groups.push(Some(path.clone()));
                            break;
                        }
                        segment => path = format!("{path}::{segment}"),
                    }
                }
                if !opens_group {
                    found.push((token.line, path));
                }
            }
            _ => {}
        }
    }
    found
}

/// The state of a split.
struct Split<'a> {
    rest: &'a str,
    code: String,
    comments: String,
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Blank,
}

impl<'a> Split<'a> {
    /// Consumes one comment, literal, word or character; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take(end, Part::Comment);
        } else if self.rest.starts_with("/*") {
            self.take(block_comment(self.rest), Part::Comment);
        } else if let Some(end) = string(self.rest) {
            self.take(end, Part::Blank);
        } else if is_word(first) {
            // A whole word at once, so that the `r` of `for"x"` does not open a raw string.
            let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
            self.take(end, Part::Code);
        } else if let Some(end) = character(self.rest) {
            self.take(end, Part::Blank);
        } else {
            self.take(first.len_utf8(), Part::Code);
        }
        true
    }

    fn take(&mut self, len: usize, part: Part) {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        for c in taken.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if matches!(part, Part::Code) { c } else { blank });
            self.comments.push(if matches!(part, Part::Comment) { c } else { blank });
        }
    }
}

/// The length of the leading block comment; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let step = match rest {
            _ if rest.starts_with("/*") => {
                depth += 1;
                2
            }
            _ if rest.starts_with("*/") => {
                depth -= 1;
                2
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of the leading string literal: plain, byte, C, or raw.
fn string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|p| text.starts_with(p))?;
    let body = &text[prefix.len()..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    let raw = prefix.ends_with('r');
    let inside = body[hashes..].strip_prefix('"').filter(|_| raw || hashes == 0)?;
    let open = text.len() - inside.len();
    if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        return Some(inside.find(&close).map_or(text.len(), |end| open + end + close.len()));
    }
    Some(closing(inside, '"').map_or(text.len(), |end| open + end))
}

/// The length of the leading character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut chars = inside.chars();
    let one = chars.next()?;
    if one == '\\' {
        return closing(inside, '\'').map(|end| 1 + end);
    }
    (chars.next() == Some('\'')).then(|| 1 + one.len_utf8() + 1)
}

/// The end of the first unescaped `quote`.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            _ if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let tokens: Vec<String> =
            Source::parse("x.rs", text).tokens().iter().map(|t| t.text.to_owned()).collect();
        tokens.join(" ")
    }

    #[test]
    fn literals_and_comments_are_not_code() {
        let rows = [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("x // y", z)"#, "f ( , z )"),
            (r#"f("a\"b{", z)"#, "f ( , z )"),
            (r###"f(r#"a"b{"#, z)"###, "f ( , z )"),
            (r#"f(b"a{", br"\", c"{")"#, "f ( , , )"),
            (r"m('{', '\'', '\u{7b}', b'x')", "m ( , , , b )"),
            ("fn f<'a>(x: &'a str)", "fn f < ' a > ( x : & ' a str )"),
            ("r#type + other", "r # type + other"),
            ("'ä' é", "é"),
            ("\"open", ""),
            ("/* open", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_stay_where_they_were() {
        let source = Source::parse("x.rs", "let a = \"1\n2\";\n// three\nb");
        assert_eq!(source.tokens().last(), Some(&Token { line: 3, text: "b" }));
        assert_eq!(source.comments[2], "// three");
        assert_eq!(source.code.len(), source.comments.len());
    }

    #[test]
    fn test_items_are_no_product() {
        let rows = [
            ("a #[cfg(test)] mod tests { fn f() { \"}\"; } } b", "a b"),
            ("a #[cfg(test)] mod tests; b", "a b"),
            ("a #[cfg(test)] #[path = \"x\"] mod tests; b", "a b"),
            ("a #[cfg(test)] use std::{fs, env}; b", "a b"),
            ("a #[cfg(test)] fn f(x: [u8; 2]) {} b", "a b"),
            ("a #[cfg(unix)] b", "a # [ cfg ( unix ) ] b"),
        ];
        for (text, expected) in rows {
            let source = Source::parse("x.rs", text);
            let left: Vec<&str> = source.product_tokens().iter().map(|token| token.text).collect();
            assert_eq!(left.join(" "), expected, "{text}");
        }
    }
}
