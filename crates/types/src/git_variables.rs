//! Variables that configure git (`spec/trust.md#the-agents-git`).

use std::ffi::OsString;

/// Returns the variables that protect an agent's git from files in the workspace, in addition to the
/// entries that the environment has. `None` if its count is invalid; git then does not start.
pub fn protective_git_variables(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<Vec<(String, String)>> {
    let count = variable(COUNT).unwrap_or_default();
    let count = count.to_str()?;
    let count: u16 = if count.is_empty() { 0 } else { count.parse().ok()? };
    let added = u16::try_from(ENTRIES.len()).ok()?;
    let numbered = |first: u16| (first..).zip(ENTRIES);
    // An inner agent keeps the entries of the outer one.
    let is_set = |(number, (key, value)): (u16, (&str, &str))| {
        variable(&format!("{KEY}{number}")).is_some_and(|it| it == key)
            && variable(&format!("{VALUE}{number}")).is_some_and(|it| it == value)
    };
    if count.checked_sub(added).is_some_and(|first| numbered(first).all(is_set)) {
        return Some(Vec::new());
    }
    let mut variables = vec![(COUNT.to_owned(), count.checked_add(added)?.to_string())];
    for (number, (key, value)) in numbered(count) {
        variables.push((format!("{KEY}{number}"), key.to_owned()));
        variables.push((format!("{VALUE}{number}"), value.to_owned()));
    }
    Some(variables)
}

/// Returns whether an entry only prevents git from running a configured program: one of
/// [`protective_git_variables`], or one that agents set for their own calls.
pub fn is_protective_git_entry(key: &[u8], value: &[u8]) -> bool {
    let mut entries = ENTRIES.iter().chain(&OF_AGENTS);
    entries.any(|(own, of)| own.as_bytes() == key && of.as_bytes() == value) || is_of_forge(key)
}

/// Returns whether an entry leads to a server on the caller's localhost (`spec/forges.md#git`), and starts nothing.
fn is_of_forge(key: &[u8]) -> bool {
    let local = ["url.http://127.0.0.1:", "http.http://127.0.0.1:"];
    let ends = [".insteadOf", ".pushInsteadOf", "/.extraHeader"];
    local.iter().any(|start| key.starts_with(start.as_bytes()))
        && ends.iter().any(|end| key.ends_with(end.as_bytes()))
}

/// The entries that agents set, such as gemini. An empty value is no program.
const OF_AGENTS: [(&str, &str); 9] = [
    ("core.editor", ""),
    ("core.fsmonitor", ""),
    ("core.hooksPath", ""),
    ("core.pager", ""),
    ("core.pager", "cat"),
    ("core.sshCommand", ""),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("sequence.editor", ""),
];

/// Without `safe.bareRepository`, a tool that removes `.git/HEAD` and creates the files of a bare
/// repository in the workspace root chooses the configuration.
const ENTRIES: [(&str, &str); 2] =
    [("core.fsmonitor", "false"), ("safe.bareRepository", "explicit")];

const COUNT: &str = "GIT_CONFIG_COUNT";
const KEY: &str = "GIT_CONFIG_KEY_";
const VALUE: &str = "GIT_CONFIG_VALUE_";

#[cfg(test)]
mod tests {
    use super::*;

    fn added(environment: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        protective_git_variables(|name| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn entries_are_added_to_the_users() {
        let from = |first: u16| {
            let (next, count) = (first + 1, first + 2);
            let pairs = [
                ("GIT_CONFIG_COUNT".to_owned(), count.to_string()),
                (format!("GIT_CONFIG_KEY_{first}"), "core.fsmonitor".to_owned()),
                (format!("GIT_CONFIG_VALUE_{first}"), "false".to_owned()),
                (format!("GIT_CONFIG_KEY_{next}"), "safe.bareRepository".to_owned()),
                (format!("GIT_CONFIG_VALUE_{next}"), "explicit".to_owned()),
            ];
            Some(pairs.to_vec())
        };
        assert_eq!(added(&[]), from(0));
        assert_eq!(added(&[("GIT_CONFIG_COUNT", "")]), from(0));
        let users = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
        ];
        assert_eq!(added(&users), from(1));
        let own = from(0).unwrap();
        let own: Vec<_> = own.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(added(&own), Some(Vec::new()));
        assert_eq!(added(&[("GIT_CONFIG_COUNT", "many")]), None);
        for (key, value, protects) in [
            ("core.fsmonitor", "false", true),
            ("core.fsmonitor", "x", false),
            ("core.sshCommand", "", true),
            ("core.sshCommand", "x", false),
            ("core.pager", "cat", true),
            ("core.pager", "cat;x", false),
            ("url.x.insteadOf", "", false),
            ("url.http://127.0.0.1:1/o/r.insteadOf", "git@x:o/r", true),
            ("http.http://127.0.0.1:1/.extraHeader", "x", true),
            ("http.http://127.0.0.1:1/.proxy", "x", false),
            ("alias.push", "", false),
        ] {
            let is = is_protective_git_entry(key.as_bytes(), value.as_bytes());
            assert_eq!(is, protects, "{key}={value}");
        }
    }
}
