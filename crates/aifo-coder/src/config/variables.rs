//! Variables that are forwarded to tools or set, in every layer.

use std::collections::BTreeMap;

use aifo_policy::InvalidVariable;

use crate::config::error::ConfigError;
use crate::config::source::Sourced;
use crate::config::values::{Config, EnvEffect, EnvRule};

impl Config {
    /// Allows variables by name or prefix.
    pub(crate) fn allow_variables(
        &mut self,
        names: Sourced<Vec<String>>,
    ) -> Result<(), ConfigError> {
        let allowed = names.value.iter().try_for_each(|name| self.forwarding.allow(name));
        self.record(EnvEffect::Allow, names, allowed)
    }

    /// Denies variables, which the workspace's file may do too.
    pub(crate) fn deny_variables(
        &mut self,
        names: Sourced<Vec<String>>,
    ) -> Result<(), ConfigError> {
        let denied = names.value.iter().try_for_each(|name| self.forwarding.deny(name));
        self.record(EnvEffect::Deny, names, denied)
    }

    /// Sets variables of every tool.
    pub(crate) fn set_variables(
        &mut self,
        variables: Sourced<BTreeMap<String, String>>,
    ) -> Result<(), ConfigError> {
        let Sourced { value: variables, source } = variables;
        let set = variables.iter().try_for_each(|(name, value)| self.forwarding.set(name, value));
        let names = variables.into_keys().collect();
        self.record(EnvEffect::Set, Sourced::new(names, source), set)
    }

    fn record(
        &mut self,
        effect: EnvEffect,
        names: Sourced<Vec<String>>,
        done: Result<(), InvalidVariable>,
    ) -> Result<(), ConfigError> {
        done.map_err(|invalid| ConfigError::new(&names.source, invalid.to_string()))?;
        if !names.value.is_empty() {
            self.env_rules.push(EnvRule { effect, names });
        }
        Ok(())
    }
}

impl EnvEffect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            EnvEffect::Allow => "allow",
            EnvEffect::Deny => "deny",
            EnvEffect::Set => "set",
        }
    }
}
