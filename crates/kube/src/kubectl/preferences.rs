//! The user's preferences of kubectl, the file `kuberc`: since 1.33 it changes the defaults of options, so a
//! `delete` could ask and delete nothing, and an `exec` could need a terminal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use aifo_engine::Program;
use serde_json::{Map, Value};

use super::version::ClientVersion;
use super::{KubectlError, plain_command};

/// The variable with the path of the file. Older versions ignore it.
const VARIABLE: &str = "KUBERC";
/// Its value without a file.
const OFF: &str = "off";
/// The start of the keys that restrict credential plugins.
const PLUGIN_KEYS: &str = "credentialPlugin";
/// The first minor version of kubectl 1 with such keys.
const PLUGIN_MINOR: u32 = 35;

/// The preferences of the commands of this program.
#[derive(Clone, Debug, Default)]
pub(super) struct Preferences(Option<Arc<File>>);

impl Preferences {
    /// Returns the user's restrictions of credential plugins; all else has no effect.
    pub(super) async fn of_user(
        program: &Program,
        version: &ClientVersion,
    ) -> Result<Self, KubectlError> {
        let own = Preferences::default();
        let Some(file) = file().filter(|_| version.is_at_least(PLUGIN_MINOR)) else {
            return Ok(own);
        };
        match std::fs::read(&file) {
            Ok(text) if has_plugin_keys(&text) => {}
            // Without the file kubectl has no preferences.
            _ => return Ok(own),
        }
        let unreadable = |output: &[u8]| KubectlError::Preferences {
            file: file.clone(),
            output: String::from_utf8_lossy(output).trim().chars().take(200).collect(),
        };
        let mut command = plain_command(program);
        command.args(["kuberc", "view", "--output=json"]).env(VARIABLE, &file);
        command.stdin(Stdio::null());
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let all: Map<String, Value> =
            serde_json::from_slice(&output.stdout).map_err(|_| unreadable(&output.stderr))?;
        let mut file = tempfile::tempfile()?;
        file.write_all(Value::Object(restrictions(all)).to_string().as_bytes())?;
        Ok(Preferences(Some(Arc::new(file))))
    }

    /// Sets the variable of a command, which must start before `self` is dropped.
    pub(super) fn apply(&self, command: &mut std::process::Command) {
        let value = match &self.0 {
            // The file is unlinked, and can be opened only through this process's descriptor.
            Some(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()),
            None => OFF.to_owned(),
        };
        command.env(VARIABLE, value);
    }
}

/// Returns the path of the user's file, which may not exist.
fn file() -> Option<PathBuf> {
    path(std::env::var_os(VARIABLE), std::env::var_os("HOME"))
}

fn path(variable: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    match variable.filter(|path| !path.is_empty()) {
        Some(path) if path == OsStr::new(OFF) => None,
        Some(path) => Some(path.into()),
        None => home.map(|home| Path::new(&home).join(".kube/kuberc")),
    }
}

fn has_plugin_keys(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(PLUGIN_KEYS)
}

/// Returns preferences with the version and the restrictions only.
fn restrictions(mut all: Map<String, Value>) -> Map<String, Value> {
    let is_kept = |key: &str| key == "apiVersion" || key == "kind" || key.starts_with(PLUGIN_KEYS);
    all.retain(|key, _| is_kept(key));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_restrictions_of_plugins_are_kept() {
        let text = r#"{"kind":"Preference","apiVersion":"kubectl.config.k8s.io/v1beta1",
            "defaults":[{"command":"delete","options":[{"name":"interactive","default":"true"}]}],
            "aliases":[],"credentialPluginPolicy":"Allowlist","credentialPluginAllowlist":[{"command":"x"}]}"#;
        assert!(has_plugin_keys(text.as_bytes()) && !has_plugin_keys(b"defaults: []"));
        let kept = Value::Object(restrictions(serde_json::from_str(text).unwrap()));
        let expected = serde_json::json!({
            "kind": "Preference", "apiVersion": "kubectl.config.k8s.io/v1beta1",
            "credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "x"}],
        });
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_file_is_that_of_the_variable_or_the_home() {
        let path = |variable: Option<&str>| {
            path(variable.map(OsString::from), Some("/home/u".into())).map(PathBuf::into_os_string)
        };
        assert_eq!(path(None).unwrap(), "/home/u/.kube/kuberc");
        assert_eq!(path(Some("")).unwrap(), "/home/u/.kube/kuberc");
        assert_eq!(path(Some("/k")).unwrap(), "/k");
        assert_eq!(path(Some("off")), None);
    }
}
