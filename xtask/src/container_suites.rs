//! Which suites are told again with sidecars in containers: the table of `spec/coverage.md`.

use anyhow::{Context, Result, bail};

/// A row: a suite, how far it is told in containers, and which of its tests are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) suite: String,
    pub(crate) runs: ContainerRuns,
    pub(crate) left_out: Vec<String>,
}

/// How far a suite is told in containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRuns {
    /// As root and as another user, and in each image.
    Everywhere,
    /// Once, as whoever runs it.
    Once,
    /// It is about something else.
    Not,
}

/// The rows, in the order of the page. Fails if the page has none, or one that means nothing.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let page = include_str!("../../spec/coverage.md");
    let lines = page.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    let rows =
        lines.take_while(|line| line.starts_with('|')).map(row).collect::<Result<Vec<_>>>()?;
    if rows.is_empty() {
        bail!("spec/coverage.md has no table '{HEAD}..'");
    }
    Ok(rows)
}

/// The suites that are told in containers.
pub(crate) fn in_containers(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.runs != ContainerRuns::Not)
}

const HEAD: &str = "| suite | in containers |";

fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [suite, runs, rest] = cells[..] else { bail!("three cells in each row: {line}") };
    let runs = match runs {
        "everywhere" => ContainerRuns::Everywhere,
        "once" => ContainerRuns::Once,
        "no" => ContainerRuns::Not,
        other => bail!("'{other}' is no word of this table: {line}"),
    };
    if runs == ContainerRuns::Not && rest.is_empty() {
        bail!("left out without a reason: {line}");
    }
    // Names stand in backticks, so every second part is one.
    let left_out = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let suite = suite.strip_prefix('`').and_then(|suite| suite.strip_suffix('`'));
    Ok(Row { suite: suite.context("a suite stands in backticks")?.to_owned(), runs, left_out })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{agents, container_gate, shell, suites};

    #[test]
    fn every_suite_has_a_row() {
        let mut rows: Vec<_> = rows().unwrap().into_iter().map(|row| row.suite).collect();
        let all = suites::suites().unwrap().into_iter();
        let local = |name: &String| {
            !name.starts_with(container_gate::PREFIX) && !name.starts_with(agents::PREFIX)
        };
        let mut suites: Vec<_> = all.filter(local).collect();
        rows.sort();
        suites.sort();
        assert_eq!(rows, suites);
    }

    #[test]
    fn what_is_left_out_is_a_test() {
        for row in rows().unwrap().iter().filter(|row| row.runs != ContainerRuns::Not) {
            let dir = shell::root().join("tests/suites");
            let parts = fs::read_dir(dir.join(&row.suite)).into_iter().flatten().flatten();
            let files =
                parts.map(|part| part.path()).chain([dir.join(format!("{}.rs", row.suite))]);
            let source: String = files.flat_map(fs::read_to_string).collect();
            for test in &row.left_out {
                let name = test.rsplit("::").next().unwrap();
                assert!(source.contains(&format!("fn {name}(")), "{}: {test}", row.suite);
            }
        }
    }

    #[test]
    fn a_row_says_how_far() {
        let parsed = row("| `argv` | once | `a::b` needs a guard; `c` a home |").unwrap();
        let left_out = ["a::b", "c"].map(str::to_owned).to_vec();
        assert_eq!(parsed, Row { suite: "argv".to_owned(), runs: ContainerRuns::Once, left_out });
        assert!(row("| `argv` | no | |").is_err());
        assert!(row("| `argv` | perhaps | |").is_err());
    }
}
