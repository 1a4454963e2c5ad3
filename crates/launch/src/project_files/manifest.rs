//! Parts of a manifest that name commands.

use aifo_policy::ManifestParts;
use serde_json::Value;

/// Returns these parts with their names. `None` if the text is neither JSON nor TOML.
pub(super) fn command_parts(text: &[u8], parts: ManifestParts) -> Option<Vec<(String, Value)>> {
    let manifest: Value = match serde_json::from_slice(text) {
        Ok(manifest) => manifest,
        Err(_) => toml::from_slice(text).ok()?,
    };
    let manifest = manifest.as_object()?;
    let named = |key: &str, value: &Value| (key.to_owned(), value.clone());
    Some(match parts {
        ManifestParts::Only(keys) => {
            let find = |key: &&str| {
                let mut steps = key.split('.');
                let first = manifest.get(steps.next()?)?;
                Some(named(key, steps.try_fold(first, |value, step| value.get(step))?))
            };
            keys.iter().filter_map(find).collect()
        }
        ManifestParts::AllBut(data) => {
            let of_key = |(key, value): (&String, &Value)| {
                let prefix = format!("{key}.");
                match value.as_object().filter(|_| data.iter().any(|it| it.starts_with(&prefix))) {
                    None => vec![named(key, value)],
                    Some(table) => {
                        let inner = table.iter();
                        inner
                            .map(|(name, value)| named(&format!("{prefix}{name}"), value))
                            .collect()
                    }
                }
            };
            let all = manifest.iter().flat_map(of_key);
            all.filter(|(key, _)| !data.contains(&key.as_str())).collect()
        }
    })
}
