//! `[kind.NAME]`, `--toolchain-image` and `--attach`: kinds, their tools, images and containers.

use std::collections::BTreeMap;

use aifo_policy::Policy;
use aifo_types::{Kind, ToolName};
use serde_json::json;

use crate::error::{ConfigError, suggestion};
use crate::item::Item;
use crate::key::{ConfigEntry, VariableLookup, variable};
use crate::paths::user_file_name;
use crate::source::{Source, Sourced};

/// The kinds of a session.
#[derive(Clone, Debug)]
pub struct Kinds {
    pub policy: Policy,
    /// Changes to the built-in policy.
    pub rules: Vec<ToolRule>,
    /// Images configured for a kind.
    pub images: BTreeMap<Kind, Sourced<String>>,
    /// The user's own containers, by the kind that is routed to them.
    pub attached: BTreeMap<Kind, Sourced<String>>,
}

/// A change of a kind's allowlist.
#[derive(Clone, Debug)]
pub struct ToolRule {
    /// The kind.
    pub kind: Kind,
    /// True if it may run them.
    pub effect: ToolEffect,
    /// The tools.
    pub tools: Sourced<Vec<String>>,
}

/// The effect of a [`ToolRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// The kind may run the tools.
    Allow,
    /// The kind may not run the tools.
    Deny,
}

/// The word for all other toolchains, on demand.
pub(crate) const AUTO: &str = "auto";

#[cfg(test)]
thread_local! {
    /// The number of tables of kinds that this thread has built.
    pub static BUILT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Kinds {
    pub fn builtin() -> Self {
        #[cfg(test)]
        BUILT.with(|built| built.set(built.get() + 1));
        Kinds {
            policy: Policy::builtin(),
            rules: Vec::new(),
            images: BTreeMap::new(),
            attached: BTreeMap::new(),
        }
    }

    /// Finds a kind by name or alias.
    pub fn named(&self, word: &str, source: &Source) -> Result<Kind, ConfigError> {
        if let Some(found) = self.policy.kind_named(word) {
            return Ok(found.kind.clone());
        }
        let known: Vec<_> = self.names().collect();
        let what =
            format!("there is no toolchain '{word}'; known toolchains: {}", known.join(", "));
        let error = ConfigError::new(source, what);
        Err(match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!(
                "define your own in '{}': [kind.NAME] with tools = [..]",
                user_file_name()
            )),
        })
    }

    /// Adds a new kind of the user's file, or checks that the kind exists.
    pub fn define(&mut self, header: &Item<'_>) -> Result<(), ConfigError> {
        let tools = header.table().and_then(|(table, _)| table.get_ref().get("tools"));
        let known = self.policy.kind_named(header.name).map(|policy| &policy.kind);
        match (known, tools) {
            (Some(_), None) => Ok(()),
            (Some(kind), Some(tools)) => {
                let what = format!("toolchain '{kind}' already has tools");
                let source = header.source_of(tools.span());
                Err(ConfigError::new(&source, what).hint("add tools with: allow = [..]"))
            }
            (None, Some(_)) => {
                let kind = new_kind(header.name).map_err(|what| header.error(what))?;
                self.policy.allow(&kind, []);
                Ok(())
            }
            (None, None) => {
                let error = header.error(format!("there is no toolchain '{}'", header.name));
                Err(match suggestion(header.name, self.names()) {
                    Some(meant) => error.hint(format!("did you mean [kind.{meant}]?")),
                    None => error.hint("define a new toolchain with: tools = [..]"),
                })
            }
        }
    }

    pub fn allow(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        self.change(item, ToolEffect::Allow)
    }

    /// Denies tools, which the workspace file may do too.
    pub fn deny(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        self.change(item, ToolEffect::Deny)
    }

    /// Sets the image of a kind; a flag has `KIND=IMAGE`.
    pub fn set_image(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        let Some(words) = item.flag_words() else {
            return self.name_image(item.name, Sourced::new(item.text()?, item.source.clone()));
        };
        for word in words {
            let Some((kind, image)) = word.split_once('=') else {
                let hint = "use KIND=IMAGE, for example rust=rust:1.95";
                return Err(item.error(format!("missing image in '{word}'")).hint(hint));
            };
            self.name_image(kind, Sourced::new(image.to_owned(), item.source.clone()))?;
        }
        Ok(())
    }

    /// Applies `AIFO_<KIND>_TOOLCHAIN_IMAGE` of every kind.
    pub fn read_images(&mut self, lookup: VariableLookup<'_>) -> Result<(), ConfigError> {
        for kind in self.names().map(str::to_owned).collect::<Vec<_>>() {
            if let Some(image) = variable(lookup, aifo_types::env::toolchain_image(&kind))? {
                self.name_image(&kind, image)?;
            }
        }
        Ok(())
    }

    /// Applies `NAME=KIND` of `--attach`.
    pub fn attach(&mut self, item: &Item<'_>) -> Result<(), ConfigError> {
        for word in item.list()? {
            let Some((container, kind)) = word.split_once('=') else {
                let hint = "use NAME=KIND, for example devbox=rust";
                return Err(item.error(format!("missing kind in '{word}'")).hint(hint));
            };
            let kind = self.named(kind, &item.source)?;
            if !is_engine_word(container) {
                return Err(item.error(format!("invalid container '{container}'")));
            }
            if let Some(other) = self.attached.get(&kind) {
                let what = format!("{kind} is already attached to '{}'", other.value);
                return Err(item.error(what));
            }
            if let Some(Source::Flag(flag)) = self.images.get(&kind).map(|image| &image.source) {
                let what = format!("{kind} has both {} and {flag}", item.source);
                return Err(item.error(what).hint("remove one of the two flags"));
            }
            let container = Sourced::new(container.to_owned(), item.source.clone());
            self.attached.insert(kind, container);
        }
        Ok(())
    }

    pub fn show_images(&self) -> Vec<ConfigEntry> {
        let images = self.images.iter();
        images.map(|(kind, image)| entry(&format!("kind.{kind}.image"), image)).collect()
    }

    pub fn show_attached(&self) -> Vec<ConfigEntry> {
        let attached = self.attached.iter();
        attached.map(|(kind, name)| entry(&format!("attach.{kind}"), name)).collect()
    }

    pub fn show_rules(&self, effect: ToolEffect) -> Vec<ConfigEntry> {
        let key = match effect {
            ToolEffect::Allow => "allow",
            ToolEffect::Deny => "deny",
        };
        let rules = self.rules.iter().filter(|rule| rule.effect == effect);
        rules.map(|rule| entry(&format!("kind.{}.{key}", rule.kind), &rule.tools)).collect()
    }

    fn change(&mut self, item: &Item<'_>, effect: ToolEffect) -> Result<(), ConfigError> {
        let kind = self.named(item.name, &item.source)?;
        let words = item.list()?;
        let parsed = words.iter().map(|name| tool_name(name)).collect::<Result<Vec<_>, _>>();
        let parsed = parsed.map_err(|what| item.error(what))?;
        match effect {
            ToolEffect::Allow => self.policy.allow(&kind, parsed),
            ToolEffect::Deny => self.policy.deny(&kind, parsed),
        }
        let tools = Sourced::new(words, item.source.clone());
        self.rules.push(ToolRule { kind, effect, tools });
        Ok(())
    }

    fn name_image(&mut self, kind: &str, image: Sourced<String>) -> Result<(), ConfigError> {
        let kind = self.named(kind, &image.source)?;
        if !is_engine_word(&image.value) {
            let what = format!("invalid image '{}'", image.value);
            return Err(ConfigError::new(&image.source, what));
        }
        self.images.insert(kind, image);
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.policy.kinds().iter().map(|policy| policy.kind.as_str())
    }
}

