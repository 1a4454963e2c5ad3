//! Checks that binaries, and libraries that print for them, print only through functions that escape foreign text.

use super::Finding;
use super::source::{Source, Token};

/// The places that may print: the functions that escape, those that carry a tool's or a protocol's
/// bytes, and those that escape for themselves.
const PRINTERS: &[&str] = &[
    "crates/aifo-coder/src/acp/bridge.rs",
    "crates/aifo-coder/src/acp/output.rs",
    "crates/kube/src/client/piped.rs",
    "crates/aifo-shim/src/cli.rs",
    "crates/aifo-shim/src/standard_fd.rs",
    "crates/aifo-shim/src/log.rs",
    "crates/terminal/src/client.rs",
    "crates/terminal/src/console.rs",
    "crates/terminal/src/console/screen.rs",
    "crates/terminal/src/paint.rs",
    "crates/terminal/src/title.rs",
];

/// The binaries, and the libraries that print for them.
const CHECKED: &[&str] = &[
    "crates/aifo-coder/src/",
    "crates/aifo-shim/src/",
    "crates/kube/src/",
    "crates/terminal/src/",
];

const MACROS: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Finds output outside those functions.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let foreign = |source: &&Source| {
        CHECKED.iter().any(|crate_| source.path.starts_with(crate_))
            && !PRINTERS.contains(&source.path.as_str())
    };
    sources.iter().filter(foreign).flat_map(scan).collect()
}

fn scan(source: &Source) -> Vec<Finding> {
    let tokens = source.product_tokens();
    let lines = tokens.windows(5).filter(|window| prints(window)).map(|window| window[0].line);
    let what = "prints foreign text unescaped; use console::say, paint::print or log::line";
    lines.map(|line| Finding::at(&source.path, line, what)).collect()
}

fn prints(window: &[Token<'_>]) -> bool {
    let text = |at: usize| window.get(at).map_or("", |token| token.text);
    let is_macro = MACROS.contains(&text(0)) && text(1) == "!";
    let is_stream = matches!(text(0), "stdout" | "stderr") && text(1) == "(" && text(2) == ")";
    let only_asks = text(3) == "." && text(4) == "is_terminal";
    is_macro || (is_stream && !only_asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printers_print() {
        let rows = [
            ("fn f() { println!(\"x\"); g(); }", 1),
            ("fn f() { let mut out = io::stderr().lock(); }", 1),
            ("fn f() { if io::stdout().is_terminal() {} }", 0),
            ("// println!\nlet s = \"eprintln!()\"; let stdout = 1; f(stdout);", 0),
            ("#[cfg(test)]\nmod tests { fn f() { println!(\"x\"); g(); } }", 0),
        ];
        for (text, count) in rows {
            let found = |path| check(&[Source::parse(path, text)]).len();
            assert_eq!(found("crates/aifo-coder/src/x.rs"), count, "{text}");
            assert_eq!(found("crates/terminal/src/console.rs"), 0, "{text}");
            assert_eq!(found("crates/proxy/src/x.rs"), 0, "{text}");
        }
    }
}
