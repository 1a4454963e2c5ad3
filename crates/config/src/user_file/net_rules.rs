//! Adds rules to the text of the user's file, which is otherwise kept as it is.
//!
//! Proves `spec/cli.md#net-allow`.

use std::ops::Range;

use toml::Table;
use toml::de::{DeTable, DeValue};

/// The text cannot be extended in one place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CannotEdit;

/// Returns the text with `rules` behind those of the key `allow` in a table, such as `["net", "agent"]`.
/// Rules that are there already are skipped. Errors: the text is not TOML, or the result would differ in
/// more than the rules, as for an inline table without the key.
pub(super) fn add_rules(text: &str, path: &[&str], rules: &[String]) -> Result<String, CannotEdit> {
    let mut expected: Table = toml::from_str(text).map_err(|_| CannotEdit)?;
    let list = allowed(&mut expected, path).ok_or(CannotEdit)?;
    let mut new = Vec::new();
    for rule in rules {
        let value = toml::Value::String(rule.clone());
        if !list.contains(&value) {
            new.push(quoted(rule));
            list.push(value);
        }
    }
    if new.is_empty() {
        return Ok(text.to_owned());
    }
    let parsed = DeTable::parse(text).map_err(|_| CannotEdit)?;
    let after = match find_array(parsed.get_ref(), path) {
        Some(array) => in_array(text, &array, &new),
        None => in_table(text, path, &new),
    };
    match toml::from_str::<Table>(&after) {
        Ok(table) if table == expected => Ok(after),
        _ => Err(CannotEdit),
    }
}

/// Returns the text without `rules` in that list; those that it does not have are skipped. A comment between a
/// rule and the next one goes with it. Errors: as for [`add_rules`].
pub(super) fn remove_rules(
    text: &str,
    path: &[&str],
    rules: &[String],
) -> Result<String, CannotEdit> {
    let mut text = text.to_owned();
    for rule in rules {
        let mut expected: Table = toml::from_str(&text).map_err(|_| CannotEdit)?;
        let list = allowed(&mut expected, path).ok_or(CannotEdit)?;
        let Some(at) = list.iter().position(|value| value.as_str() == Some(rule)) else { continue };
        list.remove(at);
        let parsed = DeTable::parse(&text).map_err(|_| CannotEdit)?;
        let spans = find_array(parsed.get_ref(), path).ok_or(CannotEdit)?.elements;
        let own = spans.get(at).cloned().ok_or(CannotEdit)?;
        let range =
            match (spans.get(at + 1), at.checked_sub(1).and_then(|before| spans.get(before))) {
                (Some(next), _) => own.start..next.start,
                (None, Some(before)) => before.end..own.end,
                (None, None) => own,
            };
        drop(parsed);
        let mut after = text.clone();
        after.replace_range(range, "");
        match toml::from_str::<Table>(&after) {
            Ok(table) if table == expected => text = after,
            _ => return Err(CannotEdit),
        }
    }
    Ok(text)
}

/// Returns a rule as a TOML string. A valid rule has no character to escape.
pub(super) fn quoted(rule: &str) -> String {
    format!("\"{rule}\"")
}

/// Returns the list at the key `allow`, which is created with its tables; `None` if another value is there.
fn allowed<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Vec<toml::Value>> {
    let mut table = table;
    for name in path {
        let below = table.entry(*name).or_insert_with(|| Table::new().into());
        table = below.as_table_mut()?;
    }
    table.entry("allow").or_insert_with(|| toml::Value::Array(Vec::new())).as_array_mut()
}

/// Offsets of an array: of its brackets, and of its elements.
struct ArrayPlace {
    start: usize,
    end: usize,
    elements: Vec<Range<usize>>,
}

fn find_array(root: &DeTable<'_>, path: &[&str]) -> Option<ArrayPlace> {
    let mut table = root;
    for name in path {
        table = table.get(*name)?.get_ref().as_table()?;
    }
    let value = table.get("allow")?;
    let DeValue::Array(elements) = value.get_ref() else { return None };
    let elements = elements.iter().map(|element| element.span()).collect();
    Some(ArrayPlace { start: value.span().start, end: value.span().end, elements })
}

fn in_array(text: &str, array: &ArrayPlace, new: &[String]) -> String {
    let Some(last) = array.elements.last().map(|last| last.end) else {
        return insert(text, array.start.saturating_add(1), &new.join(", "));
    };
    // Between the last element and the bracket are blanks, comments and perhaps a comma.
    let tail = text.get(last..array.end.saturating_sub(1)).unwrap_or_default();
    let Some((first_line, _)) = tail.split_once('\n') else {
        return insert(text, last, &format!(", {}", new.join(", ")));
    };
    let line = text.get(..last).and_then(|text| text.rsplit('\n').next()).unwrap_or_default();
    let indent: String = line.chars().take_while(|it| it.is_whitespace()).collect();
    let lines: String = new.iter().map(|rule| format!("{indent}{rule},\n")).collect();
    let mut code = tail.lines().map(|line| line.split('#').next().unwrap_or_default());
    let has_comma = code.any(|line| line.contains(','));
    let line_end = last.saturating_add(first_line.len()).saturating_add(1);
    let extended = insert(text, line_end, &lines);
    if has_comma { extended } else { insert(&extended, last, ",") }
}