fn entry<T: serde::Serialize>(key: &str, sourced: &Sourced<T>) -> ConfigEntry {
    ConfigEntry::new(key, json!(sourced.value), &sourced.source)
}

/// Returns whether it can be the name of an image or a container: an engine would not parse it as an
/// option.
pub fn is_engine_word(word: &str) -> bool {
    !word.starts_with('-') && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic())
}

fn new_kind(name: &str) -> Result<Kind, String> {
    let kind = Kind::parse(name).map_err(|invalid| invalid.to_string())?;
    let reserved = [
        (Kind::host().as_str(), "the host"),
        (Kind::agent().as_str(), "the agent"),
        (AUTO, "all toolchains"),
    ]
    .into_iter()
    .find_map(|(word, of)| (kind.as_str() == word).then_some(of));
    match reserved {
        Some(of) => Err(format!("'{kind}' cannot name a toolchain: reserved for {of}")),
        None => Ok(kind),
    }
}

fn tool_name(name: &str) -> Result<ToolName, String> {
    match ToolName::parse(name.as_bytes()) {
        // The shim binary runs other programs under such names.
        Ok(tool) if !tool.as_str().starts_with("aifo-") => Ok(tool),
        Ok(_) => {
            Err(format!("invalid tool name '{name}': names starting with 'aifo-' are reserved"))
        }
        Err(invalid) => Err(format!("invalid tool name '{name}': {invalid}")),
    }
}
