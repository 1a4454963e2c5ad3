//! Checks the manifest of `fuzz/`, which is a workspace of its own.
//!
//! Every target is a binary of the manifest and a row of the README, and no other binary or row exists.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::Finding;
use super::source::Source;
use crate::workspace::{self, Package};

const MANIFEST: &str = "fuzz/Cargo.toml";
pub(super) const README: &str = "fuzz/README.md";

/// Returns the packages of `fuzz/`. Fails if the manifest is invalid or names a crate that does not
/// exist.
pub(super) fn packages() -> Result<Vec<Package>> {
    workspace::packages_of(MANIFEST).with_context(|| format!("cannot read {MANIFEST}"))
}

/// Compares the binaries of the manifest, the files of `fuzz_targets` and the README's rows.
pub(super) fn check(packages: &[Package], sources: &[Source], readme: &str) -> Vec<Finding> {
    let binaries: BTreeSet<&str> = packages.iter().flat_map(|it| it.targets_of("bin")).collect();
    let file = |source: &'_ Source| {
        let name = source.path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs")?;
        Some(name.to_owned())
    };
    let files: BTreeSet<String> = sources.iter().filter_map(file).collect();
    let row = |line: &str| line.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    let rows: BTreeSet<String> = readme.lines().filter_map(row).collect();
    let names: BTreeSet<&str> =
        files.iter().chain(&rows).map(String::as_str).chain(binaries.iter().copied()).collect();
    let missing = |name: &&str| {
        let absent = [
            (!binaries.contains(*name)).then_some(MANIFEST),
            (!files.contains(*name)).then_some("fuzz/fuzz_targets"),
            (!rows.contains(*name)).then_some(README),
        ];
        let what = format!("has no target '{name}'");
        absent
            .into_iter()
            .flatten()
            .map(move |place| Finding::new(place, &what))
            .collect::<Vec<_>>()
    };
    names.iter().flat_map(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_in_all_three_places() {
        let targets =
            vec![("bin".to_owned(), "head".to_owned()), ("lib".to_owned(), "x".to_owned())];
        let package = Package { targets, ..Package::default() };
        let sources = [Source::parse("fuzz/fuzz_targets/head.rs", "")];
        let readme = "| target | input |\n| --- | --- |\n| `head` | requests |\n";
        assert_eq!(check(std::slice::from_ref(&package), &sources, readme), []);
        let found = check(&[package], &[], "| `form` | bodies |\n");
        let found: Vec<String> =
            found.iter().map(|it| format!("{}: {}", it.place, it.what)).collect();
        let expected = [
            "fuzz/Cargo.toml: has no target 'form'",
            "fuzz/fuzz_targets: has no target 'form'",
            "fuzz/fuzz_targets: has no target 'head'",
            "fuzz/README.md: has no target 'head'",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_manifest_is_read() {
        let packages = packages().unwrap();
        assert!(packages.iter().any(|package| package.targets_of("bin").contains(&"head")));
    }
}