fn insert(text: &str, at: usize, new: &str) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    format!("{before}{new}{after}")
}

/// Adds the key to the table's section, or a new section at the end.
fn in_table(text: &str, path: &[&str], new: &[String]) -> String {
    let key = format!("allow = [{}]\n", new.join(", "));
    let section = format!("[{}]", path.join("."));
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        let header = line.split('#').next().unwrap_or_default();
        let header: String = header.chars().filter(|it| !it.is_whitespace()).collect();
        if header == section {
            let separator = if line.ends_with('\n') { "" } else { "\n" };
            return insert(text, end, &format!("{separator}{key}"));
        }
    }
    let separator = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{separator}{section}\n{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str, path: &[&str], rules: &[&str]) -> Result<String, CannotEdit> {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        add_rules(text, path, &rules)
    }

    #[test]
    fn rules_are_added_and_the_rest_is_kept() {
        let net: &[&str] = &["net"];
        let agent: &[&str] = &["net", "agent"];
        let rust: &[&str] = &["net", "kind", "rust"];
        let key = "allow = [\"x\", \"y z\"]\n";
        let rows = [
            ("", net, format!("[net]\n{key}")),
            ("a = 1", net, format!("a = 1\n\n[net]\n{key}")),
            ("a = 1\n", agent, format!("a = 1\n\n[net.agent]\n{key}")),
            ("[net]\n# c\ndeny = []", net, format!("[net]\n{key}# c\ndeny = []")),
            ("[ net ] # c", net, format!("[ net ] # c\n{key}")),
            ("[net]\nallow = []\n", net, format!("[net]\n{key}")),
            ("[net]\nallow=[ 'a', ]#b", net, "[net]\nallow=[ 'a', \"x\", \"y z\", ]#b".to_owned()),
            ("net.allow = ['x']", net, "net.allow = ['x', \"y z\"]".to_owned()),
            (
                "net = { allow = ['a'] }\n",
                net,
                "net = { allow = ['a', \"x\", \"y z\"] }\n".to_owned(),
            ),
            (
                "[net]\nallow = [\n    # a, b\n    'a', # why\n    # end\n]\nb = 1",
                net,
                "[net]\nallow = [\n    # a, b\n    'a', # why\n    \"x\",\n    \"y z\",\n    \
                 # end\n]\nb = 1"
                    .to_owned(),
            ),
            (
                "[net]\nallow = [\n  'a' # why, now\n]",
                net,
                "[net]\nallow = [\n  'a', # why, now\n  \"x\",\n  \"y z\",\n]".to_owned(),
            ),
            (
                "[net.kind.rust]\nallow = ['a']\n",
                rust,
                "[net.kind.rust]\nallow = ['a', \"x\", \"y z\"]\n".to_owned(),
            ),
            (
                "[net.kind.rust]\nallow = ['a']\n",
                net,
                format!("[net.kind.rust]\nallow = ['a']\n\n[net]\n{key}"),
            ),
        ];
        for (text, path, expected) in rows {
            assert_eq!(add(text, path, &["x", "y z", "x"]), Ok(expected.clone()), "{text}");
            let again = add(&expected, path, &["y z", "x"]);
            assert_eq!(again, Ok(expected), "nothing is added twice");
        }
    }

    #[test]
    fn rules_are_removed_and_the_rest_is_kept() {
        let remove = |text: &str, rules: &[&str]| {
            let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
            remove_rules(text, &["net"], &rules)
        };
        let rows = [
            ("[net]\nallow = ['a', \"x\", 'b'] # c\n", "[net]\nallow = ['a', 'b'] # c\n"),
            ("[net]\nallow = ['a', \"x\"]\n", "[net]\nallow = ['a']\n"),
            ("[net]\nallow = [\"x\", ]\n", "[net]\nallow = [, ]\n"),
            (
                "[net]\nallow = [\n  'a', # why\n  'x', # for x\n  'b',\n]\n",
                "[net]\nallow = [\n  'a', # why\n  'b',\n]\n",
            ),
            ("[net]\nallow = ['a']\n", "[net]\nallow = ['a']\n"),
            ("", ""),
        ];
        for (text, expected) in rows {
            match expected.contains("[,") {
                true => assert_eq!(remove(text, &["x"]), Err(CannotEdit), "{text}"),
                false => assert_eq!(remove(text, &["x"]).as_deref(), Ok(expected), "{text}"),
            }
        }
    }

    #[test]
    fn a_text_that_cannot_be_extended_in_one_place_is_an_error() {
        for text in [
            "net = 'names'",
            "[net]\nallow = 'a'",
            "net = { deny = [] }",
            "net.deny = []",
            "a = '''\n[net]\n'''\n",
            "not toml",
        ] {
            assert_eq!(add(text, &["net"], &["x"]), Err(CannotEdit), "{text}");
        }
    }
}
