//! Checks for unfinished work: placeholder macros, and tests ignored without a reason.

use super::Finding;
use super::source::{Source, Token};

/// Macros for unfinished code.
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Scans all code, including tests.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(scan).collect()
}

fn scan(source: &Source) -> Vec<Finding> {
    let tokens = source.tokens();
    let found = tokens.windows(2).filter_map(|pair| match pair {
        [name, mark] if mark.text == "!" && MACROS.contains(&name.text) => {
            Some((name.line, format!("{}! is left over", name.text)))
        }
        _ => None,
    });
    let ignored = tokens
        .windows(4)
        .filter(|window| is_bare_ignore(window))
        .map(|window| (window[0].line, "#[ignore] needs a reason: #[ignore = \"..\"]".to_owned()));
    found.chain(ignored).map(|(line, what)| Finding::at(&source.path, line, what)).collect()
}

fn is_bare_ignore(window: &[Token<'_>]) -> bool {
    window.iter().map(|token| token.text).eq(["#", "[", "ignore", "]"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found_in_code_only() {
        let rows = [
            ("fn f() { todo!() }", 1),
            ("dbg!(x); unimplemented!(\"later\")", 2),
            ("#[test]\n#[ignore]\nfn f() {}", 1),
            ("#[ignore = \"docker: cargo xtask test routing\"]", 0),
            ("// todo!() and #[ignore]\nlet s = \"dbg!(x)\"; let todo = 1;", 0),
        ];
        for (text, count) in rows {
            assert_eq!(check(&[Source::parse("x.rs", text)]).len(), count, "{text}");
        }
    }
}
