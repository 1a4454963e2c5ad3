//! Compares sizes with the numbers in `xtask/budget.toml`.
//!
//! A count above its number is a finding: each rise is a changed line. A count below its number is none;
//! `cargo xtask tidy --lower` writes lower numbers.

mod counts;
mod tree;

use std::collections::BTreeMap;

use counts::{sequences, variants};
use serde::Deserialize;
use toml::Spanned;

use super::source::Token;
use super::{Finding, prose};
pub(super) use tree::Tree;

/// The file with the numbers.
pub(super) const FILE: &str = "xtask/budget.toml";

// The places of counted tables: a file, or the beginning of the paths of several.
const KEYS: &str = "crates/config/src/table.rs";
const CLI: &str = "crates/aifo-coder/src/cli";
const VARIABLES: &str = "crates/types/src/env.rs";
const FRAMES: &str = "crates/wire/src/frame_codes.rs";

/// The crates that are binaries.
const BINARIES: [&str; 2] = ["aifo-coder", "aifo-shim"];

/// The maximum length of a function that is not long, in lines from `fn` to the closing brace.
const MAX_FUNCTION_LINES: usize = 60;

/// Compares every count with its number.
pub(super) fn check(text: &str, tree: &Tree<'_>) -> Vec<Finding> {
    let budget = match Budget::parse(text) {
        Ok(budget) => budget,
        Err(error) => return vec![Finding::new(FILE, error.to_string())],
    };
    let sections =
        [("code", &budget.code, crates(tree)), ("counts", &budget.counts, counts(tree, &budget))];
    let compare = |(section, numbers, rows)| compare(text, section, numbers, rows);
    sections.into_iter().flat_map(compare).collect()
}

/// Returns the text of the file with lower numbers where counts are lower. Other text is unchanged.
pub(super) fn lower(text: &str, tree: &Tree<'_>) -> Result<String, toml::de::Error> {
    let budget = Budget::parse(text)?;
    let rows = [(&budget.code, crates(tree)), (&budget.counts, counts(tree, &budget))];
    let mut changes = Vec::new();
    for (numbers, rows) in rows {
        for row in rows.iter().filter(|row| row.is_found()) {
            let number = numbers.get(row.name).filter(|number| row.number < *number.get_ref());
            changes.extend(number.map(|number| (number.span(), row.written())));
        }
    }
    // From the end, so that the places before stay.
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, number) in changes {
        text.replace_range(span, &number);
    }
    Ok(text)
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    code: Numbers,
    counts: Numbers,
    accepted: Accepted,
}

/// The numbers of a section by name.
type Numbers = BTreeMap<String, Spanned<f64>>;

/// Exceptions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    types: Vec<String>,
}

impl Budget {
    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// A count.
struct Row<'a> {
    name: &'a str,
    count: f64,
    /// The count rounded up, and its decimals in the file.
    number: f64,
    decimals: usize,
    /// The counted places if they are worth listing.
    places: Vec<Finding>,
    /// The place of a table that has at least one row.
    table: Option<&'static str>,
}

impl<'a> Row<'a> {
    fn new(name: &'a str, count: f64, round: fn(f64) -> f64) -> Self {
        Row { name, count, number: round(count), decimals: 0, places: Vec::new(), table: None }
    }

    fn of_lines(name: &'a str, lines: usize) -> Self {
        Row::new(name, lines as f64, |lines| (lines / 100.0).ceil() * 100.0)
    }

    fn of_rate(name: &'a str, rate: f64) -> Self {
        Row { decimals: 1, ..Row::new(name, rate, |rate| (rate * 10.0).ceil() / 10.0) }
    }

    fn of_places(name: &'a str, places: Vec<Finding>) -> Self {
        let row = Row::new(name, places.len() as f64, f64::ceil);
        Row { places, ..row }
    }

    /// Returns the number as the file has it.
    fn written(&self) -> String {
        format!("{:.*}", self.decimals, self.number)
    }

    /// Returns whether the row counts what it is meant to: the counted table is in its place.
    fn is_found(&self) -> bool {
        self.table.is_none() || self.count > 0.0
    }
}

/// The rows of `[code]`.
fn crates<'a>(tree: &Tree<'a>) -> Vec<Row<'a>> {
    tree.crates().into_iter().map(|(name, lines)| Row::of_lines(name, lines)).collect()
}

