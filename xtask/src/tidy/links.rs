//! Checks links in pages and citations of `spec/` in Rust comments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::source::Source;
use super::{Finding, Page};
use crate::shell;

/// Checks the links of all pages, then the citations of all sources.
pub(super) fn check(pages: &[Page], sources: &[Source]) -> Vec<Finding> {
    let targets = Targets {
        anchors: pages.iter().map(|page| (page.path.clone(), anchors(&page.text))).collect(),
        is_there: |path| shell::root().join(path).exists(),
    };
    let in_pages = pages.iter().flat_map(|page| targets.check_page(page));
    let in_sources = sources.iter().flat_map(|source| targets.check_citations(source));
    in_pages.chain(in_sources).collect()
}

/// The valid link targets.
struct Targets {
    /// The anchors of each page, by its path below the root.
    anchors: BTreeMap<String, BTreeSet<String>>,
    /// Returns whether a path below the root exists.
    is_there: fn(&str) -> bool,
}

impl Targets {
    fn check_page(&self, page: &Page) -> Vec<Finding> {
        let dir = Path::new(&page.path).parent().unwrap_or(Path::new(""));
        let mut findings = Vec::new();
        for (line, text) in prose(&page.text) {
            for target in link_targets(&without_code(text)) {
                if let Some(what) = self.broken(&page.path, dir, target) {
                    findings.push(Finding::at(&page.path, line, what));
                }
            }
        }
        findings
    }

    fn check_citations(&self, source: &Source) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (line, text) in source.comments.iter().enumerate() {
            for target in citations(text) {
                if let Some(what) = self.broken(&source.path, Path::new(""), target) {
                    findings.push(Finding::at(&source.path, line, what));
                }
            }
        }
        findings
    }

    /// Returns why a link from `here`, relative to `dir`, is broken.
    fn broken(&self, here: &str, dir: &Path, target: &str) -> Option<String> {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { here.to_owned() } else { normal(&dir.join(path))? };
        if !(self.is_there)(&path) {
            return Some(format!("'{target}' points to {path}, which does not exist"));
        }
        let anchors = self.anchors.get(&path).filter(|_| !anchor.is_empty())?;
        (!anchors.contains(anchor)).then(|| format!("{path} has no heading for '#{anchor}'"))
    }
}

/// Normalises `.` and `..`; `None` if the path is outside the workspace.
fn normal(path: &Path) -> Option<String> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !clean.pop() => return None,
            Component::Normal(name) => clean.push(name),
            _ => {}
        }
    }
    Some(clean.to_string_lossy().into_owned())
}

/// The lines of a page outside fences, numbered from 0.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => lines.push((number, line)),
            (Some(_), _) => {}
        }
    }
    lines
}

/// Removes code spans from a line. Each leaves an `x`, so that a link around code stays a link.
fn without_code(line: &str) -> String {
    let spans = line.split('`').enumerate();
    spans.map(|(index, span)| if index % 2 == 0 { span } else { "x" }).collect()
}

/// The targets of `[text](target)` and `[label]: target` that point into this workspace.
fn link_targets(line: &str) -> Vec<&str> {
    let inline = line.match_indices("](").filter_map(|(at, mark)| {
        let rest = line.get(at + mark.len()..)?;
        rest.split([')', ' ']).next()
    });
    let reference = line.strip_prefix('[').and_then(|rest| Some(rest.split_once("]: ")?.1.trim()));
    let outside = |target: &&str| target.contains("://") || target.starts_with("mailto:");
    inline.chain(reference).filter(|target| !outside(target)).collect()
}

/// The anchors of a page, as GitHub makes them: a repeated heading gets `-1`, `-2`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for heading in headings(text) {
        let slug = slug(heading);
        let count = seen.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// The lines and anchors of a page's headings below its title.
pub(super) fn sections(text: &str) -> Vec<(usize, String)> {
    let lines = prose(text).into_iter().filter(|(_, line)| line.starts_with("##"));
    lines.map(|(number, line)| (number, slug(line.trim_start_matches('#').trim()))).collect()
}

fn headings(text: &str) -> Vec<&str> {
    let heading = |line: &'_ str| {
        let depth = line.len() - line.trim_start_matches('#').len();
        let is_heading = (1..=6).contains(&depth) && line[depth..].starts_with(' ');
        is_heading.then_some(depth)
    };
    let lines = prose(text).into_iter();
    lines.filter_map(|(_, line)| Some(line[heading(line)?..].trim())).collect()
}

