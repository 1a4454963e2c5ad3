//! `spec/config.md` lists the table of keys.

use crate::flags::default;
use crate::table::{ATTACH, KEYS};

const PAGE: &str = include_str!("../../../../spec/config.md");

/// The cells of the table below a heading, without its second column.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let line = line.trim_start_matches('|').strip_suffix('|').expect(line);
        line.split('|').map(plain).collect()
    };
    rows.map(cells).collect()
}

fn plain(cell: &str) -> String {
    cell.replace('`', "").trim().to_owned()
}

#[test]
fn the_page_lists_every_key_with_its_default_variable_and_flag() {
    let rows = table("Keys");
    let expected = KEYS.iter().map(|key| {
        let names = key.names();
        let name = if names.key == ATTACH { "" } else { names.key };
        let flag = names.flag.map(|flag| flag.long).unwrap_or_default();
        let default = default(*key).unwrap_or_default();
        [name.to_owned(), default, names.variables.join(", "), flag.to_owned()]
    });
    let expected: Vec<_> = expected.filter(|row| !row[0].is_empty()).collect();
    let found = rows.iter().map(|row| {
        let [key, _, default, variables, flag] = row.as_slice() else { panic!("{row:?}") };
        [key, default, variables, flag].map(String::clone)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn the_page_lists_what_a_workspace_may_restrict() {
    let rows = table("The workspace's file");
    let found: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    let allowed = KEYS.iter().filter(|key| key.objection().is_none());
    let expected: Vec<_> = allowed.map(|key| key.names().key).collect();
    assert_eq!(found, expected);
}
