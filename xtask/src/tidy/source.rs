//! Splits Rust source into code and comments, line by line.

use std::ops::Range;

use ra_ap_rustc_lexer::{FrontmatterAllowed, TokenKind, tokenize};

/// A source file with code and comments separated.
///
/// `code` and `comments` have as many lines as the file. Text of the other kind is blank, and literals
/// are blank in both: a brace in a string opens nothing.
pub(super) struct Source {
    /// The path below the workspace root.
    pub(super) path: String,
    /// The code of each line.
    pub(super) code: Vec<String>,
    /// The comments of each line, with their slashes.
    pub(super) comments: Vec<String>,
    /// Whether each line has code or text of a literal.
    is_code: Vec<bool>,
    /// The line of each token, and its place in the line's code.
    tokens: Vec<(usize, Range<usize>)>,
}

/// A word, lifetime or punctuation character of the code, and its line, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

impl Source {
    /// Splits a file. Never fails; the result is exact for code that compiles.
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let mut source = Source {
            path: path.to_owned(),
            code: vec![String::new()],
            comments: vec![String::new()],
            is_code: vec![false],
            tokens: Vec::new(),
        };
        let mut rest = text;
        for token in tokenize(text, FrontmatterAllowed::No) {
            let (text, after) = rest.split_at(token.len as usize);
            source.add(token.kind, text);
            rest = after;
        }
        source
    }

    /// Adds a token of the lexer. Only comments, literals and white space have more than one line.
    fn add(&mut self, kind: TokenKind, text: &str) {
        use TokenKind::{BlockComment, LineComment, Literal, Whitespace};
        let is_comment = matches!(kind, LineComment { .. } | BlockComment { .. });
        let is_code = !is_comment && !matches!(kind, Literal { .. } | Whitespace);
        for (index, part) in text.split('\n').enumerate() {
            if index > 0 {
                self.code.push(String::new());
                self.comments.push(String::new());
                self.is_code.push(false);
            }
            let blank = " ".repeat(part.chars().count());
            let line = self.code.len() - 1;
            let start = self.code[line].len();
            self.code[line] += if is_code { part } else { &blank };
            self.comments[line] += if is_comment { part } else { &blank };
            self.is_code[line] |= !is_comment && !part.trim().is_empty();
            if is_code {
                self.tokens.push((line, start..self.code[line].len()));
            }
        }
    }

    /// All tokens of the code.
    pub(super) fn tokens(&self) -> Vec<Token<'_>> {
        let text = |(line, range): &(usize, Range<usize>)| Token {
            line: *line,
            text: &self.code[*line][range.clone()],
        };
        self.tokens.iter().map(text).collect()
    }

    /// The tokens outside items under `#[cfg(test)]`.
    pub(super) fn product_tokens(&self) -> Vec<Token<'_>> {
        self.split_tests().0
    }

    /// The number of lines with code or text of a literal, without those of these items.
    pub(super) fn lines_without(&self, items: &[Vec<Token<'_>>]) -> usize {
        let lines = |item: &Vec<Token<'_>>| Some((item.first()?.line, item.last()?.line));
        let items: Vec<(usize, usize)> = items.iter().filter_map(lines).collect();
        let is_item = |line: &usize| items.iter().any(|(from, to)| (*from..=*to).contains(line));
        (0..self.is_code.len()).filter(|line| self.is_code[*line] && !is_item(line)).count()
    }

    /// The tokens outside items under `#[cfg(test)]`, and these items with that attribute.
    pub(super) fn split_tests(&self) -> (Vec<Token<'_>>, Vec<Vec<Token<'_>>>) {
        const GATE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
        let tokens = self.tokens();
        let (mut product, mut items) = (Vec::new(), Vec::new());
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            if rest.iter().map(|token| token.text).take(GATE.len()).eq(GATE) {
                let after = after_item(&rest[GATE.len()..]);
                items.push(rest[..rest.len() - after.len()].to_vec());
                rest = after;
            } else {
                product.push(*first);
                rest = after;
            }
        }
        (product, items)
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
            word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
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
            (r"m('{', '\'', '\u{7b}', b'x')", "m ( , , , )"),
            ("fn f<'a>(x: &'a str)", "fn f < 'a > ( x : & 'a str )"),
            ("r#type + other", "r#type + other"),
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

    #[test]
    fn lines_of_the_product_have_code_or_a_literal() {
        let rows = [
            ("fn f() {\n\n    // why\n    g(); // why\n}", 3),
            ("const TEXT: &str = \"\\\n  two\n\n  four\n\";", 4),
            ("a;\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nb;", 2),
            ("#[cfg(test)]\nuse x;\n#[cfg(test)]\nmod tests;\n", 0),
        ];
        for (text, lines) in rows {
            let source = Source::parse("x.rs", text);
            let (_, tests) = source.split_tests();
            assert_eq!(source.lines_without(&tests), lines, "{text}");
        }
    }
}
