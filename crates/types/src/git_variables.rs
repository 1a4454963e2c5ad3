//! Variables that configure git (`spec/trust.md#the-agents-git`).

use std::ffi::OsString;

/// Returns the variables with which git starts no program of `core.fsmonitor`, in addition to the
/// entries that the environment has. `None` if its count is invalid; git then does not start.
pub fn git_without_fsmonitor(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<Vec<(String, String)>> {
    let count = variable(COUNT).unwrap_or_default();
    let count = count.to_str()?;
    let count: u16 = if count.is_empty() { 0 } else { count.parse().ok()? };
    // An inner agent or shell keeps the entry of the outer one.
    let has_entry = (0..count).any(|number| {
        variable(&format!("{KEY}{number}")).is_some_and(|key| key == FSMONITOR)
            && variable(&format!("{VALUE}{number}")).is_some_and(|value| value == "false")
            && number + 1 == count
    });
    if has_entry {
        return Some(Vec::new());
    }
    Some(vec![
        (COUNT.to_owned(), count.checked_add(1)?.to_string()),
        (format!("{KEY}{count}"), FSMONITOR.to_owned()),
        (format!("{VALUE}{count}"), "false".to_owned()),
    ])
}

const COUNT: &str = "GIT_CONFIG_COUNT";
const KEY: &str = "GIT_CONFIG_KEY_";
const VALUE: &str = "GIT_CONFIG_VALUE_";
const FSMONITOR: &str = "core.fsmonitor";

#[cfg(test)]
mod tests {
    use super::*;

    fn added(environment: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        git_without_fsmonitor(|name| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn an_entry_is_added_to_the_users() {
        let pairs = |pairs: [(&str, &str); 3]| {
            Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
        };
        let first = pairs([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_0", "false"),
        ]);
        assert_eq!(added(&[]), first);
        assert_eq!(added(&[("GIT_CONFIG_COUNT", "")]), first);
        let users = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
        ];
        let second = pairs([
            ("GIT_CONFIG_COUNT", "2"),
            ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_1", "false"),
        ]);
        assert_eq!(added(&users), second);
        let own: Vec<_> = first.as_ref().unwrap().iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(added(&own), Some(Vec::new()));
        assert_eq!(added(&[("GIT_CONFIG_COUNT", "many")]), None);
    }
}
