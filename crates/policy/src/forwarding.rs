//! Forwards the caller variables to tools (`spec/environment.md`).
//!
//! Proves `spec/environment.md#rules`.

mod reasons;
mod table;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use aifo_types::names_secret;

pub use self::reasons::{PassReason, StayReason};

/// The forwarding rules of a session: the built-in table, extended by the user, restricted by the
/// workspace.
///
/// ```
/// use std::path::PathBuf;
/// use aifo_policy::{ForwardDecision, Forwarding, PassReason};
///
/// let mut forwarding = Forwarding::builtin();
/// forwarding.allow("FOO").unwrap();
/// forwarding.set("MODE", "fast").unwrap();
/// let workspace = &[PathBuf::from("/workspace")];
/// let decision = forwarding.judge(b"FOO", b"1", workspace);
/// assert_eq!(decision, ForwardDecision::Passes(PassReason::Listed));
///
/// let callers = [&b"CI=1"[..], b"FOO=1", b"HOME=/root", b"MODE=slow", b"BAR=2"];
/// let tools = forwarding.filter(callers, workspace);
/// assert_eq!(tools, [&b"CI=1"[..], b"FOO=1", b"MODE=fast"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Allowed names; they override the table.
    listed: BTreeSet<String>,
    /// Allowed prefixes, for names that the table does not have.
    listed_prefixes: BTreeSet<String>,
    /// Denied patterns.
    denied: BTreeSet<String>,
    /// Variables that every tool gets.
    set: BTreeMap<String, String>,
}

/// The decision about a variable, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ForwardDecision {
    /// The tool gets it.
    Passes(PassReason),
    /// The tool does not get it.
    Stays(StayReason),
}

/// Why a name or pattern cannot be allowed, denied or set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidVariable {
    /// It is empty, or contains white space, a comma, `=`, or a `*` before its end.
    Malformed(String),
    /// The sidecar sets this variable itself.
    Reserved(String),
}

impl Forwarding {
    /// Returns the built-in table.
    pub fn builtin() -> Self {
        Forwarding::default()
    }

    /// Returns the built-in table with the names of an
    /// [`additions_text`](Forwarding::additions_text). Invalid names are ignored.
    pub fn with_additions(text: &str) -> Self {
        let mut forwarding = Forwarding::builtin();
        for names in text.split(',') {
            // The launcher reported invalid names already.
            let _ = forwarding.allow(names.trim());
        }
        forwarding
    }

    /// Allows a name, or a prefix written as `PREFIX*`. A name overrides the table. A prefix only
    /// adds to it, and does not allow secrets.
    pub fn allow(&mut self, names: &str) -> Result<(), InvalidVariable> {
        match parse_pattern(names)? {
            Pattern::Name(name) => self.listed.insert(name.to_owned()),
            Pattern::Prefix(prefix) => self.listed_prefixes.insert(prefix.to_owned()),
        };
        Ok(())
    }

    /// Denies a name or a `PREFIX*`. This overrides [`allow`](Forwarding::allow) and
    /// [`set`](Forwarding::set).
    pub fn deny(&mut self, names: &str) -> Result<(), InvalidVariable> {
        parse_pattern(names)?;
        self.denied.insert(names.to_owned());
        self.set.retain(|name, _| !table::matches_pattern(names, name.as_bytes()));
        Ok(())
    }

    /// Sets a variable of every tool, in place of the caller's.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidVariable> {
        let Pattern::Name(_) = parse_pattern(name)? else {
            return Err(InvalidVariable::Malformed(name.to_owned()));
        };
        if value.contains('\0') {
            return Err(InvalidVariable::Malformed(name.to_owned()));
        }
        if !self.denies(name.as_bytes()) {
            self.set.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// Decides about a variable of the caller. `workspace` has all paths of the root as the caller sees
    /// it.
    pub fn judge(&self, name: &[u8], value: &[u8], workspace: &[PathBuf]) -> ForwardDecision {
        match self.decide(name, value, workspace) {
            // Not forwarded either way; this reason is the more helpful one in `why`.
            ForwardDecision::Stays(StayReason::Unlisted) if names_secret(name) => {
                ForwardDecision::Stays(StayReason::Secret)
            }
            decided => decided,
        }
    }

    /// Returns the variables that a tool gets, each as `NAME=value`: the caller's forwarded ones in
    /// their order, then those that are set.
    pub fn filter<'a>(
        &self,
        variables: impl IntoIterator<Item = &'a [u8]>,
        workspace: &[PathBuf],
    ) -> Vec<Vec<u8>> {
        let passes = |variable: &&[u8]| {
            let Some(equals) = variable.iter().position(|byte| *byte == b'=') else { return false };
            let (name, value) = variable.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            matches!(self.decide(name, value, workspace), ForwardDecision::Passes(_))
        };
        let passing = variables.into_iter().filter(passes).map(<[u8]>::to_vec);
        let set = self.set.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
        passing.chain(set).collect()
    }