/// The rows of `[counts]`.
fn counts(tree: &Tree<'_>, budget: &Budget) -> Vec<Row<'static>> {
    let table = |name, path, count: &dyn Fn(&[Token<'_>]) -> usize| {
        let count = tree.below(path).map(|file| count(&file.tokens)).sum::<usize>();
        Row { table: Some(path), ..Row::new(name, count as f64, f64::ceil) }
    };
    let in_libraries = |file: &&tree::File<'_>| file.of.is_some_and(|of| !BINARIES.contains(&of));
    let anyhow = tree.below("crates/").filter(in_libraries);
    let anyhow = anyhow.map(|file| sequences(&file.tokens, &["anyhow"])).sum::<usize>();
    let words = tree.pages.iter().filter(|page| page.path != "CHANGELOG.md");
    let words = words.map(|page| page.text.split_whitespace().count()).sum::<usize>();
    vec![
        Row::of_lines("sum", tree.lines()),
        Row::of_places("re_exports", re_exports(tree)),
        Row::of_places("shared_types", shared_types(tree, &budget.accepted.types)),
        Row::new("anyhow", anyhow as f64, f64::ceil),
        table("config_keys", KEYS, &counts::table_rows),
        table("config_flags", KEYS, &|tokens| sequences(tokens, &[".", "flag", "("])),
        table("args", CLI, &|tokens| sequences(tokens, &["#", "[", "arg"])),
        table("commands", CLI, &|tokens| variants(tokens, |name| name == "Command")),
        table("subcommands", CLI, &|tokens| {
            variants(tokens, |name| name.len() > "Command".len() && name.ends_with("Command"))
        }),
        table("variables", VARIABLES, &counts::text_constants),
        table("frame_kinds", FRAMES, &|tokens| variants(tokens, |name| name == "FrameKind")),
        Row::of_places("long_functions", long_functions(tree)),
        Row::new("words", words as f64, |words| (words / 500.0).ceil() * 500.0),
        Row::of_rate("articles_in_comments", prose::rate_of_articles(&tree.comments)),
        Row::of_rate("possessives_in_comments", prose::rate_of_possessives(&tree.comments)),
        Row::of_rate("articles_in_pages", prose::rate_of_articles(&tree.prose)),
        Row::of_rate("possessives_in_pages", prose::rate_of_possessives(&tree.prose)),
    ]
}

/// Names of other crates that a crate exports.
fn re_exports(tree: &Tree<'_>) -> Vec<Finding> {
    let what = "exports a name of another crate";
    let lines = |file: &tree::File<'_>| {
        let lines = counts::re_exports(&file.tokens).into_iter();
        lines.map(|line| Finding::at(file.path, line, what)).collect::<Vec<_>>()
    };
    tree.below("crates/").flat_map(lines).collect()
}

/// Names of public types that several crates define, without the accepted ones.
fn shared_types(tree: &Tree<'_>, accepted: &[String]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in tree.below("crates/") {
        for name in counts::public_types(&file.tokens) {
            let crates = crates.entry(name).or_default();
            crates.extend(file.of.filter(|of| !crates.contains(of)));
        }
    }
    crates.retain(|name, crates| crates.len() > 1 && !accepted.iter().any(|it| it == name));
    let finding = |(name, crates): (&str, Vec<&str>)| {
        Finding::new("crates", format!("several define a type '{name}': {}", crates.join(" ")))
    };
    crates.into_iter().map(finding).collect()
}

fn long_functions(tree: &Tree<'_>) -> Vec<Finding> {
    let long = |file: &tree::File<'_>| {
        let functions = counts::functions(&file.tokens).into_iter();
        let long = functions.filter(|(_, lines)| *lines > MAX_FUNCTION_LINES);
        let finding =
            |(at, lines)| Finding::at(file.path, at, format!("a function has {lines} lines"));
        long.map(finding).collect::<Vec<_>>()
    };
    tree.below("").flat_map(long).collect()
}

