//! Detects the kinds of a project by its files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aifo_policy::kinds;
use aifo_types::Kind;

/// Directories with generated or third-party files.
const SKIPPED_DIRECTORIES: &[&str] = &["target", "node_modules", "build", "dist", "vendor", "venv"];

/// Limit of entries over all directories.
const MAX_ENTRIES: usize = 4096;

/// Returns the kinds of the files at the root and in its subdirectories, in the order of the table
/// of kinds.
pub fn detect_kinds(workspace: &Path) -> Vec<Kind> {
    let mut found = BTreeSet::new();
    let mut left = MAX_ENTRIES;
    let mut directories = vec![workspace.to_owned()];
    scan_directory(workspace, &mut found, &mut left, |directory| directories.push(directory));
    for directory in directories.iter().skip(1) {
        scan_directory(directory, &mut found, &mut left, |_| ());
    }
    kinds().iter().filter(|spec| found.contains(spec.name)).map(|spec| spec.kind()).collect()
}

fn scan_directory(
    directory: &Path,
    found: &mut BTreeSet<&'static str>,
    left: &mut usize,
    mut below: impl FnMut(std::path::PathBuf),
) {
    // Unreadable directories are skipped.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&name) {
                below(entry.path());
            }
            continue;
        }
        let matches = |marker: &str| {
            name == marker
                || (marker.starts_with('.') && name.len() > marker.len() && name.ends_with(marker))
        };
        let matching = kinds().iter().filter(|spec| spec.markers.iter().any(|it| matches(it)));
        found.extend(matching.map(|spec| spec.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_at_the_root_and_just_below() {
        let base = std::env::temp_dir().join(format!("aifo-detect-{}", std::process::id()));
        let check = |files: &[&str], expected: &[&str]| {
            for file in files {
                let path = base.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            let kinds: Vec<_> = detect_kinds(&base).iter().map(|k| k.to_string()).collect();
            assert_eq!(kinds, expected, "{files:?}");
            fs::remove_dir_all(&base).unwrap();
        };
        check(&["README.md", "x.rs"], &[]);
        check(&["Cargo.toml", "src/main.rs"], &["rust"]);
        check(&["sub/go.mod", "web/package.json"], &["go", "node"]);
        check(&["app.py", "Makefile"], &["c-cpp", "python"]);
        check(&["node_modules/x.js", ".git/hook.py", "a/b/main.c"], &[]);
    }
}