    /// Returns the allowed names and prefixes, separated by commas, for shims.
    pub fn additions_text(&self) -> String {
        let prefixes = self.listed_prefixes.iter().map(|prefix| format!("{prefix}*"));
        self.listed.iter().cloned().chain(prefixes).collect::<Vec<_>>().join(",")
    }

    /// Returns the names of the variables that are set, sorted.
    pub fn set_names(&self) -> impl Iterator<Item = &str> {
        self.set.keys().map(String::as_str)
    }

    /// Applies the rules in order.
    fn decide(&self, name: &[u8], value: &[u8], workspace: &[PathBuf]) -> ForwardDecision {
        if name.is_empty() {
            return ForwardDecision::Stays(StayReason::NoName);
        }
        if table::is_reserved(name) {
            return ForwardDecision::Stays(StayReason::SidecarOwn);
        }
        if self.denies(name) {
            return ForwardDecision::Stays(StayReason::Denied);
        }
        let text = std::str::from_utf8(name).unwrap_or_default();
        if self.set.contains_key(text) {
            return ForwardDecision::Stays(StayReason::Replaced);
        }
        if self.listed.contains(text) {
            return ForwardDecision::Passes(PassReason::Listed);
        }
        let prefixed = || self.listed_prefixes.iter().any(|start| text.starts_with(start.as_str()));
        let decided = match table::row(name) {
            Some(row) => row.judge(value, workspace),
            None if prefixed() => ForwardDecision::Passes(PassReason::Listed),
            None => ForwardDecision::Stays(StayReason::Unlisted),
        };
        match decided {
            ForwardDecision::Passes(_) if names_secret(name) => {
                ForwardDecision::Stays(StayReason::Secret)
            }
            ForwardDecision::Passes(_) if value::has_credentials(value) => {
                ForwardDecision::Stays(StayReason::Credentials)
            }
            decided => decided,
        }
    }

    fn denies(&self, name: &[u8]) -> bool {
        self.denied.iter().any(|pattern| table::matches_pattern(pattern, name))
    }
}

impl fmt::Display for InvalidVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidVariable::Malformed(name) => {
                write!(f, "invalid variable '{}'", name.escape_debug())
            }
            InvalidVariable::Reserved(name) => {
                write!(f, "variable '{name}' is reserved: the sidecar sets its own")
            }
        }
    }
}

impl std::error::Error for InvalidVariable {}

