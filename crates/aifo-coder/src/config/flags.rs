//! The command line's layer.

use std::collections::BTreeMap;

use aifo_launch::Confine;
use aifo_policy::PermissionRule;
use aifo_types::Endpoint;

use crate::config::containers::ContainerFlags;
use crate::config::error::ConfigError;
use crate::config::source::{Source, Sourced};
use crate::config::user::limit;
use crate::config::values::Config;

/// The flags of a session; absent flags are `None` or empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) toolchains: Vec<String>,
    pub(crate) idle_stop: Option<u64>,
    pub(crate) max_secs: Option<u64>,
    pub(crate) verbose: Option<bool>,
    pub(crate) listen: Option<Endpoint>,
    pub(crate) confine: Option<Confine>,
    /// `NAME`, `PREFIX*` or `NAME=VALUE`.
    pub(crate) env: Vec<String>,
    pub(crate) smart_node: Option<bool>,
    pub(crate) smart_python: Option<bool>,
    pub(crate) containers: ContainerFlags,
    /// Permission rules of `--yes-to`.
    pub(crate) yes_to: Vec<PermissionRule>,
}

impl Config {
    /// Overrides values with the flags.
    pub(crate) fn apply_flags(&mut self, flags: &Flags) -> Result<(), ConfigError> {
        if !flags.toolchains.is_empty() {
            let source = Source::Flag("--toolchain");
            self.toolchains =
                self.toolchains_named(Sourced::new(flags.toolchains.clone(), source))?;
        }
        if let Some(seconds) = flags.idle_stop {
            self.idle_stop_secs = Sourced::new(limit(seconds), Source::Flag("--idle-stop"));
        }
        if let Some(seconds) = flags.max_secs {
            self.max_secs = Sourced::new(limit(seconds), Source::Flag("--max-secs"));
        }
        self.verbose.set(flag(flags.verbose, "--verbose"));
        self.listen.set(flag(flags.listen.clone(), "--listen"));
        self.confine.set(flag(flags.confine, "--confine"));
        self.apply_variables(&flags.env)?;
        self.apply_container_flags(&flags.containers)?;
        self.allow_by_flag(&flags.yes_to);
        self.agent.node.set(flag(flags.smart_node, "--smart-node"));
        self.agent.python.set(flag(flags.smart_python, "--smart-python"));
        Ok(())
    }

    fn apply_variables(&mut self, words: &[String]) -> Result<(), ConfigError> {
        let (mut passed, mut set) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => _ = set.insert(name.to_owned(), value.to_owned()),
                None => passed.push(word.clone()),
            }
        }
        self.allow_variables(Sourced::new(passed, Source::Flag("--env")))?;
        self.set_variables(Sourced::new(set, Source::Flag("--env")))
    }
}

fn flag<T>(value: Option<T>, name: &'static str) -> Option<Sourced<T>> {
    value.map(|value| Sourced::new(value, Source::Flag(name)))
}
