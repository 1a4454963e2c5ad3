//! Checks that the tests named in the specification exist.
//!
//! `suite::path::test` is a test of `tests/suites/suite`, `crate::path::test` one of
//! `crates/crate`.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::{Finding, Page};

/// The page that lists every rule with its tests. In other pages a name is checked if its first
/// word is a suite or a crate.
const COVERAGE: &str = "spec/coverage.md";

/// Checks every test that a page names.
pub(super) fn check(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
    let tests = functions(sources);
    let mut findings = Vec::new();
    for page in pages.iter().filter(|page| page.path.starts_with("spec/")) {
        for (line, text) in page.text.lines().enumerate() {
            for proof in text.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
                let (owner, _) = proof.split_once("::").unwrap_or((proof, ""));
                let name = proof.rsplit("::").next().unwrap_or_default();
                let what = match tests.get(owner) {
                    Some(names) if names.contains(name) => continue,
                    Some(_) => format!("'{owner}' has no test '{name}'"),
                    // The placeholder for a test's name.
                    None if matches!(proof, "suite::test" | "crate::module::test") => continue,
                    None if page.path == COVERAGE => {
                        format!("no suite or crate is named '{owner}'")
                    }
                    None => continue,
                };
                findings.push(Finding::at(&page.path, line, what));
            }
        }
    }
    findings
}

/// Returns whether a word has the form `a::b_c`, with names of modules and tests.
fn is_path(word: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part
                .chars()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || "_-".contains(it))
    };
    word.contains("::") && word.split("::").all(is_name)
}

/// The names of all functions and modules, by suite or crate.
fn functions(sources: &[Source]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut functions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let Some(owner) = owner(&source.path) else { continue };
        let tokens = source.tokens();
        let names = tokens.windows(2).filter(|pair| pair[0].text == "fn").map(|pair| pair[1].text);
        let names = names.chain(module(&source.path));
        functions.entry(owner).or_default().extend(names);
    }
    functions
}

/// The module of a file.
fn module(path: &str) -> Option<&str> {
    let (directory, name) = path.strip_suffix(".rs")?.rsplit_once('/')?;
    Some(if name == "mod" || name == "main" { directory.rsplit('/').next()? } else { name })
}

/// The suite or crate of a file. A crate has its directory's name, without `aifo-`.
fn owner(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix("tests/suites/") {
        return rest.split(['/', '.']).next();
    }
    if path.starts_with("xtask/") {
        return Some("xtask");
    }
    let name = path.strip_prefix("crates/")?.split('/').next()?;
    Some(name.strip_prefix("aifo-").filter(|name| *name == "shim").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_a_function_of_its_suite_or_crate() {
        let sources = [
            Source::parse("tests/suites/routing.rs", "#[test] fn one() {}"),
            Source::parse("tests/suites/native/run.rs", "fn two() {}"),
            Source::parse("crates/wire/src/form.rs", "// fn gone() {}\nfn three() {}"),
            Source::parse("crates/aifo-coder/src/cli.rs", "fn four() {}"),
        ];
        let text = "| `routing::one` `native::run::two` `wire::form::three` `aifo-coder::cli::four` |\n\
                    | `routing::two` `wire::gone` `std::fs` `Exec::settle` |\n";
        let page = |path: &str| Page { path: path.to_owned(), text: text.to_owned() };
        let findings = check(&[page(COVERAGE)], &sources);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["spec/coverage.md:2"; 3], "{findings:?}");
        let elsewhere = check(&[page("spec/acp.md")], &sources);
        assert_eq!(elsewhere.len(), 2, "another page may name a module: {elsewhere:?}");
    }
}
