//! `containers.admit`: credentials and settings of the user that containers get.

use std::path::Path;

use aifo_host::extended_system_bundle;
use aifo_launch::{Admission, AdmissionSources};
use aifo_sidecar::Admitted;
use aifo_types::Kind;
use aifo_types::env;
use serde_json::json;

use crate::error::{ConfigError, suggestion};
use crate::item::Item;
use crate::key::{ConfigEntry, VariableLookup, variable};
use crate::source::{Source, Sourced};

/// The admitted items, each with its source.
pub(crate) type Admissions = Vec<Sourced<Admission>>;

/// Replaces the list by a file's.
pub(crate) fn set(admitted: &mut Admissions, item: &Item<'_>) -> Result<(), ConfigError> {
    admitted.clear();
    for word in item.list()? {
        let admission = admission(&word, item)?;
        if admitted.iter().all(|sourced| sourced.value != admission) {
            admitted.push(Sourced::new(admission, item.source.clone()));
        }
    }
    Ok(())
}

/// Applies `AIFO_TOOLCHAIN_SSH_FORWARD`, which overrides the file for the SSH agent.
pub(crate) fn read_ssh_forward(
    admitted: &mut Admissions,
    lookup: VariableLookup<'_>,
) -> Result<(), ConfigError> {
    let Some(Sourced { value, source }) = variable(lookup, env::SSH_FORWARD)? else {
        return Ok(());
    };
    let is_agent = |sourced: &Sourced<Admission>| sourced.value == Admission::SshAgent;
    match env::is_truthy(&value) {
        true if admitted.iter().any(is_agent) => {}
        true => admitted.push(Sourced::new(Admission::SshAgent, source)),
        false => admitted.retain(|sourced| !is_agent(sourced)),
    }
    Ok(())
}

/// Resolves the admitted items for sidecars of these kinds; warns of those that do not exist. Errors: an item
/// is not safe to share.
pub(crate) fn resolve(
    admitted: &Admissions,
    kinds: &[Kind],
    ca_bundle: Option<&Path>,
) -> Result<Vec<Admitted>, ConfigError> {
    let variable = |name: &str| std::env::var_os(name);
    let system_bundle = extended_system_bundle();
    let system_bundle = system_bundle.as_deref();
    let places = AdmissionSources { variable: &variable, ca_bundle, system_bundle };
    let mut found = Vec::new();
    for Sourced { value, source } in admitted {
        if value.kind().is_some_and(|kind| !kinds.contains(&kind)) {
            continue;
        }
        match value.admitted(&places) {
            Ok(admitted) => found.push(admitted),
            Err(error) if error.is_missing() => tracing::warn!("{source}: {error}"),
            Err(error) => {
                let hint = format!("remove \"{value}\" from admit, or change the file");
                return Err(ConfigError::new(source, error.to_string()).hint(hint));
            }
        }
    }
    Ok(found)
}

pub(crate) fn show(admitted: &Admissions) -> Vec<ConfigEntry> {
    let key = "containers.admit";
    if admitted.is_empty() {
        return vec![ConfigEntry::new(key, json!([]), &Source::BuiltIn)];
    }
    let entry = |sourced: &Sourced<Admission>| {
        ConfigEntry::new(key, json!([sourced.value.as_str()]), &sourced.source)
    };
    admitted.iter().map(entry).collect()
}

fn admission(word: &str, item: &Item<'_>) -> Result<Admission, ConfigError> {
    Admission::parse(word).ok_or_else(|| {
        let known = Admission::ALL.map(Admission::as_str);
        let error = item.invalid(word, &known);
        match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error,
        }
    })
}