/// A name or a prefix.
enum Pattern<'a> {
    Name(&'a str),
    /// Without the `*`.
    Prefix(&'a str),
}

fn parse_pattern(names: &str) -> Result<Pattern<'_>, InvalidVariable> {
    let pattern = match names.strip_suffix('*') {
        Some(prefix) => Pattern::Prefix(prefix),
        None => Pattern::Name(names),
    };
    let (Pattern::Name(name) | Pattern::Prefix(name)) = pattern;
    let odd = |letter: char| {
        letter.is_whitespace() || letter.is_control() || matches!(letter, ',' | '=' | '*')
    };
    if names.is_empty() || name.contains(odd) {
        return Err(InvalidVariable::Malformed(names.to_owned()));
    }
    if table::is_reserved(name.as_bytes()) {
        return Err(InvalidVariable::Reserved(names.to_owned()));
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../spec/environment.md");

    fn judge(forwarding: &Forwarding, variable: &str) -> ForwardDecision {
        let (name, value) = variable.split_once('=').unwrap();
        forwarding.judge(name.as_bytes(), value.as_bytes(), &[PathBuf::from("/workspace")])
    }

    #[test]
    fn every_example_of_the_page_holds() {
        let examples = PAGE.split("\n## Examples\n").nth(1).expect("the page has examples");
        let mut forwarding = Forwarding::with_additions("MY_TOKEN,CARGO_HOME,TEAM_*");
        forwarding.deny("CC").unwrap();
        let mut count = 0;
        for row in examples.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [variable, expected] = cells[..] else { panic!("{row}") };
            let variable = variable.trim_matches('`');
            let text = match judge(&forwarding, variable) {
                ForwardDecision::Passes(why) => format!("passes: {why}"),
                ForwardDecision::Stays(why) => format!("stays: {why}"),
            };
            assert_eq!(text, expected, "{variable}");
            count += 1;
        }
        assert!(count > 50, "only {count} examples found");
    }

    /// Checks the page names, as every user of the list does.
    #[test]
    fn no_secret_of_the_page_passes_but_by_its_full_name() {
        let mut forwarding = Forwarding::builtin();
        forwarding.allow("*").unwrap();
        let secrets = PAGE.split("\n## Secrets\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = secrets.lines().filter(|line| line.starts_with("| `") && line.contains("| yes"));
        let mut count = 0;
        for name in rows.flat_map(|row| row.split('`').skip(1).step_by(2)) {
            assert!(
                matches!(judge(&forwarding, &format!("{name}=x")), ForwardDecision::Stays(_)),
                "{name}"
            );
            count += 1;
        }
        assert!(count > 20, "only {count} names found");
    }

    #[test]
    fn listed_names_override_all_but_reserved_ones() {
        let mut forwarding = Forwarding::builtin();
        for name in ["TMPDIR", "RUSTC_WRAPPER", "GITHUB_TOKEN", "PYTHONPATH", "BASH_ENV"] {
            let variable = format!("{name}=https://me:pw@host/x");
            assert!(matches!(judge(&forwarding, &variable), ForwardDecision::Stays(_)), "{name}");
            forwarding.allow(name).unwrap();
            let listed = ForwardDecision::Passes(PassReason::Listed);
            assert_eq!(judge(&forwarding, &variable), listed, "{name}");
        }
        for names in ["PATH", "HOME", "LD_PRELOAD", "LD_*", "DYLD_*", "AIFO_EXEC", "AIFO_SHIM_*"] {
            let refused = Err(InvalidVariable::Reserved(names.to_owned()));
            assert_eq!(forwarding.allow(names), refused);
            assert!(forwarding.set(names, "x").is_err(), "{names}");
        }
        forwarding.allow("*").unwrap();
        for variable in ["PATH=/x", "LD_PRELOAD=/x", "AIFO_EXEC=x", "CARGO_HOME=/x", "A_SECRET=x"] {
            assert!(
                matches!(judge(&forwarding, variable), ForwardDecision::Stays(_)),
                "{variable}"
            );
        }
        assert_eq!(judge(&forwarding, "FOO=/x"), ForwardDecision::Passes(PassReason::Listed));
    }

    #[test]
    fn set_variables_replace_the_callers() {
        let mut forwarding = Forwarding::builtin();
        forwarding.set("CI", "").unwrap();
        forwarding.set("A", "b=c").unwrap();
        let callers = [&b"LANG=C"[..], b"CI=1", b"A=", b"", b"=x", b"NO_COLOR", b"TERM=\xff"];
        let tools = forwarding.filter(callers, &[PathBuf::from("/workspace")]);
        assert_eq!(tools, [&b"LANG=C"[..], b"TERM=\xff", b"A=b=c", b"CI="]);
        assert_eq!(judge(&forwarding, "CI=1"), ForwardDecision::Stays(StayReason::Replaced));
        assert!(forwarding.set("A*", "x").is_err());
        assert!(forwarding.set("A", "x\0y").is_err());
    }

    #[test]
    fn denied_variables_are_never_forwarded() {
        let mut forwarding = Forwarding::builtin();
        forwarding.allow("FOO").unwrap();
        forwarding.set("FOOT", "1").unwrap();
        forwarding.deny("FOO*").unwrap();
        forwarding.set("FOOD", "1").unwrap();
        forwarding.deny("CI").unwrap();
        for variable in ["FOO=1", "FOOT=1", "FOOD=1", "CI=1"] {
            assert_eq!(judge(&forwarding, variable), ForwardDecision::Stays(StayReason::Denied));
        }
        assert!(forwarding.filter([&b"FOOT=1"[..]], &[PathBuf::from("/")]).is_empty());
    }

    #[test]
    fn additions_survive_a_round_trip_as_text() {
        let mut forwarding = Forwarding::builtin();
        assert_eq!(forwarding.additions_text(), "");
        for names in ["MY_*", "FOO", "npm_config_//r.example/:_authToken"] {
            forwarding.allow(names).unwrap();
        }
        let text = forwarding.additions_text();
        assert_eq!(text, "FOO,npm_config_//r.example/:_authToken,MY_*");
        assert_eq!(Forwarding::with_additions(&text), forwarding);
        assert_eq!(Forwarding::with_additions(" ,PATH, a b,"), Forwarding::builtin());
    }

    #[test]
    fn malformed_names_are_rejected() {
        for name in ["", "A=", "A B", "A,B", "*A", "A**", "A\n"] {
            let refused = Err(InvalidVariable::Malformed(name.to_owned()));
            assert_eq!(Forwarding::builtin().allow(name), refused);
            assert_eq!(Forwarding::builtin().deny(name), refused);
        }
    }
}
