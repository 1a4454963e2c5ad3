//! Tests the Rust code against the shared table.

use polyglot::{from_roman, to_roman};

const TABLE: &str = include_str!("../numerals.tsv");

#[test]
fn rust_agrees_with_the_table() {
    for line in TABLE.lines() {
        let (number, text) = line.split_once('\t').expect("two columns");
        match number.parse() {
            Ok(number) => {
                assert_eq!(to_roman(number).as_deref(), Some(text));
                assert_eq!(from_roman(text), Some(number));
            }
            Err(_) => assert_eq!(from_roman(text), None, "{text}"),
        }
    }
}

#[test]
#[ignore = "fails on purpose, to show a failure"]
fn broken_on_purpose() {
    assert_eq!(from_roman("IIII"), Some(4), "clocks write it so, the table does not");
}
