//! Configuration and shell text that a call gets by its environment.

use aifo_types::is_protective_git_entry;

use super::table::base_name;
use super::table::find;

/// Adds to a call what its tool runs by the call environment, so that rules and users see it. `argv` has
/// the tool and its arguments. `matters` returns whether a rule is about a call.
///
/// Configuration in git's variables becomes `-c NAME=VALUE`, as git reads it, but for entries that only
/// prevent git from running a program. The variables with a shell's text, if they matter, are words of
/// `env` before the call.
pub fn with_variables(
    argv: &mut Vec<Vec<u8>>,
    environment: &[Vec<u8>],
    matters: impl Fn(&[Vec<u8>]) -> bool,
) {
    let Some(tool) = argv.first().cloned() else { return };
    let table = find(base_name(&tool)).0.table;
    let is_git = |start: &&str| PREFIX.starts_with(start.as_bytes());
    if let Some(option) = table.alias_options.first()
        && table.alias_variables.iter().any(is_git)
    {
        let entries = numbered(environment).into_iter().chain(quoted(environment));
        let options = entries.flat_map(|entry| [option.as_bytes().to_vec(), entry]);
        let options: Vec<_> = options.collect();
        argv.splice(1..1, options);
    }
    let has_text = |variable: &&Vec<u8>| {
        table.shell_variables.iter().any(|name| variable.starts_with(name.as_bytes()))
            && matters(&[b"env".to_vec(), variable.to_vec(), tool.clone()])
    };
    let texts: Vec<_> = environment.iter().filter(has_text).cloned().collect();
    if !texts.is_empty() {
        argv.splice(0..0, [vec![b"env".to_vec()], texts].concat());
    }
}

/// Returns whether the judge may read a variable, with its value, of a call in place: one of git's, or one
/// that tables name.
pub fn is_judged_variable(variable: &[u8]) -> bool {
    let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
    let ends = [&b"PAGER"[..], b"EDITOR", b"VISUAL", b"BROWSER", b"ASKPASS", b"_SSH", b"_RSH"];
    let starts = [&b"GIT_"[..], b"LESS", b"PROMPT_COMMAND"];
    starts.iter().any(|start| name.starts_with(start)) || ends.iter().any(|end| name.ends_with(end))
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
        let matters = |argv: &[Vec<u8>]| argv.iter().any(|word| word.ends_with(b"push -f"));
        with_variables(&mut argv, &bytes(environment), matters);
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
    fn every_variable_of_a_table_is_judged() {
        for name in super::super::table::all_shell_variables() {
            assert!(is_judged_variable(name.as_bytes()), "{name}");
        }
        let environment = ["GIT_EDITOR=git push -f", "PAGER=cat", "HOME=push -f", "GIT_SSH"];
        check(&["git", "x"], &environment, &["env", "GIT_EDITOR=git push -f", "git", "x"]);
        check(&["curl", "x"], &environment, &["curl", "x"]);
        assert!(!is_judged_variable(b"OPENAI_API_KEY=EDITOR"));
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
