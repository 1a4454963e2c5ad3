//! Configuration that a call gets by its environment, as options of the call.

use aifo_types::is_protective_git_entry;

use super::table::base_name;
use super::table::find;

/// Adds the configuration in git's variables to a call of git as `-c NAME=VALUE`, as git reads it. A call
/// of another tool is unchanged. `argv` has the tool and its arguments.
///
/// Entries that only prevent git from running a program are left out.
pub fn with_git_variables(argv: &mut Vec<Vec<u8>>, environment: &[Vec<u8>]) {
    let Some(tool) = argv.first() else { return };
    let (known, _, _) = find(base_name(tool));
    let Some(option) = known.table.alias_options.first() else { return };
    if !known.table.alias_variables.iter().any(|start| PREFIX.starts_with(start.as_bytes())) {
        return;
    }
    let entries = numbered(environment).into_iter().chain(quoted(environment));
    let options = entries.flat_map(|entry| [option.clone().into_bytes(), entry]);
    let options: Vec<_> = options.collect();
    argv.splice(1..1, options);
}

/// The beginning of git's variables that hold configuration.
const PREFIX: &[u8] = b"GIT_CONFIG_";

fn value<'a>(environment: &'a [Vec<u8>], name: &[u8]) -> Option<&'a [u8]> {
    // git reads the first variable of a name.
    environment.iter().find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="))
}

/// Returns the entries of `GIT_CONFIG_COUNT`, `GIT_CONFIG_KEY_0`, `GIT_CONFIG_VALUE_0` and so on.
fn numbered(environment: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let count = value(environment, b"GIT_CONFIG_COUNT").unwrap_or_default();
    let count =
        std::str::from_utf8(count).ok().and_then(|count| count.trim().parse::<usize>().ok());
    let mut entries = Vec::new();
    // git does not start with an invalid count, or if one is missing.
    for number in 0..count.unwrap_or_default() {
        let of = |name: &str| value(environment, format!("GIT_CONFIG_{name}_{number}").as_bytes());
        let (Some(key), Some(value)) = (of("KEY"), of("VALUE")) else { break };
        if !is_protective_git_entry(key, value) {
            entries.push([key, b"=", value].concat());
        }
    }
    entries
}

/// Returns the entries of `GIT_CONFIG_PARAMETERS`, in which git passes `-c` on: quoted words.
fn quoted(environment: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let text = value(environment, b"GIT_CONFIG_PARAMETERS").unwrap_or_default();
    let (mut entries, mut entry) = (Vec::new(), None::<Vec<u8>>);
    let mut is_quoted = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\'' => {
                is_quoted = !is_quoted;
                entry.get_or_insert_default();
            }
            b' ' | b'\n' if !is_quoted => entries.extend(entry.take()),
            b'\\' if !is_quoted => entry.get_or_insert_default().extend(bytes.next()),
            byte => entry.get_or_insert_default().push(*byte),
        }
    }
    entries.extend(entry);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argv: &[&str], environment: &[&str], expected: &[&str]) {
        let bytes = |list: &[&str]| -> Vec<Vec<u8>> {
            list.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        let mut argv = bytes(argv);
        with_git_variables(&mut argv, &bytes(environment));
        assert_eq!(argv, bytes(expected), "{environment:?}");
    }

    #[test]
    fn configuration_of_the_environment_becomes_options() {
        let two = [
            "GIT_CONFIG_COUNT=3",
            "GIT_CONFIG_KEY_0=core.fsmonitor",
            "GIT_CONFIG_VALUE_0=false",
            "GIT_CONFIG_KEY_1=alias.x",
            "GIT_CONFIG_VALUE_1=push -f",
            "GIT_CONFIG_KEY_2=core.fsmonitor",
            "GIT_CONFIG_VALUE_2=sh",
        ];
        let expected = ["git", "-c", "alias.x=push -f", "-c", "core.fsmonitor=sh", "x"];
        check(&["git", "x"], &two, &expected);
        check(&["cargo", "x"], &two, &["cargo", "x"]);
        check(&["git", "x"], &[], &["git", "x"]);
        check(&["git", "x"], &["GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=a"], &["git", "x"]);
        check(&["git", "x"], &["GIT_CONFIG_COUNT=99999999999999999999"], &["git", "x"]);
    }

    #[test]
    fn parameters_are_quoted_words() {
        let git = |text: &str| format!("GIT_CONFIG_PARAMETERS={text}");
        for (text, expected) in [
            ("'alias.x=push -f'", vec!["alias.x=push -f"]),
            ("'alias.x'='push -f' 'a.b'", vec!["alias.x=push -f", "a.b"]),
            ("'a.b'='it'\\''s'", vec!["a.b=it's"]),
            ("", vec![]),
        ] {
            let options = expected.iter().flat_map(|entry| ["-c", entry]);
            let expected: Vec<_> = ["git"].into_iter().chain(options).chain(["x"]).collect();
            check(&["git", "x"], &[&git(text)], &expected);
        }
    }
}
