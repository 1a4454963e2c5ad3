//! What of the user's own is let into containers: said in the user's file and environment only.

use std::path::PathBuf;

use aifo_launch::{Admission, AdmissionSources, Admitted};
use aifo_types::env;

use crate::config::environment::{Lookup, switch};
use crate::config::error::{ConfigError, suggestion};
use crate::config::file::File;
use crate::config::source::{Source, Sourced};

/// What opens private registries.
#[derive(Clone, Debug)]
pub(crate) struct Registries {
    /// What is let in, each with whoever said so.
    pub(crate) admit: Vec<Sourced<Admission>>,
    /// `None`: what SSL_CERT_FILE says.
    pub(crate) ca_bundle: Sourced<Option<PathBuf>>,
}

impl Registries {
    pub(crate) fn builtin() -> Self {
        Registries { admit: Vec::new(), ca_bundle: Sourced::builtin(None) }
    }

    pub(crate) fn apply_file(&mut self, file: &File) -> Result<(), ConfigError> {
        let told = &file.entries.containers;
        if let Some(Sourced { value: words, source }) = file.told(&told.admit) {
            let admissions = words.iter().map(|word| admission(word, &source));
            self.admit.clear();
            for admission in admissions.collect::<Result<Vec<_>, _>>()? {
                if self.admit.iter().all(|told| told.value != admission) {
                    self.admit.push(Sourced::new(admission, source.clone()));
                }
            }
        }
        if let Some(told) = file.told(&told.ca_bundle) {
            if !told.value.is_absolute() {
                let what = format!("ca_bundle '{}' is not absolute", told.value.display());
                return Err(ConfigError::new(&told.source, what));
            }
            self.ca_bundle.set(Some(told));
        }
        Ok(())
    }

    /// `AIFO_TOOLCHAIN_SSH_FORWARD` has the last word about the agent.
    pub(crate) fn apply_environment(&mut self, lookup: Lookup<'_>) -> Result<(), ConfigError> {
        let Some(Sourced { value: wanted, source }) = switch(lookup, env::SSH_FORWARD)? else {
            return Ok(());
        };
        let is_agent = |told: &Sourced<Admission>| told.value == Admission::SshAgent;
        match wanted {
            true if self.admit.iter().any(is_agent) => {}
            true => self.admit.push(Sourced::new(Admission::SshAgent, source)),
            false => self.admit.retain(|told| !is_agent(told)),
        }
        Ok(())
    }

    /// What containers get to see. Errors: something is not there, or not fit to be seen.
    pub(crate) fn admitted(&self) -> Result<Vec<Admitted>, ConfigError> {
        let variable = |name: &str| std::env::var_os(name);
        let places =
            AdmissionSources { variable: &variable, ca_bundle: self.ca_bundle.value.as_deref() };
        let admit = |told: &Sourced<Admission>| {
            told.value.admitted(&places).map_err(|error| {
                let hint = match &told.source {
                    Source::Environment(name) => format!("unset {name}, or put it there"),
                    _ => format!("take \"{}\" out of admit, or put it there", told.value),
                };
                ConfigError::new(&told.source, error.to_string()).hint(hint)
            })
        };
        self.admit.iter().map(admit).collect()
    }
}

fn admission(word: &str, source: &Source) -> Result<Admission, ConfigError> {
    Admission::parse(word).ok_or_else(|| {
        let known = Admission::ALL.map(Admission::as_str);
        let error = ConfigError::new(source, format!("'{word}' is nothing that can be admitted"));
        match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!("known here are: {}", known.join(", "))),
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
        let told = |it: &Sourced<Admission>| (it.value.to_string(), it.source.to_string());
        Ok(registries.admit.iter().map(told).collect())
    }

    #[test]
    fn nothing_is_admitted_unless_it_is_named() {
        let row = |name: &str, from: &str| (name.to_owned(), from.to_owned());
        assert_eq!(registries("", ""), Ok(Vec::new()));
        let named = "[containers]\nadmit = ['npmrc', 'ssh-agent', 'npmrc']";
        let from = "/u.toml:2";
        assert_eq!(registries(named, ""), Ok(vec![row("npmrc", from), row("ssh-agent", from)]));
        assert_eq!(registries(named, "0"), Ok(vec![row("npmrc", from)]));
        assert_eq!(registries("", "on"), Ok(vec![row("ssh-agent", env::SSH_FORWARD)]));
    }

    #[test]
    fn mistakes_have_a_place_and_a_remedy() {
        let error = |text: &str| registries(&format!("[containers]\n{text}"), "").unwrap_err();
        let near = error("admit = ['npmrcs']");
        assert!(near.starts_with("/u.toml:2: 'npmrcs' is nothing that"), "{near}");
        assert!(near.ends_with("hint: did you mean 'npmrc'?"), "{near}");
        let far = error("admit = ['everything']");
        assert!(far.ends_with("known here are: npmrc, pip, cargo, ca-bundle, ssh-agent"), "{far}");
        assert!(error("ca_bundle = 'ca.pem'").contains("is not absolute"));
    }
}
