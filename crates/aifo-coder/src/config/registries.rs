//! `containers.admit`: credentials and settings of the user that containers get.

use std::path::PathBuf;

use aifo_launch::{Admission, Admitted, Places};
use aifo_types::env;

use crate::config::environment::{VariableLookup, switch};
use crate::config::error::{ConfigError, suggestion};
use crate::config::file::File;
use crate::config::source::{Source, Sourced};

/// Access to private registries.
#[derive(Clone, Debug)]
pub(crate) struct Registries {
    /// The admitted items, each with its source.
    pub(crate) admit: Vec<Sourced<Admission>>,
    /// `None`: `SSL_CERT_FILE`.
    pub(crate) ca_bundle: Sourced<Option<PathBuf>>,
}

impl Registries {
    pub(crate) fn builtin() -> Self {
        Registries { admit: Vec::new(), ca_bundle: Sourced::builtin(None) }
    }

    pub(crate) fn apply_file(&mut self, file: &File) -> Result<(), ConfigError> {
        let containers = &file.entries.containers;
        if let Some(Sourced { value: words, source }) = file.sourced(&containers.admit) {
            let admissions = words.iter().map(|word| admission(word, &source));
            self.admit.clear();
            for admission in admissions.collect::<Result<Vec<_>, _>>()? {
                if self.admit.iter().all(|sourced| sourced.value != admission) {
                    self.admit.push(Sourced::new(admission, source.clone()));
                }
            }
        }
        if let Some(sourced) = file.sourced(&containers.ca_bundle) {
            if !sourced.value.is_absolute() {
                let what =
                    format!("ca_bundle '{}' is not an absolute path", sourced.value.display());
                return Err(ConfigError::new(&sourced.source, what));
            }
            self.ca_bundle.set(Some(sourced));
        }
        Ok(())
    }

    /// Applies `AIFO_TOOLCHAIN_SSH_FORWARD`, which overrides the file for the SSH agent.
    pub(crate) fn apply_environment(
        &mut self,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError> {
        let Some(Sourced { value: forwards, source }) = switch(lookup, env::SSH_FORWARD)? else {
            return Ok(());
        };
        let is_agent = |sourced: &Sourced<Admission>| sourced.value == Admission::SshAgent;
        match forwards {
            true if self.admit.iter().any(is_agent) => {}
            true => self.admit.push(Sourced::new(Admission::SshAgent, source)),
            false => self.admit.retain(|sourced| !is_agent(sourced)),
        }
        Ok(())
    }

    /// Resolves the admitted items. Errors: an item does not exist or is not safe to share.
    pub(crate) fn admitted(&self) -> Result<Vec<Admitted>, ConfigError> {
        let variable = |name: &str| std::env::var_os(name);
        let places = Places { variable: &variable, ca_bundle: self.ca_bundle.value.as_deref() };
        let admit = |sourced: &Sourced<Admission>| {
            sourced.value.admitted(&places).map_err(|error| {
                let hint = match &sourced.source {
                    Source::Environment(name) => format!("unset {name}, or make it available"),
                    _ => format!("remove \"{}\" from admit, or make it available", sourced.value),
                };
                ConfigError::new(&sourced.source, error.to_string()).hint(hint)
            })
        };
        self.admit.iter().map(admit).collect()
    }
}

fn admission(word: &str, source: &Source) -> Result<Admission, ConfigError> {
    Admission::parse(word).ok_or_else(|| {
        let known = Admission::ALL.map(Admission::as_str);
        let error = ConfigError::invalid_value(source, word, "containers.admit", &known);
        match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::path::Path;

    fn registries(file: &str, forward: &str) -> Result<Vec<(String, String)>, String> {
        let file = File::parse(Path::new("/u.toml"), file).map_err(|error| error.to_string())?;
        let mut registries = Registries::builtin();
        registries.apply_file(&file).map_err(|error| error.to_string())?;
        let lookup = |name: &str| (name == env::SSH_FORWARD).then(|| OsString::from(forward));
        registries.apply_environment(&lookup).map_err(|error| error.to_string())?;
        let shown = |it: &Sourced<Admission>| (it.value.to_string(), it.source.to_string());
        Ok(registries.admit.iter().map(shown).collect())
    }

    #[test]
    fn only_listed_items_are_admitted() {
        let row = |name: &str, from: &str| (name.to_owned(), from.to_owned());
        assert_eq!(registries("", ""), Ok(Vec::new()));
        let named = "[containers]\nadmit = ['npmrc', 'ssh-agent', 'npmrc']";
        let from = "/u.toml:2";
        assert_eq!(registries(named, ""), Ok(vec![row("npmrc", from), row("ssh-agent", from)]));
        assert_eq!(registries(named, "0"), Ok(vec![row("npmrc", from)]));
        assert_eq!(registries("", "on"), Ok(vec![row("ssh-agent", env::SSH_FORWARD)]));
    }

    #[test]
    fn errors_have_a_line_and_a_hint() {
        let error = |text: &str| registries(&format!("[containers]\n{text}"), "").unwrap_err();
        let near = error("admit = ['npmrcs']");
        assert!(
            near.starts_with("/u.toml:2: invalid value 'npmrcs' for containers.admit"),
            "{near}"
        );
        assert!(near.ends_with("hint: did you mean 'npmrc'?"), "{near}");
        let far = error("admit = ['everything']");
        assert!(far.ends_with("expected npmrc, pip, cargo, ca-bundle or ssh-agent"), "{far}");
        assert!(error("ca_bundle = 'ca.pem'").contains("is not an absolute path"));
    }
}
