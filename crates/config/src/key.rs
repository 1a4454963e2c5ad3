//! Rows of the table of keys: name, variables, flag, format, and what the workspace file may do.
//!
//! `C` is the configuration that holds the values.

use std::borrow::Cow;
use std::ffi::OsString;

use serde::Serialize;
use serde_json::Value;

use crate::error::ConfigError;
use crate::format::Format;
use crate::item::Item;
use crate::paths::user_file_name;
use crate::source::{Layer, Source, Sourced};

pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Name, variables and flag of a key.
pub(crate) struct Names {
    /// The key with its table: `notify.allow`. NAME stands for any word.
    pub key: &'static str,
    /// The first one that is set applies.
    pub variables: &'static [&'static str],
    pub flag: Option<Flag>,
}

/// A flag, from which clap's definition is generated.
#[derive(Clone, Copy)]
pub(crate) struct Flag {
    /// With the hyphens, as in sources and errors.
    pub long: &'static str,
    pub short: Option<char>,
    pub takes: Takes,
    pub group: FlagGroup,
    /// Help, without default and variable, which are generated.
    pub help: &'static str,
}

/// The values of a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None: it stands for this word.
    Nothing(&'static str),
    /// One, with this name.
    One(&'static str),
    /// One; the flag is repeatable.
    Many(&'static str),
    /// Several, separated by commas; the flag is repeatable.
    List(&'static str),
}

/// The place of a value, to read and to write.
pub(crate) type At<C, T> = (fn(&C) -> &Sourced<T>, fn(&mut C) -> &mut Sourced<T>);

/// The flags that a command takes together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FlagGroup {
    Project,
    Session,
    Containers,
    Smart,
    State,
    Permissions,
    Cluster,
    Pod,
}

/// The change of a value that the workspace file may make.
pub(crate) struct Tightening<T> {
    /// Returns the objection to a value, if it extends the configuration.
    pub objection: fn(&T) -> Option<&'static str>,
    /// Returns whether the second value replaces the first.
    pub is_stricter: fn(&T, &T) -> bool,
}

/// A row: the names of a key, and its [`Setting`] or [`Rule`].
pub(crate) struct Row<K> {
    names: Names,
    body: K,
}

/// A key that has one value.
pub(crate) struct Setting<C, T: 'static> {
    format: Format<T>,
    get: fn(&C) -> &Sourced<T>,
    get_mut: fn(&mut C) -> &mut Sourced<T>,
    unset: &'static str,
    workspace: Result<Tightening<T>, &'static str>,
    environment: Option<Read<T>>,
}

/// A key whose values are merged, or that has its own structure.
pub(crate) struct Rule<C> {
    apply: Apply<C>,
    workspace: Result<Apply<C>, &'static str>,
    environment: Option<ReadAll<C>>,
    show: fn(&C) -> Vec<ConfigEntry>,
}

pub(crate) type Apply<C> = fn(&mut C, &Item<'_>) -> Result<(), ConfigError>;
/// Reads variables that are not simply the text of the value.
type Read<T> = fn(VariableLookup<'_>) -> Result<Option<Sourced<T>>, ConfigError>;
type ReadAll<C> = fn(&mut C, VariableLookup<'_>) -> Result<(), ConfigError>;

/// A key of any type.
pub(crate) trait Key<C>: Sync {
    fn names(&self) -> &Names;

    /// Applies a value of the user's file, the environment or a flag.
    fn apply(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError>;

    /// Applies a value of the workspace file. Errors: it extends the configuration.
    fn tighten(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError>;

    /// Returns why the workspace file may not have the key, if so.
    fn objection(&self) -> Option<&'static str>;

    /// Applies the variables.
    fn read_environment(
        &self,
        config: &mut C,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError>;

    /// Returns the rows of `config show`.
    fn show(&self, config: &C) -> Vec<ConfigEntry>;

    /// Returns the words of an enumeration.
    fn words(&self) -> Vec<&'static str>;
}

/// A row of `config show`.
#[derive(Debug, Serialize)]
pub struct ConfigEntry {
    /// The key, with its table.
    pub key: String,
    /// The value in force.
    pub value: Value,
    /// Shown for a value that is not set.
    #[serde(skip)]
    unset: &'static str,
    layer: Layer,
    /// The line, variable or flag.
    pub from: String,
}

impl ConfigEntry {
    /// Returns a row of a value with this source.
    pub fn new(key: impl Into<String>, value: Value, source: &Source) -> Self {
        let (layer, from) = (source.layer(), source.to_string());
        ConfigEntry { key: key.into(), value, unset: "", layer, from }
    }

    /// Sets the text for null.
    pub fn unset(mut self, text: &'static str) -> Self {
        self.unset = text;
        self
    }

    /// Returns the layer of the value.
    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// Returns the value as TOML, or the text for an absent one.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Null => format!("({})", self.unset),
            value => value.to_string(),
        }
    }
}

impl<K> Row<K> {
    pub(crate) const fn variables(mut self, names: &'static [&'static str]) -> Self {
        self.names.variables = names;
        self
    }

    pub(crate) const fn flag(
        mut self,
        long: &'static str,
        takes: Takes,
        group: FlagGroup,
        help: &'static str,
    ) -> Self {
        self.names.flag = Some(Flag { long, short: None, takes, group, help });
        self
    }

    pub(crate) const fn short(mut self, short: char) -> Self {
        if let Some(flag) = &mut self.names.flag {
            flag.short = Some(short);
        }
        self
    }
}

impl<C, T> Row<Setting<C, T>> {
    /// Creates a row. `effect` is the error's text if the workspace file has the key.
    pub(crate) const fn setting(
        key: &'static str,
        (get, get_mut): At<C, T>,
        format: Format<T>,
        effect: &'static str,
    ) -> Self {
        let names = Names { key, variables: &[], flag: None };
        let workspace = Err(effect);
        let body = Setting { format, get, get_mut, unset: "", workspace, environment: None };
        Row { names, body }
    }

    /// Sets the text for null.
    pub(crate) const fn unset(mut self, text: &'static str) -> Self {
        self.body.unset = text;
        self
    }

    /// Reads the variables with `read`.
    pub(crate) const fn read_with(mut self, read: Read<T>) -> Self {
        self.body.environment = Some(read);
        self
    }
}

impl<C, T: Copy> Row<Setting<C, T>> {
    /// Lets the workspace file restrict the value.
    pub(crate) const fn tightened(mut self, by: Tightening<T>) -> Self {
        self.body.workspace = Ok(by);
        self
    }
}

impl<C> Row<Rule<C>> {
    /// Creates a row. `workspace` applies the workspace file, or is the error's text.
    pub(crate) const fn rule(
        key: &'static str,
        apply: Apply<C>,
        workspace: Result<Apply<C>, &'static str>,
    ) -> Self {
        let names = Names { key, variables: &[], flag: None };
        Row { names, body: Rule { apply, workspace, environment: None, show: |_| Vec::new() } }
    }

    /// Reads the variables with `read`.
    pub(crate) const fn read_with(mut self, read: ReadAll<C>) -> Self {
        self.body.environment = Some(read);
        self
    }

    pub(crate) const fn shown(mut self, show: fn(&C) -> Vec<ConfigEntry>) -> Self {
        self.body.show = show;
        self
    }
}

impl<C: 'static, T: 'static> Key<C> for Row<Setting<C, T>> {
    fn names(&self) -> &Names {
        &self.names
    }

    fn apply(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError> {
        *(self.body.get_mut)(config) =
            Sourced::new((self.body.format.parse)(item)?, item.source.clone());
        Ok(())
    }

    fn tighten(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError> {
        let Ok(tightening) = &self.body.workspace else { return Ok(()) };
        let value = (self.body.format.parse)(item)?;
        if let Some(objection) = (tightening.objection)(&value) {
            return Err(extends(item, objection));
        }
        let place = (self.body.get_mut)(config);
        if (tightening.is_stricter)(&place.value, &value) {
            *place = Sourced::new(value, item.source.clone());
        }
        Ok(())
    }

    fn objection(&self) -> Option<&'static str> {
        self.body.workspace.as_ref().err().copied()
    }

    fn read_environment(
        &self,
        config: &mut C,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError> {
        match self.body.environment {
            Some(read) => {
                if let Some(sourced) = read(lookup)? {
                    *(self.body.get_mut)(config) = sourced;
                }
                Ok(())
            }
            None => match first_set(self.names.key, self.names.variables, lookup)? {
                Some(item) => self.apply(config, &item),
                None => Ok(()),
            },
        }
    }

    fn show(&self, config: &C) -> Vec<ConfigEntry> {
        let Sourced { value, source } = (self.body.get)(config);
        let value = (self.body.format.show)(value);
        vec![ConfigEntry::new(self.names.key, value, source).unset(self.body.unset)]
    }

    fn words(&self) -> Vec<&'static str> {
        (self.body.format.words)()
    }
}

impl<C: 'static> Key<C> for Row<Rule<C>> {
    fn names(&self) -> &Names {
        &self.names
    }

    fn apply(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError> {
        (self.body.apply)(config, item)
    }

    fn tighten(&self, config: &mut C, item: &Item<'_>) -> Result<(), ConfigError> {
        match self.body.workspace {
            Ok(tighten) => tighten(config, item),
            Err(_) => Ok(()),
        }
    }

    fn objection(&self) -> Option<&'static str> {
        self.body.workspace.err()
    }

    fn read_environment(
        &self,
        config: &mut C,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError> {
        self.body.environment.map_or(Ok(()), |read| read(config, lookup))
    }

    fn show(&self, config: &C) -> Vec<ConfigEntry> {
        (self.body.show)(config)
    }

    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Returns the error for a value that extends the configuration. `effect` follows the key.
pub(crate) fn extends(item: &Item<'_>, effect: &str) -> ConfigError {
    let key = item.key.replace("NAME", item.name);
    let key = match key.rsplit_once('.') {
        Some((table, key)) => format!("[{table}] {key}"),
        None => key,
    };
    let what = format!("{key} {effect}, which a workspace's file may not do");
    item.error(what).hint(format!("this belongs in your own file, '{}'", user_file_name()))
}

/// Returns the first variable that is set and not empty.
pub(crate) fn first_set<'a>(
    key: &'a str,
    variables: &[&'static str],
    lookup: VariableLookup<'_>,
) -> Result<Option<Item<'a>>, ConfigError> {
    for name in variables {
        if let Some(Sourced { value, source }) = variable(lookup, *name)? {
            return Ok(Some(Item::of_variable(key, source, value)));
        }
    }
    Ok(None)
}

/// Returns a variable's value; `None` if it is empty.
pub(crate) fn variable(
    lookup: VariableLookup<'_>,
    name: impl Into<Cow<'static, str>>,
) -> Result<Option<Sourced<String>>, ConfigError> {
    let name = name.into();
    let value = lookup(&name);
    let source = Source::Environment(name);
    match value.map(OsString::into_string) {
        Some(Ok(value)) if !value.is_empty() => Ok(Some(Sourced::new(value, source))),
        Some(Err(_)) => Err(ConfigError::new(&source, "value is not valid UTF-8")),
        _ => Ok(None),
    }
}