/// Compares the rows of a section with its numbers, both ways.
fn compare(text: &str, section: &str, numbers: &Numbers, rows: Vec<Row<'_>>) -> Vec<Finding> {
    let at = |number: &Spanned<f64>, what: String| {
        Finding::at(FILE, text[..number.span().start].matches('\n').count(), what)
    };
    let mut findings = Vec::new();
    for (name, number) in numbers {
        if !rows.iter().any(|row| row.name == name) {
            findings.push(at(number, format!("'{name}' counts nothing; remove the row")));
        }
    }
    for row in rows {
        // Rates have more digits than are of use.
        let (name, count) = (row.name, (row.count * 1000.0).round() / 1000.0);
        let Some(number) = numbers.get(name) else {
            let what = format!("[{section}] has no row '{name}'; add `{name} = {}`", row.written());
            findings.push(Finding::new(FILE, what));
            continue;
        };
        if let Some(path) = row.table.filter(|_| !row.is_found()) {
            let what = format!("'{name}' is 0 in {path}; correct the path in tidy/budget.rs");
            findings.push(at(number, what));
        } else if row.count > *number.get_ref() {
            let what = format!(
                "'{name}' is {count}, above its number {}; a rise is a line in a commit of its own that says why",
                number.get_ref()
            );
            findings.push(at(number, what));
            findings.extend(row.places);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Page;
    use crate::tidy::source::Source;

    const TEXT: &str = "\
# Numbers.
[code]
a = 200
b = 100 # a binary

[counts]
sum = 300
re_exports = 0
";

    fn found(text: &str, section: &str, rows: Vec<Row<'_>>) -> Vec<String> {
        let numbers: BTreeMap<String, Numbers> = toml::from_str(text).unwrap();
        let findings = compare(text, section, &numbers[section], rows);
        findings.into_iter().map(|it| format!("{}: {}", it.place, it.what)).collect()
    }

    #[test]
    fn a_count_above_its_number_is_a_finding() {
        let rows = |a, b| vec![Row::of_lines("a", a), Row::of_lines("b", b)];
        assert_eq!(found(TEXT, "code", rows(200, 1)), [""; 0]);
        assert_eq!(
            found(TEXT, "code", rows(201, 100)),
            [
                "xtask/budget.toml:3: 'a' is 201, above its number 200; a rise is a line in a commit of its own that \
                 says why"
            ]
        );
        let places = vec![Finding::new("crates/a/src/lib.rs:1", "exports")];
        let rows = vec![Row::of_lines("sum", 1), Row::of_places("re_exports", places)];
        assert_eq!(found(TEXT, "counts", rows)[1], "crates/a/src/lib.rs:1: exports");
    }

    #[test]
    fn rows_and_counts_belong_together() {
        let rows = vec![Row::of_lines("a", 1), Row::of_lines("c", 101)];
        let expected = [
            "xtask/budget.toml:4: 'b' counts nothing; remove the row",
            "xtask/budget.toml: [code] has no row 'c'; add `c = 200`",
        ];
        assert_eq!(found(TEXT, "code", rows), expected);
        let moved = Row { table: Some("crates/x"), ..Row::of_places("re_exports", Vec::new()) };
        let rows = vec![Row::of_lines("sum", 1), moved];
        let expected = [
            "xtask/budget.toml:8: 're_exports' is 0 in crates/x; correct the path in tidy/budget.rs",
        ];
        assert_eq!(found(TEXT, "counts", rows), expected);
    }

    #[test]
    fn numbers_round_up() {
        let number = |row: Row<'_>| row.written();
        assert_eq!(number(Row::of_lines("a", 100)), "100");
        assert_eq!(number(Row::of_lines("a", 101)), "200");
        assert_eq!(number(Row::of_rate("a", 9.21)), "9.3");
        assert_eq!(number(Row::of_rate("a", 9.0)), "9.0");
    }

    #[test]
    fn only_lower_numbers_are_written() {
        let names = counts(
            &Tree::new(&[], &[], &[]),
            &Budget::parse("[code]\n[counts]\n[accepted]\ntypes = []").unwrap(),
        );
        let numbers: String = names.iter().map(|row| format!("{} = 7 # why\n", row.name)).collect();
        let text = format!(
            "[code]\nx = 900 # x\ny = 1\n\n[counts]\n{numbers}[accepted]\ntypes = [\"Error\"]\n"
        );
        let code = format!("pub struct Error; pub struct A;\n{}", "f();\n".repeat(150));
        let sources = [
            Source::parse("crates/x/src/lib.rs", &code),
            Source::parse("crates/y/src/lib.rs", &code),
        ];
        let pages =
            [Page { path: "README.md".to_owned(), text: "the end of the pipe's".to_owned() }];
        let lowered = lower(&text, &Tree::new(&sources, &pages, &[])).unwrap();
        let mut expected = text.replace("x = 900 # x", "x = 200 # x");
        for name in ["re_exports", "anyhow", "long_functions"] {
            expected = expected.replace(&format!("{name} = 7"), &format!("{name} = 0"));
        }
        for name in ["articles_in_comments", "possessives_in_comments"] {
            expected = expected.replace(&format!("{name} = 7"), &format!("{name} = 0.0"));
        }
        expected = expected.replace("shared_types = 7", "shared_types = 1");
        assert_eq!(lowered, expected);
        assert_eq!(lower(&lowered, &Tree::new(&sources, &pages, &[])).unwrap(), lowered);
    }

    #[test]
    fn a_broken_file_is_a_finding() {
        for text in ["", "[code]\na = \"1\"\n[counts]\n[accepted]\ntypes = []", "[code]\na"] {
            assert_eq!(check(text, &Tree::new(&[], &[], &[])).len(), 1, "{text}");
        }
    }
}
