//! Checks that the tests named in the specification exist, and that a test file names each section.
//!
//! `suite::path::test` is a test of `tests/suites/suite`, `crate::path::test` one of
//! `crates/crate`.

use std::collections::{BTreeMap, BTreeSet};

use super::links::{citations, sections};
use super::source::Source;
use super::{Finding, Page};

/// The page with statements of others and their tests. In other pages a name is checked if its first
/// word is a suite or a crate.
const COVERAGE: &str = "spec/coverage.md";

/// Sections, and whole pages, that no file with tests cites: they state no rule, a test reads their tables,
/// or the files that prove them do not say so yet.
const WITHOUT_PROOF: &[&str] = &[
    "acp-commands.md#decisions-by-rules",
    "acp-commands.md#wire-log",
    "acp-hosts.md#errors",
    "acp-hosts.md#exit-status",
    "acp-hosts.md#limits",
    "acp-hosts.md#output",
    "acp-relay.md#limits",
    "acp-wire.md#files",
    "acp.md#limits",
    "acp.md#places",
    "acp.md#processes",
    "agents.md#acp",
    "agents.md#oddities",
    "agents.md#proof",
    "agents.md#what-is-run",
    "architecture.md",
    "cli.md#approve",
    "cli.md#attach-detach",
    "cli.md#progress",
    "cli.md#prompt-acp-web-mailbox",
    "cli.md#publish",
    "cli.md#state",
    "config.md",
    "confinement.md#by-kernel",
    "containers.md#control-connection",
    "containers.md#image",
    "containers.md#start-and-end",
    "containers.md#stream-transport",
    "containers.md#what-a-container-is-made-of",
    "decide.md",
    "deviations.md",
    "recipes.md",
    "distribution.md#releases",
    "environment.md",
    "images.md#bases",
    "images.md#lock-file",
    "images.md#of-the-suites",
    "images.md#recipes",
    "images.md#the-gate",
    "images.md#toolchains",
    "keys.md",
    "kubernetes.md#compared-with-docker",
    "kubernetes.md#figures",
    "native.md",
    "network.md#limits",
    "network.md#what-is-not-held",
    "questions.md#frontends",
    "questions.md#verdict",
    "README.md",
    "rules.md#default-rules",
    "rules.md#tables",
    "runner.md#limits-of-the-sidecar",
    "shim.md#a-call",
    "shim.md#relay",
    "trust.md#limits",
    "trust.md#rows",
];

pub(super) fn check(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
    let mut findings = named_tests(pages, sources);
    findings.extend(proven_sections(pages, sources));
    findings
}

/// Checks that a file with tests cites each section.
fn proven_sections(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
    let cited: BTreeSet<&str> = sources
        .iter()
        .filter(|source| has_tests(source))
        .flat_map(|source| source.comments.iter().flat_map(|text| citations(text)))
        .collect();
    let mut findings = Vec::new();
    for page in pages.iter().filter(|page| page.path.starts_with("spec/") && page.path != COVERAGE)
    {
        let is_exempt = |place: &str| WITHOUT_PROOF.contains(&place.trim_start_matches("spec/"));
        for (line, anchor) in sections(&page.text) {
            let place = format!("{}#{anchor}", page.path);
            let is_proven = cited.contains(place.as_str());
            if !is_proven && !is_exempt(&place) && !is_exempt(&page.path) {
                let what = format!("no file with tests names '{place}'");
                findings.push(Finding::at(&page.path, line, what));
            }
            if is_proven && is_exempt(&place) {
                let what = format!("'{place}' has a proof, and is in the list of those without");
                findings.push(Finding::at(&page.path, line, what));
            }
        }
    }
    findings
}

/// Returns whether a file, or a module of its own, has tests.
fn has_tests(source: &Source) -> bool {
    let tokens = source.tokens();
    source.path.starts_with("tests/")
        || tokens.windows(3).any(|it| {
            let [one, two, three] = it else { return false };
            (one.text, two.text) == ("mod", "tests") || (two.text, three.text) == ("test", "]")
        })
}

/// Checks every test that a page names.
fn named_tests(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
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
        let findings = named_tests(&[page(COVERAGE)], &sources);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["spec/coverage.md:2"; 3], "{findings:?}");
        let elsewhere = named_tests(&[page("spec/acp.md")], &sources);
        assert_eq!(elsewhere.len(), 2, "another page may name a module: {elsewhere:?}");
    }

    #[test]
    fn a_section_is_proven_by_a_file_with_tests() {
        let text = "# Page\n\n## One\n\n## Two\n\n## Three\n".to_owned();
        let page = Page { path: "spec/page.md".to_owned(), text };
        let sources = [
            Source::parse("tests/suites/one.rs", "//! Proves `spec/page.md#one`."),
            Source::parse("crates/x/src/two.rs", "//! `spec/page.md#two`.\nmod tests;"),
            Source::parse("crates/x/src/three.rs", "//! `spec/page.md#three`.\nfn three() {}"),
        ];
        let findings = proven_sections(&[page], &sources);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["spec/page.md:7"], "{findings:?}");
    }
}
