//! Files of more than 400 lines before their tests.

use super::Finding;
use super::source::Source;

/// Lines before tests that a file may have.
const MAX_LINES: usize = 400;

/// Checks every file of a crate or of xtask.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| is_product(&source.path)).filter_map(check_file).collect()
}

fn is_product(path: &str) -> bool {
    (path.starts_with("crates/") || path.starts_with("xtask/")) && path.contains("/src/")
}

fn check_file(source: &Source) -> Option<Finding> {
    let lines = lines(source);
    (lines > MAX_LINES).then(|| {
        let what = format!("has {lines} lines before its tests: split it by its second idea");
        Finding::new(&source.path, what)
    })
}

/// The lines before the first module under `#[cfg(test)]`.
fn lines(source: &Source) -> usize {
    let gate = source.code.iter().position(|line| line.trim() == "#[cfg(test)]");
    let is_module = |at: usize| source.code.get(at + 1).is_some_and(|line| line.contains("mod "));
    gate.filter(|at| is_module(*at)).unwrap_or(source.code.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        let code = "fn a() {}\n".repeat(MAX_LINES);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let check = |text: &str| check_file(&Source::parse("crates/x/src/y.rs", text)).is_some();
        assert!(!check(&format!("{code}{tests}")));
        assert!(check(&format!("{code}fn b() {{}}\n{tests}")));
    }
}
