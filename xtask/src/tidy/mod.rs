//! `cargo xtask tidy`: checks beyond the compiler's.
//!
//! Each check has a file; each finding is one line, `place: what is wrong`.

mod budget;
mod circles;
mod dependencies;
mod fuzz;
mod leftovers;
mod length;
mod links;
mod manifests;
mod proofs;
mod prose;
mod purity;
mod source;
mod terminal;
mod unsafety;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{shell, workspace};
use budget::Tree;
use source::Source;

/// Runs every check, prints the findings, and fails if there are any. With `--lower` it first lowers the
/// numbers of the budget.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let is_lower = match args {
        [] => false,
        [arg] if arg == "--lower" => true,
        _ => bail!("usage: cargo xtask tidy [--lower]"),
    };
    let packages = workspace::packages()?;
    let fuzz_packages = fuzz::packages()?;
    let fuzz_readme = read(&shell::root().join(fuzz::README))?;
    let sources = rust_sources()?;
    let pages = pages()?;
    let others = other_files()?;
    let tree = Tree::new(&sources, &pages, &others);
    let budget_path = shell::root().join(budget::FILE);
    let mut budget_text = read(&budget_path)?.text;
    if is_lower {
        budget_text = budget::lower(&budget_text, &tree).context(budget::FILE)?;
        fs::write(&budget_path, &budget_text)
            .with_context(|| format!("cannot write {}", budget_path.display()))?;
    }
    let checks: [(&str, Vec<Finding>); 13] = [
        ("dependencies", dependencies::check(&packages, page(&pages, dependencies::PAGE))),
        ("pure crates", purity::check(&sources)),
        ("links", links::check(&pages, &sources)),
        ("unsafe", unsafety::check(&sources)),
        ("terminal", terminal::check(&sources)),
        ("leftovers", leftovers::check(&sources)),
        ("manifests", manifests::check(&[packages, fuzz_packages.clone()].concat())),
        ("fuzz targets", fuzz::check(&fuzz_packages, &sources, &fuzz_readme.text)),
        ("proofs", proofs::check(&pages, &sources)),
        ("length", length::check(&sources)),
        ("prose", prose::check(&pages, &sources)),
        ("circles", circles::check(&sources)),
        ("budget", budget::check(&budget_text, &tree)),
    ];
    for (name, findings) in &checks {
        match findings.len() {
            0 => eprintln!("{name}: ok"),
            count => eprintln!("{name}: {count} findings"),
        }
        for Finding { place, what } in findings {
            eprintln!("  {place}: {what}");
        }
    }
    match checks.iter().map(|(_, findings)| findings.len()).sum::<usize>() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

/// A finding.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// A path below the workspace root, with a line if there is one.
    place: String,
    /// The fault.
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Finding { place: place.into(), what: what.into() }
    }

    /// `line` counts from 0; the output counts from 1.
    fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Finding::new(format!("{path}:{}", line + 1), what)
    }
}

/// A text file, with its path below the workspace root.
struct Page {
    path: String,
    text: String,
}

fn page<'a>(pages: &'a [Page], path: &str) -> Option<&'a str> {
    pages.iter().find(|page| page.path == path).map(|page| page.text.as_str())
}

fn pages() -> Result<Vec<Page>> {
    let mut paths = vec![shell::root().join("README.md"), shell::root().join("CHANGELOG.md")];
    paths.extend(files("spec")?.into_iter().filter(|path| has_extension(path, "md")));
    paths.iter().map(|path| read(path)).collect()
}

fn rust_sources() -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for dir in ["crates", "examples", "fuzz", "tests", "xtask"] {
        paths.extend(files(dir)?.into_iter().filter(|path| has_extension(path, "rs")));
    }
    let parse = |path: &PathBuf| read(path).map(|page| Source::parse(&page.path, &page.text));
    paths.iter().map(parse).collect()
}

/// The text files below `crates/` that are not Rust.
fn other_files() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for path in files("crates")?.iter().filter(|path| !has_extension(path, "rs")) {
        match read(path) {
            Ok(page) => pages.push(page),
            Err(error) if is_binary(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pages)
}

fn is_binary(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|it| it == extension)
}

/// The files below the workspace directory, sorted, without build output.
fn files(dir: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(&shell::root().join(dir), &mut found)?;
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type()? {
            kind if kind.is_dir() && entry.file_name() != "target" => walk(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Page> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let below = path.strip_prefix(shell::root()).unwrap_or(path);
    Ok(Page { path: below.to_string_lossy().into_owned(), text })
}
