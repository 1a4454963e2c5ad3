//! How agents are given a base URL and a key (`spec/keys.md#agents`).

use serde::Deserialize;
use serde_json::Value;

/// A provider that an agent reaches at a base URL.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRow {
    /// The provider name, or `compatible`: only at a URL of the user's.
    pub provider: String,
    /// The variable from which the agent reads the key.
    pub key: String,
    /// Where the agent reads the base URL.
    pub base: BaseUrl,
    /// The end of the agent's base URL.
    #[serde(default)]
    pub path: String,
    /// The user's variable with another base URL. In an agent file, the default is a variable of `base`.
    pub user_base: Option<String>,
    /// Where the agent's login has the key, if it can have one.
    pub login: Option<LoginKey>,
    /// A file of settings of the image, without which the agent does not use the key at a base URL.
    pub settings: Option<SettingsFile>,
}

/// A file of settings in an agent image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsFile {
    /// The variable by which the agent finds it.
    pub variable: String,
    /// Its path.
    pub path: String,
    /// A variable of the user's that selects another login; then the agent does not get the file.
    pub unless: String,
}

/// A key in an agent's login, by JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginKey {
    /// The key.
    pub pointer: String,
    /// A login by OAuth, which the agent uses instead of the key.
    pub oauth: Option<String>,
}

/// Where an agent reads a base URL.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum BaseUrl {
    /// A variable.
    Variable(String),
    /// Arguments, in which `{}` is the URL.
    Arguments(Vec<String>),
    /// A variable with settings in JSON.
    Json {
        /// Its name.
        variable: String,
        /// The pointer of the URL in the settings.
        pointer: String,
    },
}

impl BaseUrl {
    /// Adds the setting for this URL to an agent's arguments and variables.
    pub(crate) fn apply(
        &self,
        url: &str,
        arguments: &mut Vec<String>,
        variables: &mut Vec<(String, String)>,
    ) {
        match self {
            BaseUrl::Variable(name) => variables.push((name.clone(), url.to_owned())),
            BaseUrl::Arguments(words) => {
                arguments.extend(words.iter().map(|word| word.replace("{}", url)));
            }
            BaseUrl::Json { variable: name, pointer } => {
                let known = variables.iter().position(|(known, _)| known == name);
                let text = known.map(|at| variables.remove(at).1);
                let mut settings = text
                    .and_then(|text| serde_json::from_str(&text).ok())
                    .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
                set(&mut settings, pointer, url);
                variables.push((name.clone(), settings.to_string()));
            }
        }
    }
}

/// Sets the text at a pointer, with the objects above it.
fn set(settings: &mut Value, pointer: &str, text: &str) {
    let mut at = settings;
    for key in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[key];
    }
    *at = Value::from(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::known_agents;

    #[test]
    fn settings_of_several_providers_are_one_document() {
        let (mut arguments, mut variables) = (Vec::new(), Vec::new());
        let opencode = known_agents().iter().find(|agent| agent.name == "opencode").unwrap();
        for row in &opencode.keys[..2] {
            row.base.apply("http://x", &mut arguments, &mut variables);
        }
        let [(name, text)] = &variables[..] else { panic!("{variables:?}") };
        let settings: Value = serde_json::from_str(text).unwrap();
        assert_eq!((name.as_str(), arguments.len()), ("OPENCODE_CONFIG_CONTENT", 0));
        assert_eq!(settings["provider"]["anthropic"]["options"]["baseURL"], "http://x");
        assert_eq!(settings["provider"]["deepseek"]["options"]["baseURL"], "http://x");
    }
}
