//! Which of a caller's variables a tool gets: `spec/environment.md`.

mod reasons;
mod table;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use aifo_types::names_secret;

pub use self::reasons::{PassReason, StayReason};

/// The rules by which a session passes variables on: our table, widened by its user, narrowed by
/// its workspace.
///
/// ```
/// use std::path::Path;
/// use aifo_policy::{ForwardDecision, Forwarding, PassReason};
///
/// let mut forwarding = Forwarding::builtin();
/// forwarding.allow("FOO").unwrap();
/// forwarding.set("MODE", "fast").unwrap();
/// let workspace = Path::new("/workspace");
/// let judged = forwarding.judge(b"FOO", b"1", workspace);
/// assert_eq!(judged, ForwardDecision::Passes(PassReason::Listed));
///
/// let callers = [&b"CI=1"[..], b"FOO=1", b"HOME=/root", b"MODE=slow", b"BAR=2"];
/// let tools = forwarding.filter(callers, workspace);
/// assert_eq!(tools, [&b"CI=1"[..], b"FOO=1", b"MODE=fast"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Names that pass whatever our table says.
    listed: BTreeSet<String>,
    /// Beginnings of names that pass where our table says nothing.
    listed_prefixes: BTreeSet<String>,
    /// Patterns of names that stay.
    denied: BTreeSet<String>,
    /// What every tool gets.
    set: BTreeMap<String, String>,
}

/// What becomes of a variable, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ForwardDecision {
    /// The tool gets it.
    Passes(PassReason),
    /// The tool does not.
    Stays(StayReason),
}

/// Why a name, or a pattern of names, cannot be allowed, denied or set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidVariable {
    /// It is empty, or holds white space, a comma, a `=`, or a `*` that is not its end.
    Malformed(String),
    /// The sidecar has its own, and nobody else sets it.
    Reserved(String),
}

impl Forwarding {
    /// Our own table, as it is without any configuration.
    pub fn builtin() -> Self {
        Forwarding::default()
    }

    /// Our own table and what [`additions_text`](Forwarding::additions_text) says. What cannot be
    /// allowed is passed over.
    pub fn with_additions(text: &str) -> Self {
        let mut forwarding = Forwarding::builtin();
        for names in text.split(',') {
            // Whoever wrote the text was told already.
            let _ = forwarding.allow(names.trim());
        }
        forwarding
    }

    /// Passes on a name, or the names that begin with `PREFIX` of a `PREFIX*`. A name passes
    /// whatever the table says of it; a prefix adds to the table, and secrets stay.
    pub fn allow(&mut self, names: &str) -> Result<(), InvalidVariable> {
        match parse_pattern(names)? {
            Pattern::Name(name) => self.listed.insert(name.to_owned()),
            Pattern::Prefix(prefix) => self.listed_prefixes.insert(prefix.to_owned()),
        };
        Ok(())
    }

    /// Keeps back a name or a `PREFIX*`, whatever passes it, be it [set](Forwarding::set).
    pub fn deny(&mut self, names: &str) -> Result<(), InvalidVariable> {
        parse_pattern(names)?;
        self.denied.insert(names.to_owned());
        self.set.retain(|name, _| !table::matches_pattern(names, name.as_bytes()));
        Ok(())
    }

    /// Gives every tool a variable, in place of the caller's.
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

    /// What becomes of a caller's variable. `workspace` is the root as the caller sees it.
    pub fn judge(&self, name: &[u8], value: &[u8], workspace: &Path) -> ForwardDecision {
        match self.decide(name, value, workspace) {
            // Both stay. It is for whoever asks why that the better reason is looked for.
            ForwardDecision::Stays(StayReason::Unlisted) if names_secret(name) => {
                ForwardDecision::Stays(StayReason::Secret)
            }
            decided => decided,
        }
    }

    /// The variables that a tool gets, each `NAME=value`: those of the caller's that pass, in their
    /// order, and those that are set.
    pub fn filter<'a>(
        &self,
        variables: impl IntoIterator<Item = &'a [u8]>,
        workspace: &Path,
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

    /// What [`allow`](Forwarding::allow) added, separated by commas: what a shim has to know.
    pub fn additions_text(&self) -> String {
        let prefixes = self.listed_prefixes.iter().map(|prefix| format!("{prefix}*"));
        self.listed.iter().cloned().chain(prefixes).collect::<Vec<_>>().join(",")
    }

    /// The names of the variables that every tool gets, sorted.
    pub fn set_names(&self) -> impl Iterator<Item = &str> {
        self.set.keys().map(String::as_str)
    }

    /// The rules in their order.
    fn decide(&self, name: &[u8], value: &[u8], workspace: &Path) -> ForwardDecision {
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
                write!(f, "'{}' cannot be a variable", name.escape_debug())
            }
            InvalidVariable::Reserved(name) => {
                write!(f, "a tool's {name} is the sidecar's own, and no caller's")
            }
        }
    }
}

impl std::error::Error for InvalidVariable {}

/// What a user may write for names.
enum Pattern<'a> {
    Name(&'a str),
    /// Without its `*`.
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
        forwarding.judge(name.as_bytes(), value.as_bytes(), Path::new("/workspace"))
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

    /// The names that every consumer of the list is held to: each that stands for a secret, or not.
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
    fn a_listed_name_beats_all_but_the_sidecars_own() {
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
    fn what_is_set_takes_the_callers_place() {
        let mut forwarding = Forwarding::builtin();
        forwarding.set("CI", "").unwrap();
        forwarding.set("A", "b=c").unwrap();
        let callers = [&b"LANG=C"[..], b"CI=1", b"A=", b"", b"=x", b"NO_COLOR", b"TERM=\xff"];
        let tools = forwarding.filter(callers, Path::new("/workspace"));
        assert_eq!(tools, [&b"LANG=C"[..], b"TERM=\xff", b"A=b=c", b"CI="]);
        assert_eq!(judge(&forwarding, "CI=1"), ForwardDecision::Stays(StayReason::Replaced));
        assert!(forwarding.set("A*", "x").is_err());
        assert!(forwarding.set("A", "x\0y").is_err());
    }

    #[test]
    fn what_is_denied_stays_whatever_passes_it() {
        let mut forwarding = Forwarding::builtin();
        forwarding.allow("FOO").unwrap();
        forwarding.set("FOOT", "1").unwrap();
        forwarding.deny("FOO*").unwrap();
        forwarding.set("FOOD", "1").unwrap();
        forwarding.deny("CI").unwrap();
        for variable in ["FOO=1", "FOOT=1", "FOOD=1", "CI=1"] {
            assert_eq!(judge(&forwarding, variable), ForwardDecision::Stays(StayReason::Denied));
        }
        assert!(forwarding.filter([&b"FOOT=1"[..]], Path::new("/")).is_empty());
    }

    #[test]
    fn a_shim_is_told_what_was_added() {
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
    fn names_that_nobody_can_mean() {
        for name in ["", "A=", "A B", "A,B", "*A", "A**", "A\n"] {
            let refused = Err(InvalidVariable::Malformed(name.to_owned()));
            assert_eq!(Forwarding::builtin().allow(name), refused);
            assert_eq!(Forwarding::builtin().deny(name), refused);
        }
    }
}
