//! The files that the budget counts.

use std::collections::BTreeMap;

use crate::tidy::source::{Source, Token};
use crate::tidy::{Page, prose};

/// The workspace files.
pub(in crate::tidy) struct Tree<'a> {
    /// Rust files of crates and of xtask without test modules.
    product: Vec<File<'a>>,
    /// The prose of all comments, by path.
    pub(super) comments: Vec<(&'a str, String)>,
    /// The specification, README and the changelog.
    pub(super) pages: &'a [Page],
    /// The prose of the specification and README, by path.
    pub(super) prose: Vec<(&'a str, String)>,
    /// The data files of crates.
    data: Vec<&'a Page>,
}

/// A file of product code.
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    /// The directory in `crates/` if the file belongs to a crate there.
    pub(super) of: Option<&'a str>,
    pub(super) tokens: Vec<Token<'a>>,
    /// Lines of code.
    lines: usize,
}

impl<'a> Tree<'a> {
    /// `others` are all text files below `crates/` that are not Rust.
    pub(in crate::tidy) fn new(
        sources: &'a [Source],
        pages: &'a [Page],
        others: &'a [Page],
    ) -> Self {
        let mut product = Vec::new();
        let mut tests = Vec::new();
        for source in sources.iter().filter(|source| is_product(&source.path)) {
            let (tokens, items) = source.split_tests();
            let lines = source.lines_without(&items);
            tests.extend(items.iter().filter_map(|item| module_of(&source.path, item)));
            product.push(File { path: &source.path, of: crate_of(&source.path), tokens, lines });
        }
        product.retain(|file| {
            let stem = file.path.strip_suffix(".rs").unwrap_or(file.path);
            let rests = tests.iter().filter_map(|test| stem.strip_prefix(test.as_str()));
            !rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let data = others.iter().filter(|page| is_data(&page.path)).collect();
        let (comments, prose) = (prose::of_comments(sources), prose::of_pages(pages));
        Tree { product, comments, pages, prose, data }
    }

    /// The product code whose paths begin with `start`.
    pub(super) fn below(&self, start: &str) -> impl Iterator<Item = &File<'a>> {
        self.product.iter().filter(move |file| file.path.starts_with(start))
    }

    /// Lines of code of each crate, by directory.
    pub(super) fn crates(&self) -> BTreeMap<&'a str, usize> {
        let mut crates = BTreeMap::new();
        for file in &self.product {
            if let Some(name) = file.of {
                *crates.entry(name).or_default() += file.lines;
            }
        }
        crates
    }

    /// Lines of code and data below `crates/`.
    pub(super) fn lines(&self) -> usize {
        let code = self.below("crates/").map(|file| file.lines);
        code.chain(self.data.iter().map(|page| data_lines(page))).sum()
    }
}

/// Returns whether a Rust file is part of a crate, of xtask, or of several build scripts.
fn is_product(path: &str) -> bool {
    let is_shared = path.starts_with("crates/") && path.matches('/').count() == 1;
    is_shared || path.starts_with("xtask/src/") || crate_of(path).is_some()
}

/// The crate of a source file or build script below `crates/`.
fn crate_of(path: &str) -> Option<&str> {
    let (name, file) = path.strip_prefix("crates/")?.split_once('/')?;
    (file == "build.rs" || file.starts_with("src/")).then_some(name)
}

/// The path of the module that an item `mod NAME;` of a file declares, without its extension.
fn module_of(path: &str, item: &[Token<'_>]) -> Option<String> {
    let [.., keyword, name, end] = item else { return None };
    // With `#[path]` it is elsewhere: among the crate's tests.
    let is_elsewhere = item.iter().any(|token| token.text == "path");
    if (keyword.text, end.text) != ("mod", ";") || is_elsewhere {
        return None;
    }
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let dir = match stem.rsplit_once('/') {
        Some((dir, "lib" | "main" | "mod")) => dir,
        _ => stem,
    };
    Some(format!("{dir}/{}", name.text))
}

/// Returns whether a file is written by hand and part of the product.
fn is_data(path: &str) -> bool {
    let is_generated = path.ends_with(".lock") || path.contains("/snapshots/");
    let is_test = path.contains("/tests/") || path.contains("/examples/");
    !is_generated && !is_test && !path.ends_with("/Cargo.toml")
}

/// Lines that are neither blank nor only a comment.
fn data_lines(page: &Page) -> usize {
    let extension = page.path.rsplit_once('.').unwrap_or_default().1;
    let comment = match extension {
        "Dockerfile" | "part" | "py" | "sh" | "toml" => Some("#"),
        "js" => Some("//"),
        _ => None,
    };
    let is_comment = |line: &str| comment.is_some_and(|comment| line.starts_with(comment));
    let lines = page.text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !is_comment(line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_crates_is_counted_without_tests() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\n#[cfg(test)]\nmod script;\n// why\n\nfn f() {}"),
            ("crates/x/src/script.rs", "fn test() {}"),
            ("crates/x/src/scripts.rs", "fn no_test() {}"),
            (
                "crates/x/src/a.rs",
                "fn f() {}\n#[cfg(test)]\n#[path = \"c.rs\"]\nmod b;\n#[cfg(test)]\nmod tests;",
            ),
            ("crates/x/src/a/tests/more.rs", "fn test() {}"),
            ("crates/x/src/a/b.rs", "fn no_test() {}"),
            ("crates/x/tests/all.rs", "fn test() {}"),
            ("crates/x/examples/one.rs", "fn example() {}"),
            ("crates/y/build.rs", "fn main() {}"),
            ("crates/shared.rs", "fn shared() {}"),
            ("xtask/src/main.rs", "fn main() {}"),
        ];
        let sources = files.map(|(path, text)| Source::parse(path, text));
        let tree = Tree::new(&sources, &[], &[]);
        assert_eq!(tree.crates(), BTreeMap::from([("x", 5), ("y", 1)]));
        assert_eq!(tree.lines(), 7);
        assert_eq!(tree.below("xtask/").count(), 1);
    }

    #[test]
    fn data_is_counted_without_comments() {
        let rows = [
            ("crates/x/rules.toml", "# why\n[a]\n\nb = 1 # one\n", 2),
            ("crates/x/page.js", "// why\nf();\n", 1),
            ("crates/x/help.txt", "# one\n\n// two\n", 2),
            ("crates/x/Cargo.toml", "[package]\n", 0),
            ("crates/x/images.lock", "{}\n", 0),
            ("crates/x/tests/rows.txt", "a\n", 0),
            ("crates/x/src/tests/rows.txt", "a\n", 0),
        ];
        for (path, text, lines) in rows {
            let others = [Page { path: path.to_owned(), text: text.to_owned() }];
            assert_eq!(Tree::new(&[], &[], &others).lines(), lines, "{path}");
        }
    }
}
