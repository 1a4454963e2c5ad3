//! Counters over the tokens of a file.

use crate::tidy::source::{Token, paths};

/// Counts the places with these tokens in a row.
pub(super) fn sequences(tokens: &[Token<'_>], expected: &[&str]) -> usize {
    let is_it = |window: &&[Token<'_>]| window.iter().map(|t| t.text).eq(expected.iter().copied());
    tokens.windows(expected.len()).filter(is_it).count()
}

/// Counts the rows of `table! { .. }`, each of which ends with a semicolon.
pub(super) fn table_rows(tokens: &[Token<'_>]) -> usize {
    let start =
        tokens.windows(3).position(|w| [w[0].text, w[1].text, w[2].text] == ["table", "!", "{"]);
    let body = start.map_or(&[][..], |start| group(&tokens[start + 2..]));
    outer(body).filter(|(_, token)| token.text == ";").count()
}

/// Counts the constants of type `&str`.
pub(super) fn text_constants(tokens: &[Token<'_>]) -> usize {
    let texts = |window: &[Token<'_>]| {
        window[0].text == "const" && [2, 3, 4].map(|at| window[at].text) == [":", "&", "str"]
    };
    tokens.windows(5).filter(|window| texts(window)).count()
}

/// Counts the variants of the enums with such names.
pub(super) fn variants(tokens: &[Token<'_>], is_name: impl Fn(&str) -> bool) -> usize {
    let is_enum = |at: &usize| tokens[*at].text == "enum" && is_name(tokens[*at + 1].text);
    let enums = (0..tokens.len().saturating_sub(1)).filter(is_enum);
    enums.map(|at| variants_of(&tokens[at..])).sum()
}

/// Counts the variants of the enum at the start: the first words, and those after a comma.
fn variants_of(tokens: &[Token<'_>]) -> usize {
    let open = tokens.iter().position(|token| token.text == "{").unwrap_or(tokens.len());
    let (mut count, mut is_new) = (0, true);
    for (_, token) in outer(group(&tokens[open..])) {
        match token.text {
            "," => is_new = true,
            text if is_new && is_identifier(text) => {
                count += 1;
                is_new = false;
            }
            _ => {}
        }
    }
    count
}

/// The names of public types, at any depth.
pub(super) fn public_types<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
    let name = |window: &[Token<'a>]| {
        let [public, kind, name] = window else { return None };
        let is_type = public.text == "pub" && KINDS.contains(&kind.text);
        (is_type && is_identifier(name.text)).then_some(name.text)
    };
    tokens.windows(3).filter_map(name).collect()
}

/// The lines of names of other crates of this workspace that `pub use` exports.
pub(super) fn re_exports(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        if (tokens[at].text, tokens[at + 1].text) == ("pub", "use") {
            let names = tokens[at + 2..].split(|token| token.text == ";").next().unwrap_or(&[]);
            let foreign = paths(names).into_iter().filter(|(_, path)| path.starts_with("aifo_"));
            lines.extend(foreign.map(|(line, _)| line));
        }
    }
    lines
}

/// The first line of each function with a body, and how many lines it has from `fn` to the closing brace.
pub(super) fn functions(tokens: &[Token<'_>]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        if tokens[at].text == "fn" && is_identifier(tokens[at + 1].text) {
            let start = &tokens[at..];
            let head = outer(start).find(|(_, token)| matches!(token.text, ";" | "{"));
            let body = head.filter(|(_, token)| token.text == "{");
            let last = body.and_then(|(at, _)| start.get(at + group(&start[at..]).len() + 1));
            found.extend(last.map(|last| (tokens[at].line, last.line - tokens[at].line + 1)));
        }
    }
    found
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The tokens between the bracket at the start and the one that closes it.
fn group<'a, 'b>(tokens: &'b [Token<'a>]) -> &'b [Token<'a>] {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        depth += step(token);
        depth == 0
    });
    tokens.get(1..end.unwrap_or(tokens.len())).unwrap_or_default()
}

/// The tokens outside brackets and the opening brackets, each with its place.
fn outer<'a, 'b>(tokens: &'b [Token<'a>]) -> impl Iterator<Item = (usize, &'b Token<'a>)> {
    let mut depth = 0;
    tokens.iter().enumerate().filter(move |(_, token)| {
        let before = depth;
        depth += step(token);
        before == 0
    })
}

fn step(token: &Token<'_>) -> isize {
    match token.text {
        "{" | "(" | "[" => 1,
        "}" | ")" | "]" => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    fn on<T>(text: &str, count: impl Fn(&[Token<'_>]) -> T) -> T {
        count(&Source::parse("x.rs", text).product_tokens())
    }

    #[test]
    fn rows_attributes_and_constants() {
        let table = "table! {\n[]\nrule(\"a\", |c| { f(); }).flag(\"--a\");\n[b: u8 = 1]\nsetting(\"b\");\n}\nfn f() { g(); }";
        assert_eq!(on(table, table_rows), 2);
        assert_eq!(on("fn f() { g(); }", table_rows), 0);
        assert_eq!(on(table, |tokens| sequences(tokens, &[".", "flag", "("])), 1);
        let text = "#[arg(long)] a: u8, #[arg] b: u8, #[argument] c: u8";
        assert_eq!(on(text, |tokens| sequences(tokens, &["#", "[", "arg"])), 2);
        let text = "pub const A: &str = \"AIFO_A\"; const B: &str =\n\"AIFO_B\"; const C: u8 = 1; f(x: &str);";
        assert_eq!(on(text, text_constants), 2);
    }

    #[test]
    fn variants_of_the_named_enums() {
        let rows = [
            ("enum Command { A, B(Box<X, Y>), #[doc(x, y)] C { d: u8, e: u8 } }", 3),
            ("code_table! { pub enum Command { A = 0x01, B = 0x02, } } enum Other { C }", 2),
            ("enum Command {}", 0),
            ("fn f(command: Command) {} enum", 0),
        ];
        for (text, count) in rows {
            assert_eq!(on(text, |tokens| variants(tokens, |it| it == "Command")), count, "{text}");
        }
    }

    #[test]
    fn types_and_exports_are_public() {
        let text = "pub struct A; mod m { pub enum B {} } pub(crate) struct C; struct D; pub type E = u8; pub struct $n;";
        let names = on(text, |tokens| public_types(tokens).join(" "));
        assert_eq!(names, "A B E");
        let rows = [
            ("use aifo_x::A; pub use crate::B; pub use aifoo::A;", 0),
            ("pub use aifo_x::A;", 1),
            ("pub use ::aifo_x::{A, b::{C, D}};", 3),
            ("pub use {aifo_x::A, std::fs};", 1),
            ("pub use aifo_x::*; pub use aifo_y;", 2),
            ("#[cfg(test)] pub use aifo_x::A;", 0),
        ];
        for (text, count) in rows {
            assert_eq!(on(text, |tokens| re_exports(tokens).len()), count, "{text}");
        }
    }

    #[test]
    fn functions_end_with_their_body() {
        let rows: [(&str, &[(usize, usize)]); 5] = [
            ("fn f(a: [u8; 2])\nwhere A: B,\n{\n    if x {}\n}\nfn g() {}", &[(0, 5), (5, 1)]),
            ("trait T { fn f(); fn g() {\n} }", &[(0, 2)]),
            ("type F = fn(u8) -> u8; struct S { f: fn() }", &[]),
            ("fn f() {\n    fn g() {\n    }\n}", &[(0, 4), (1, 2)]),
            ("fn", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(on(text, functions), expected, "{text}");
        }
    }
}
