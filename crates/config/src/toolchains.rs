//! The toolchains of a session: kinds, versions, and when their sidecars start.

use std::collections::BTreeSet;

use aifo_host::{Toolchain, Version, VersionSource};
use aifo_types::Kind;
use serde_json::json;

use crate::error::ConfigError;
use crate::item::Item;
use crate::key::{ConfigEntry, VariableLookup, extends, variable};
use crate::kinds::{AUTO, Kinds};
use crate::source::{Source, Sourced};

/// The toolchains of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Each with its version.
    pub list: Vec<Toolchain>,
    /// Those whose sidecar starts with the first call of one of its tools, not with the session.
    pub on_demand: BTreeSet<Kind>,
}

/// Parses words such as `rust`, `py` and `rust@1.95`; each kind is listed once. `auto` adds all others, on
/// demand.
fn parse(kinds: &Kinds, item: &Item<'_>) -> Result<Sourced<Toolchains>, ConfigError> {
    let words = item.list()?;
    let mut named = Toolchains::default();
    let is_auto = |word: &&String| word.eq_ignore_ascii_case(AUTO);
    for word in words.iter().filter(|word| !is_auto(word)) {
        named.add(toolchain_named(kinds, word, &item.source)?, &item.source)?;
    }
    if words.iter().any(|word| is_auto(&word)) {
        named.add_others(kinds);
    }
    Ok(Sourced::new(named, item.source.clone()))
}

/// Replaces the session toolchains.
pub(crate) fn set(
    current: &mut Sourced<Toolchains>,
    kinds: &Kinds,
    item: &Item<'_>,
) -> Result<(), ConfigError> {
    *current = parse(kinds, item)?;
    Ok(())
}

pub(crate) fn show(current: &Sourced<Toolchains>) -> Vec<ConfigEntry> {
    let words = (!current.is_builtin()).then(|| current.value.words());
    let entry = ConfigEntry::new("toolchains", json!(words), &current.source);
    vec![entry.unset("detected from the project's files, with auto")]
}

/// Removes the toolchains that the workspace file does not list. Errors: it has a version.
pub(crate) fn restrict(
    current: &mut Sourced<Toolchains>,
    kinds: &Kinds,
    item: &Item<'_>,
) -> Result<(), ConfigError> {
    if item.list()?.iter().any(|word| word.contains('@')) {
        return Err(extends(item, "with an @ chooses a version"));
    }
    let Sourced { value: kept, source } = parse(kinds, item)?;
    let all = current.value.list.len();
    current.value.list.retain(|toolchain| kept.find(&toolchain.kind).is_some());
    current.value.on_demand.retain(|kind| kept.find(kind).is_some());
    if current.value.list.len() < all {
        current.source = source;
    }
    Ok(())
}

/// Applies `AIFO_<KIND>_TOOLCHAIN_VERSION` to kinds without a version.
pub(crate) fn read_versions(
    toolchains: &mut Toolchains,
    lookup: VariableLookup<'_>,
) -> Result<(), ConfigError> {
    let unversioned = |toolchain: &&mut Toolchain| toolchain.version.is_none();
    for toolchain in toolchains.list.iter_mut().filter(unversioned) {
        let name = aifo_types::env::toolchain_version(toolchain.kind.as_str());
        if let Some(Sourced { value, source }) = variable(lookup, name)? {
            toolchain.version = Some(user_version(&toolchain.kind, &value, &source)?);
        }
    }
    Ok(())
}

fn toolchain_named(kinds: &Kinds, word: &str, source: &Source) -> Result<Toolchain, ConfigError> {
    let (name, version) = match word.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (word, None),
    };
    let kind = kinds.named(name, source)?;
    let Some(text) = version else { return Ok(kind.into()) };
    let version = Some(user_version(&kind, text, source)?);
    Ok(Toolchain { kind, version })
}

fn user_version(kind: &Kind, text: &str, source: &Source) -> Result<Version, ConfigError> {
    Version::new(text, VersionSource::User).ok_or_else(|| {
        let what = format!("invalid version '{text}' for {kind}");
        let hint = "use up to 64 letters, digits and . _ -, for example rust@1.95";
        ConfigError::new(source, what).hint(hint)
    })
}

impl Toolchains {
    /// Creates a list of kinds without versions, started with the session.
    pub fn of(kinds: Vec<Kind>) -> Self {
        let list = kinds.into_iter().map(Toolchain::from).collect();
        Toolchains { list, on_demand: BTreeSet::new() }
    }

    /// Adds all other kinds, on demand.
    pub(crate) fn add_others(&mut self, kinds: &Kinds) {
        for policy in kinds.policy.kinds() {
            if self.find(&policy.kind).is_none() {
                self.list.push(policy.kind.clone().into());
                self.on_demand.insert(policy.kind.clone());
            }
        }
    }

    /// Starts the sidecar of a kind with the session.
    pub(crate) fn start_with_session(&mut self, kind: &Kind) {
        self.on_demand.remove(kind);
        if self.find(kind).is_none() {
            self.list.push(kind.clone().into());
        }
    }

    /// Returns those whose sidecar starts with the session.
    pub fn initial(&self) -> impl Iterator<Item = &Toolchain> + Clone {
        self.list.iter().filter(|toolchain| !self.on_demand.contains(&toolchain.kind))
    }

    /// Returns the kinds in order.
    pub fn kinds(&self) -> Vec<Kind> {
        self.list.iter().map(|toolchain| toolchain.kind.clone()).collect()
    }