/// A heading's anchor: lower case, spaces become `-`, punctuation is removed, link text stays.
fn slug(heading: &str) -> String {
    let mut text = heading.to_owned();
    while let Some((before, rest)) = text.split_once("](")
        && let Some((_, after)) = rest.split_once(')')
    {
        text = format!("{before}{after}");
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The citations in a comment: a page of `spec/`, with its anchor if there is one.
pub(super) fn citations(comment: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in comment.match_indices("spec/") {
        let rest = &comment[at..];
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
        let stem = rest.find(|c| !name(c)).unwrap_or(rest.len());
        let Some(after) = rest[stem..].strip_prefix(".md") else { continue };
        let anchor = after.strip_prefix('#').map_or(0, |anchor| {
            1 + anchor
                .find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'))
                .unwrap_or(anchor.len())
        });
        found.push(&rest[..stem + ".md".len() + anchor]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_githubs() {
        let rows = [
            ("Exit codes", "exit-codes"),
            ("v2: streaming", "v2-streaming"),
            ("`POST /exec`", "post-exec"),
            ("What is ours *", "what-is-ours-"),
            ("A [link](x.md#y) inside", "a-link-inside"),
            ("snake_case - and more", "snake_case---and-more"),
            ("Größe", "größe"),
        ];
        for (heading, anchor) in rows {
            assert_eq!(slug(heading), anchor, "{heading}");
        }
        let page = "# One\n## One\n```\n# Not\n```\n#tag\n### Two\n";
        let expected = ["one", "one-1", "two"].map(str::to_owned);
        assert_eq!(anchors(page), BTreeSet::from(expected));
    }

    #[test]
    fn link_targets_of_a_line() {
        let rows: [(&str, &[&str]); 7] = [
            ("see [a](b.md) and [c](#d)", &["b.md", "#d"]),
            ("[site](https://example.org/x) [mail](mailto:a@b)", &[]),
            ("[titled](b.md \"title\")", &["b.md"]),
            ("[ref]: ../LICENSE-MIT", &["../LICENSE-MIT"]),
            ("`[not](a.md)` but [this](b.md)", &["b.md"]),
            ("[`code`](c.md)", &["c.md"]),
            ("plain (text)", &[]),
        ];
        for (line, expected) in rows {
            assert_eq!(link_targets(&without_code(line)), expected, "{line}");
        }
    }

    #[test]
    fn citations_of_a_comment() {
        let rows: [(&str, &[&str]); 5] = [
            ("/// (`spec/toolexec.md#v2-streaming`).", &["spec/toolexec.md#v2-streaming"]),
            ("// see spec/shim.md.", &["spec/shim.md"]),
            ("// spec/a.md#b, spec/c/d.md#e_f", &["spec/a.md#b", "spec/c/d.md#e_f"]),
            ("// the directory spec/ and its pages", &[]),
            ("// spec/*.md", &[]),
        ];
        for (comment, expected) in rows {
            assert_eq!(citations(comment), expected, "{comment}");
        }
    }

    #[test]
    fn broken_links_are_reported() {
        let targets = Targets {
            anchors: BTreeMap::from([("spec/a.md".to_owned(), anchors("# Head\n"))]),
            is_there: |path| matches!(path, "spec/a.md" | "LICENSE-MIT" | "spec"),
        };
        let broken = |target: &str| targets.broken("spec/a.md", Path::new("spec"), target);
        for target in ["#head", "a.md#head", "./a.md", "../spec/a.md", "../LICENSE-MIT", "."] {
            assert_eq!(broken(target), None, "{target}");
        }
        assert_eq!(broken("#tail").as_deref(), Some("spec/a.md has no heading for '#tail'"));
        assert_eq!(
            broken("b.md").as_deref(),
            Some("'b.md' points to spec/b.md, which does not exist")
        );
    }

    #[test]
    fn places_are_lines_of_the_file() {
        let targets = Targets { anchors: BTreeMap::new(), is_there: |_| false };
        let page =
            Page { path: "README.md".into(), text: "# A\n```\n[x](y)\n```\n[x](z)\n".into() };
        let places: Vec<String> = targets.check_page(&page).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["README.md:5"]);
        let source = Source::parse("a.rs", "let x = \"spec/x.md\";\n// spec/y.md\n");
        let places: Vec<String> =
            targets.check_citations(&source).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["a.rs:2"]);
    }
}
