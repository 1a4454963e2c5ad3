//! The files and variables by which tools in containers get the user's registries
//! (`spec/containers.md#registries-of-the-user`).

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use aifo_engine::{Mount, Value};
use aifo_host::{DirectoryError, create_private_directory};
use aifo_sidecar::Admitted;

use crate::backend::Containers;

/// Their directory in a session directory.
const SETTINGS: &str = "settings";

impl Containers {
    /// Writes the files of the passed settings to the session directory.
    pub(crate) fn write_settings(&self, session_dir: &Path) -> Result<(), DirectoryError> {
        let directory = session_dir.join(SETTINGS);
        create_private_directory(&directory)?;
        let texts = self.settings.iter().flat_map(|settings| &settings.files);
        for (number, (_, text)) in texts.enumerate() {
            let file = directory.join(number.to_string());
            fs::write(&file, text).map_err(|source| DirectoryError::new(&file, source))?;
        }
        Ok(())
    }

    /// Returns the mounts of these files, and the variables.
    pub(crate) fn passed(&self, session_dir: &Path) -> Vec<Admitted> {
        let mut found = Vec::new();
        let mut number = 0;
        for settings in &self.settings {
            let plain = |(name, value): &(String, String)| {
                (OsString::from(name), Value::Plain(value.into()))
            };
            let kind = Some(settings.kind.clone());
            let variables = settings.variables.iter().map(plain).collect();
            found.push(Admitted { kind: kind.clone(), variables, mount: None });
            for (to, _) in &settings.files {
                let from = session_dir.join(SETTINGS).join(number.to_string());
                let mount = Some(Mount::bind(&from, to, true));
                found.push(Admitted { kind: kind.clone(), variables: Vec::new(), mount });
                number += 1;
            }
        }
        found
    }
}
