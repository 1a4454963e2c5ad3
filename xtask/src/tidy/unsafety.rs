//! Checks that `unsafe` occurs in one directory only, and has a SAFETY comment there.

use super::Finding;
use super::source::Source;

/// The only directory whose files may contain `unsafe`.
const ALLOWED: &str = "crates/process/src/sys/";

/// Finds `unsafe` outside of [`ALLOWED`], and `unsafe` without a SAFETY comment in it.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(scan).collect()
}

fn scan(source: &Source) -> Vec<Finding> {
    let tokens = source.tokens();
    let lines = tokens.iter().filter(|token| token.text == "unsafe").map(|token| token.line);
    let is_allowed = source.path.starts_with(ALLOWED);
    let problem = |line: usize| match is_allowed {
        true if has_reason(source, line) => None,
        true => Some(Finding::at(&source.path, line, "unsafe without a SAFETY comment above it")),
        false => Some(Finding::at(&source.path, line, format!("unsafe outside of {ALLOWED}"))),
    };
    lines.filter_map(problem).collect()
}

/// True if a SAFETY comment (or a `# Safety` section) stands on the line, or above it: comments,
/// attributes and the earlier lines of the same statement lie between.
fn has_reason(source: &Source, line: usize) -> bool {
    let says = |line: usize| {
        let comment = source.comments.get(line).map(String::as_str).unwrap_or_default();
        comment.contains("SAFETY:") || comment.contains("# Safety")
    };
    if says(line) {
        return true;
    }
    for above in (0..line).rev() {
        let code = source.code.get(above).map(|code| code.trim()).unwrap_or_default();
        let comment = source.comments.get(above).map(|text| text.trim()).unwrap_or_default();
        if says(above) {
            return true;
        }
        let is_attribute = code.starts_with("#[");
        let ends_a_statement = code.ends_with([';', '{', '}', ',']) && !is_attribute;
        let is_empty = code.is_empty() && comment.is_empty();
        if ends_a_statement || is_empty {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        check(&[Source::parse(path, text)]).into_iter().map(|finding| finding.place).collect()
    }

    const FILE: &str = "crates/process/src/sys/spawn.rs";

    #[test]
    fn the_reason_stands_above() {
        let good = [
            "// SAFETY: it is.\nunsafe { f() }",
            "// SAFETY: it\n// is.\nlet x =\n    unsafe { f() };",
            "/// # Safety\n///\n/// Hold it.\n#[inline]\npub unsafe fn f() {}",
            "unsafe { f() } // SAFETY: it is.",
            "// unsafe in a comment\nlet s = \"unsafe\"; let unsafe_code = 1;",
        ];
        for text in good {
            assert_eq!(places(FILE, text), [""; 0], "{text}");
        }
        let bad = [
            ("unsafe { f() }", 1),
            ("// SAFETY: another.\ng();\nunsafe { f() }", 3),
            ("// SAFETY: too far.\n\nunsafe { f() }", 3),
            ("// SAFETY: outside.\nfn g() {\nunsafe { f() }", 3),
        ];
        for (text, line) in bad {
            assert_eq!(places(FILE, text), [format!("{FILE}:{line}")], "{text}");
        }
    }

    #[test]
    fn elsewhere_no_reason_counts() {
        let text = "// SAFETY: it is.\nunsafe { f() }";
        for path in ["crates/wire/src/lib.rs", "crates/process/src/spawn.rs"] {
            assert_eq!(places(path, text), [format!("{path}:2")]);
        }
    }
}
