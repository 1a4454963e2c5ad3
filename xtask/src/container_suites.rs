//! The table in `spec/coverage.md` of suites that run again with sidecars in containers.

use anyhow::{Context, Result, bail};

/// A row: a suite, whether it runs in containers, and its tests that do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) suite: String,
    pub(crate) runs: ContainerRuns,
    pub(crate) left_out: Vec<String>,
}

/// How often a suite runs in containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRuns {
    /// As root and as another user, and with each image.
    Everywhere,
    /// Once, as the current user.
    Once,
    /// Never; the row gives the reason.
    Not,
}

/// Returns the rows in the page's order. Fails if there are none or one is invalid.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let page = include_str!("../../spec/coverage.md");
    let lines = page.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    let rows =
        lines.take_while(|line| line.starts_with('|')).map(row).collect::<Result<Vec<_>>>()?;
    if rows.is_empty() {
        bail!("'spec/coverage.md' has no table '{HEAD}..'");
    }
    Ok(rows)
}

/// The suites that run in containers.
pub(crate) fn in_containers(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.runs != ContainerRuns::Not)
}

const HEAD: &str = "| suite | in containers |";

fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [suite, runs, rest] = cells[..] else { bail!("a row needs three cells: '{line}'") };
    let runs = match runs {
        "everywhere" => ContainerRuns::Everywhere,
        "once" => ContainerRuns::Once,
        "no" => ContainerRuns::Not,
        other => bail!("invalid value '{other}', expected everywhere, once or no: '{line}'"),
    };
    if runs == ContainerRuns::Not && rest.is_empty() {
        bail!("a suite with 'no' needs a reason: '{line}'");
    }
    // Names are in backticks, so every second part is one.
    let left_out = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let suite = suite.strip_prefix('`').and_then(|suite| suite.strip_suffix('`'));
    Ok(Row { suite: suite.context("a suite's name needs backticks")?.to_owned(), runs, left_out })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{agents, container_gate, shell, test_program};

    #[test]
    fn every_suite_has_a_row() {
        let mut rows: Vec<_> = rows().unwrap().into_iter().map(|row| row.suite).collect();
        let all = test_program::suites().unwrap().into_iter();
        let local = |name: &String| {
            !name.starts_with(container_gate::PREFIX) && !name.starts_with(agents::PREFIX)
        };
        let mut suites: Vec<_> = all.filter(local).collect();
        rows.sort();
        suites.sort();
        assert_eq!(rows, suites);
    }

    #[test]
    fn left_out_tests_exist() {
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
