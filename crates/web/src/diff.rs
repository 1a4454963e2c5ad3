//! Line diffs of edits.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::block::{DiffKind, DiffLine};

/// Compares two texts by lines. Returns whether lines were left out at the end.
pub(crate) fn diff(old: &str, new: &str) -> (Vec<DiffLine>, bool) {
    let (old, old_cut) = shortened(old);
    let (new, new_cut) = shortened(new);
    let diff =
        TextDiff::configure().algorithm(Algorithm::Myers).timeout(TIMEOUT).diff_lines(old, new);
    let mut lines = Vec::new();
    let mut is_cut = old_cut || new_cut;
    for (index, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        let skips = group.first().is_some_and(|op| op.new_range().start > 0);
        if index > 0 || skips {
            let at = group.first().map_or(0, |op| op.new_range().start).saturating_add(1);
            lines.push(DiffLine(DiffKind::Gap, format!("line {at}")));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let kind = match change.tag() {
                ChangeTag::Equal => DiffKind::Same,
                ChangeTag::Insert => DiffKind::Added,
                ChangeTag::Delete => DiffKind::Removed,
            };
            if lines.len() >= MOST_LINES {
                is_cut = true;
                break;
            }
            lines.push(DiffLine(kind, change.value().trim_end_matches(['\r', '\n']).to_owned()));
        }
    }
    (lines, is_cut)
}

fn shortened(text: &str) -> (&str, bool) {
    let end = text.floor_char_boundary(MOST_BYTES);
    (text.get(..end).unwrap_or_default(), end < text.len())
}

/// The longest time for one diff; after that it is correct but longer than needed.
const TIMEOUT: Duration = Duration::from_millis(50);
/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Lines of a diff that are shown.
const MOST_LINES: usize = 2000;
/// Bytes of each side that are compared.
const MOST_BYTES: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let sign = |kind| match kind {
            DiffKind::Same => ' ',
            DiffKind::Added => '+',
            DiffKind::Removed => '-',
            DiffKind::Gap => '@',
        };
        let (lines, _) = diff(old, new);
        lines.iter().map(|DiffLine(kind, text)| format!("{}{text}\n", sign(*kind))).collect()
    }

    #[test]
    fn changes_have_context() {
        assert_eq!(shown("", "a\nb\n"), "+a\n+b\n");
        assert_eq!(shown("a\nb\n", "a\nc\n"), " a\n-b\n+c\n");
        assert_eq!(shown("a\r\n", "a\r\n"), "");
        let old: String = (0..20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n15\n", "\nx\n");
        assert_eq!(shown(&old, &new), "@line 13\n 12\n 13\n 14\n-15\n+x\n 16\n 17\n 18\n");
    }

    #[test]
    fn a_large_diff_is_bounded() {
        let text =
            |word: &str| (0..200_000).map(|line| format!("{word}{line}\n")).collect::<String>();
        let (lines, is_cut) = diff(&text("a"), &text("b"));
        assert!(is_cut && lines.len() <= MOST_LINES);
    }
}
