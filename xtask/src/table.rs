//! Tables for terminals.

/// Lays out rows under a header: the first column to the left, the others to the right, each as
/// wide as its widest cell.
pub(crate) fn layout<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let width = |column: usize| {
        let cells = std::iter::once(&header).chain(rows).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let rule = widths.map(|width| "-".repeat(width));
    let mut text = String::new();
    for row in [&header, &rule].into_iter().chain(rows) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            text += &match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["make".into(), "2.1".into()], ["cargo test".into(), "130".into()]];
        let expected = [
            "call         ms", //
            "----------  ---",
            "make        2.1",
            "cargo test  130",
            "",
        ];
        assert_eq!(layout(["call", "ms"], &rows), expected.join("\n"));
    }
}