    /// Returns the toolchain of a kind.
    pub fn find(&self, kind: &Kind) -> Option<&Toolchain> {
        self.list.iter().find(|toolchain| toolchain.kind == *kind)
    }

    /// Returns the words that parse to this list; `auto` stands for those on demand.
    pub fn words(&self) -> Vec<String> {
        let words = self.initial().map(|toolchain| match &toolchain.version {
            Some(version) => format!("{}@{version}", toolchain.kind),
            None => toolchain.kind.to_string(),
        });
        words.chain((!self.on_demand.is_empty()).then(|| AUTO.to_owned())).collect()
    }

    /// Returns a text for the user: `rust; on the first call: go, node`.
    pub fn text(&self) -> String {
        let kinds = |kinds: &mut dyn Iterator<Item = &Kind>| {
            kinds.map(Kind::as_str).collect::<Vec<_>>().join(", ")
        };
        let initial = kinds(&mut self.initial().map(|toolchain| &toolchain.kind));
        let on_demand = match kinds(&mut self.on_demand.iter()) {
            none if none.is_empty() => none,
            kinds => format!("on the first call: {kinds}"),
        };
        match (initial.is_empty(), on_demand.is_empty()) {
            (true, true) => "none".to_owned(),
            (false, false) => format!("{initial}; {on_demand}"),
            _ => initial + &on_demand,
        }
    }

    fn add(&mut self, toolchain: Toolchain, source: &Source) -> Result<(), ConfigError> {
        let known = self.list.iter_mut().find(|known| known.kind == toolchain.kind);
        let Some(known) = known else {
            self.list.push(toolchain);
            return Ok(());
        };
        match (&known.version, toolchain.version) {
            (_, None) => {}
            (None, version) => known.version = version,
            (Some(before), Some(version)) if *before == version => {}
            (Some(before), Some(version)) => {
                let kind = &known.kind;
                let what = format!("conflicting versions {kind}@{before} and {kind}@{version}");
                return Err(ConfigError::new(source, what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let item = Item::of_flag("toolchains", "--toolchain", &words);
        let named = parse(&Kinds::builtin(), &item);
        named.map(|named| named.value.words().join(" ")).map_err(|error| error.to_string())
    }

    #[test]
    fn toolchain_words() {
        let ok = |words: &[&str], expected: &str| {
            assert_eq!(named(words).as_deref(), Ok(expected), "{words:?}");
        };
        ok(&["rust", "PY", "rust"], "rust python");
        ok(&["rust@1.95", "node@24"], "rust@1.95 node@24");
        ok(&["ts@24", "node", "node@24"], "node@24");
        ok(&["node", "node@24"], "node@24");
        ok(&["auto"], "auto");
        ok(&["Auto", "rust@1.95"], "rust@1.95 auto");
    }

    #[test]
    fn auto_adds_all_others_on_demand() {
        let words = ["auto", "go"].map(str::to_owned);
        let item = Item::of_flag("toolchains", "--toolchain", &words);
        let toolchains = parse(&Kinds::builtin(), &item).unwrap().value;
        let names = |kinds: &mut dyn Iterator<Item = &Kind>| -> Vec<String> {
            kinds.map(Kind::to_string).collect()
        };
        let initial = names(&mut toolchains.initial().map(|toolchain| &toolchain.kind));
        assert_eq!(initial, ["go"]);
        assert_eq!(names(&mut toolchains.on_demand.iter()), ["c-cpp", "node", "python", "rust"]);
        assert_eq!(toolchains.list.len(), 5);
        assert_eq!(toolchains.text(), "go; on the first call: c-cpp, node, python, rust");
        assert_eq!(Toolchains::default().text(), "none");
    }

    #[test]
    fn versions_from_the_environment() {
        let versions = |variable: &'static str, value: &'static str| {
            let words = ["rust", "c-cpp", "node@24"].map(str::to_owned);
            let item = Item::of_flag("toolchains", "--toolchain", &words);
            let mut toolchains = parse(&Kinds::builtin(), &item).unwrap().value;
            read_versions(&mut toolchains, &|name| (name == variable).then(|| value.into()))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(toolchains.words().join(" "))
        };
        let rust = "AIFO_RUST_TOOLCHAIN_VERSION";
        assert_eq!(versions(rust, "1.95").as_deref(), Ok("rust@1.95 c-cpp node@24"));
        assert_eq!(versions(rust, "").as_deref(), Ok("rust c-cpp node@24"));
        let c = versions("AIFO_C_CPP_TOOLCHAIN_VERSION", "14");
        assert_eq!(c.as_deref(), Ok("rust c-cpp@14 node@24"));
        let chosen = versions("AIFO_NODE_TOOLCHAIN_VERSION", "20");
        assert_eq!(chosen.as_deref(), Ok("rust c-cpp node@24"), "the flag overrides the variable");
        assert!(versions(rust, "1:2").unwrap_err().starts_with(rust));
    }

    #[test]
    fn invalid_toolchain_words() {
        let fails = |words: &[&str], expected: &str| {
            let error = named(words).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        };
        fails(&["rust@"], "invalid version '' for rust\nhint: use up to 64");
        fails(&["rust@1:2"], "invalid version '1:2' for rust");
        fails(&["rsut@1"], "there is no toolchain 'rsut'");
        fails(&["auto@1"], "there is no toolchain 'auto'");
        fails(&["py@3.12", "python@3.13"], "conflicting versions python@3.12 and python@3.13");
    }
}
