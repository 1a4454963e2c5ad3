//! Checks that the manifests' dependencies equal the table of the architecture page.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::workspace::Package;

/// The page with the table.
pub(super) const PAGE: &str = "spec/architecture.md";

/// Compares the manifests with the table; a missing page is a finding.
pub(super) fn check(packages: &[Package], page: Option<&str>) -> Vec<Finding> {
    let Some(text) = page else { return vec![Finding::new(PAGE, "is missing")] };
    let (table, mut findings) = Table::parse(text);
    if table.rows.is_empty() {
        findings.push(Finding::new(PAGE, format!("has no table that begins with `{HEADER}`")));
        return findings;
    }
    findings.extend(table.upward_dependencies());
    for package in packages {
        findings.extend(table.compare(package));
    }
    findings.extend(table.unused(packages));
    findings
}

const HEADER: &str = "| level | crate |";

/// The table, by short crate name (`wire` for `aifo-wire`).
struct Table {
    rows: BTreeMap<String, Row>,
}

struct Row {
    /// The page line, from 0.
    line: usize,
    /// Dependencies point to lower levels. `None` (a `-`): not in the product; nothing may depend
    /// on it.
    level: Option<u32>,
    may_depend_on: BTreeSet<String>,
}

impl Table {
    fn parse(text: &str) -> (Self, Vec<Finding>) {
        let lines = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(HEADER));
        let body = lines.skip(2).take_while(|(_, line)| line.starts_with('|'));
        let mut rows = BTreeMap::new();
        let mut allowed = Vec::new();
        let mut findings = Vec::new();
        for (line, text) in body {
            let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
            let [level, name, _, cell] = cells[..] else {
                findings.push(Finding::at(PAGE, line, "a row has four cells"));
                continue;
            };
            let level = level.parse().ok();
            let name = short(name.trim_end_matches("(bin)").trim().trim_matches('`'));
            allowed.push((name.to_owned(), cell));
            rows.insert(name.to_owned(), Row { line, level, may_depend_on: BTreeSet::new() });
        }
        let mut table = Table { rows };
        for (name, cell) in allowed {
            let (names, unknown) = table.allowed(cell);
            if let Some(row) = table.rows.get_mut(&name) {
                row.may_depend_on = names;
                findings.extend(unknown.iter().map(|word| {
                    Finding::at(PAGE, row.line, format!("'{word}' is not a crate of the table"))
                }));
            }
        }
        (table, findings)
    }

    /// Parses "may depend on": names or `-`, then a remark in brackets. Returns the names and the unknown
    /// words.
    fn allowed(&self, cell: &str) -> (BTreeSet<String>, Vec<String>) {
        let cell = cell.split('(').next().unwrap_or_default().replace([',', '`'], " ");
        let words = cell.split_whitespace().filter(|word| *word != "-").map(short);
        let (known, unknown): (Vec<_>, Vec<_>) =
            words.map(str::to_owned).partition(|word| self.rows.contains_key(word));
        (known.into_iter().collect(), unknown)
    }

    /// Dependencies that the table allows although they do not point to a lower level.
    fn upward_dependencies(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, row) in &self.rows {
            for target in &row.may_depend_on {
                let Some(below) = self.rows.get(target) else { continue };
                let downward = match (row.level, below.level) {
                    (Some(from), Some(to)) => to < from,
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                if !downward {
                    let what = format!("{name} -> {target} does not point to a lower level");
                    findings.push(Finding::at(PAGE, row.line, what));
                }
            }
        }
        findings
    }

    /// Dependencies of a manifest that the table does not allow.
    fn compare(&self, package: &Package) -> Vec<Finding> {
        let name = short(&package.name);
        let place = format!("{}/Cargo.toml", package.name);
        let Some(row) = self.rows.get(name) else {
            return vec![Finding::new(place, format!("'{name}' is not in the table of {PAGE}"))];
        };
        let ours = package.dependencies.iter().filter(|name| name.starts_with("aifo-"));
        let extra = ours.map(|name| short(name)).filter(|to| !row.may_depend_on.contains(*to));
        extra
            .map(|to| Finding::new(&place, format!("{PAGE} does not allow {name} -> {to}")))
            .collect()
    }

    /// Rows without a manifest, and dependencies that the table allows and the manifest does not have.
    fn unused(&self, packages: &[Package]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, row) in &self.rows {
            let mut say = |what| findings.push(Finding::at(PAGE, row.line, what));
            let Some(package) = packages.iter().find(|package| short(&package.name) == name) else {
                say(format!("'{name}' is not a crate of the workspace"));
                continue;
            };
            let used = |to: &str| {
                package.dependencies.iter().any(|it| it.strip_prefix("aifo-") == Some(to))
            };
            for to in row.may_depend_on.iter().filter(|to| !used(to)) {
                say(format!("allows {name} -> {to}, which the manifest does not have"));
            }
        }
        findings
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("aifo-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Architecture

| level | crate | one line | may depend on |
| --- | --- | --- | --- |
| 0 | types | words | - |
| 1 | wire | bytes | types |
| 1 | decide | where | types |
| 2 | proxy | streams | types wire |
| 3 | aifo-shim (bin) | thin | types, wire |
| 6 | `aifo-coder` (bin) | thin | types decide |
| - | tests | suites | types (and the binaries) |
| - | xtask | tasks | - |

| other | table |
";

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Package { name: name.to_owned(), dependencies, ..Package::default() }
    }

    #[test]
    fn reads_the_table() {
        let (table, findings) = Table::parse(TEXT);
        assert_eq!(findings, []);
        let allowed_for =
            |name: &str| table.rows[name].may_depend_on.iter().cloned().collect::<Vec<_>>();
        assert_eq!(table.rows.len(), 8);
        assert_eq!(allowed_for("shim"), ["types", "wire"]);
        assert_eq!(allowed_for("coder"), ["decide", "types"]);
        assert_eq!(allowed_for("tests"), ["types"]);
        assert_eq!(table.rows["xtask"].level, None);
        assert_eq!(table.upward_dependencies(), []);
    }

    /// Packages as in [`TEXT`], one of them with other dependencies.
    fn workspace(name: &str, dependencies: &[&str]) -> Vec<Package> {
        let mut packages = vec![
            package("aifo-types", &["bytes"]),
            package("aifo-wire", &["aifo-types"]),
            package("aifo-decide", &["aifo-types"]),
            package("aifo-proxy", &["aifo-types", "aifo-wire"]),
            package("aifo-shim", &["aifo-types", "aifo-wire"]),
            package("aifo-coder", &["aifo-types", "aifo-decide"]),
            package("tests", &["aifo-types"]),
            package("xtask", &[]),
        ];
        packages.retain(|package| package.name != name);
        packages.push(package(name, dependencies));
        packages
    }

    #[test]
    fn the_manifests_equal_the_table() {
        let found = |name: &str, dependencies: &[&str]| {
            let findings = check(&workspace(name, dependencies), Some(TEXT));
            findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        assert_eq!(found("aifo-proxy", &["aifo-types", "aifo-wire", "tokio"]), [""; 0]);
        assert_eq!(
            found("aifo-wire", &["aifo-types", "aifo-decide"]),
            ["spec/architecture.md does not allow wire -> decide"]
        );
        assert_eq!(
            found("aifo-proxy", &["aifo-types", "wire"]),
            ["allows proxy -> wire, which the manifest does not have"]
        );
        assert_eq!(found("aifo-new", &[]), ["'new' is not in the table of spec/architecture.md"]);
        let mut packages = workspace("xtask", &[]);
        packages.pop();
        let findings = check(&packages, Some(TEXT));
        assert_eq!(findings, [Finding::at(PAGE, 11, "'xtask' is not a crate of the workspace")]);
    }

    #[test]
    fn the_table_itself_is_checked() {
        let found = |cell: &str| {
            let text = TEXT.replace("| streams | types wire |", cell);
            let (table, mut findings) = Table::parse(&text);
            findings.extend(table.upward_dependencies());
            findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        assert_eq!(found("| streams | shim |"), ["proxy -> shim does not point to a lower level"]);
        assert_eq!(
            found("| streams | tests |"),
            ["proxy -> tests does not point to a lower level"]
        );
        assert_eq!(found("| streams | tokio |"), ["'tokio' is not a crate of the table"]);
        assert_eq!(found("| streams |"), ["a row has four cells"]);
        assert_eq!(check(&[], Some("# empty")).len(), 1);
        assert_eq!(check(&[], None).len(), 1);
    }
}
