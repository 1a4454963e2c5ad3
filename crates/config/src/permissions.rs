//! The rules that say what `[permissions]` said in earlier versions.

use std::fmt::Write;

use aifo_policy::FILE_KINDS;
use serde_json::Value;
use toml::Table;

/// Returns rules that decide as a table of permissions did, or are stricter, as TOML. Other values are left out.
pub(crate) fn rules_instead(table: &Table) -> String {
    let list =
        |key: &str| table.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let has_all = |key: &str| list(key).iter().any(|rule| rule.as_str() == Some("all"));
    let denies_all = has_all("deny");
    let is_denied = table.get("default").and_then(toml::Value::as_str) == Some("deny");
    let mut rules = String::new();
    for (key, then) in [("deny", "deny"), ("allow", "allow"), ("ask", "ask")] {
        for entry in list(key) {
            let is_void = denies_all && (then != "deny" || entry.as_str() == Some("all"));
            if let Some(instead) = conditions(&entry, then).filter(|_| !is_void) {
                // A wider question would replace denials.
                let then = if instead.is_wider && is_denied { "deny" } else { then };
                add(&mut rules, &instead.conditions, then);
            }
        }
    }
    if denies_all || (is_denied && !has_all("allow") && !has_all("ask")) {
        add(&mut rules, &[("kind", Value::from("*"))], "deny");
    }
    rules
}

fn add(rules: &mut String, conditions: &[(&str, Value)], then: &str) {
    // As JSON writes them, save for the spaces of lists.
    let shown = |value: &Value| match value.as_array() {
        None => value.to_string(),
        Some(list) => {
            let items: Vec<_> = list.iter().map(Value::to_string).collect();
            format!("[{}]", items.join(", "))
        }
    };
    let conditions = conditions.iter().map(|(key, value)| format!("{key} = {}\n", shown(value)));
    // Writing to a text cannot fail.
    let _ = write!(rules, "[[rule]]\n{}then = \"{then}\"\n", conditions.collect::<String>());
}

/// A rule in place of another one.
struct Instead {
    conditions: Vec<(&'static str, Value)>,
    /// True if it is about more commands than before.
    is_wider: bool,
}

/// Translates a rule: a word, or a table with kind, command and path.
fn conditions(entry: &toml::Value, then: &str) -> Option<Instead> {
    let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
    let kind = match entry.as_str() {
        Some("all") => Some("*"),
        Some(word) => Some(word),
        None => text("kind"),
    };
    let (command, path) = (text("command"), text("path"));
    let kind = match (kind, command, path) {
        (Some(kind), _, _) => Some(Value::from(kind)),
        (None, None, Some(_)) if then == "allow" => Some(Value::from(FILE_KINDS.to_vec())),
        (None, Some(_), _) if then == "allow" => Some("*".into()),
        (None, Some(_), None) => Some("*".into()),
        (None, None, None) => return None,
        (None, _, Some(_)) => None,
    };
    let mut conditions: Vec<(&'static str, Value)> = Vec::new();
    conditions.extend(kind.map(|kind| ("kind", kind)));
    let mut is_wider = false;
    if let Some(command) = command {
        let words = shlex::split(command).unwrap_or_default();
        // An expansion, or more than a command: every call with this program.
        is_wider =
            then != "allow" && command.contains(|char: char| "$*?[]{}~;&|<>()!#`\n".contains(char));
        match is_wider {
            true => conditions.push(("run", words.into_iter().take(1).collect())),
            false => conditions.extend([("run", words.into()), ("exact", true.into())]),
        }
    }
    conditions.extend(path.map(|path| ("path", Value::from(path))));
    Some(Instead { conditions, is_wider })
}
