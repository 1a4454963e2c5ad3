//! Phantom keys in an agent's copy of its login (`spec/keys.md#logins`).

use std::path::PathBuf;
use std::{fs, io};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The phantom keys that the copy has in place of the user's keys.
#[derive(Debug)]
pub(super) struct Phantoms {
    /// Pointers, and the phantom keys of this session. Empty if the agent gets the keys.
    keys: Vec<(String, String)>,
    /// Pointers that may have a phantom key of another session.
    pointers: Vec<String>,
    /// Has the hashes of the phantom keys that were written into the copy, the newest last.
    file: PathBuf,
}

/// Hashes that are kept. The copy has one of the newest.
const MAX_HASHES: usize = 64;

impl Phantoms {
    pub(super) fn new(pointers: Vec<String>, keys: Vec<(String, String)>, file: PathBuf) -> Self {
        Phantoms { keys, pointers, file }
    }

    /// Replaces phantom keys in a login of the copy by the user's keys. Returns false if the user's login has none
    /// there: then the copy is of a login that has gone.
    pub(super) fn reveal(&self, own: &mut Value, users: Option<&Value>) -> bool {
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        self.pointers.iter().all(|pointer| {
            let Some(place) = own.pointer_mut(pointer).filter(|value| value.is_string()) else {
                return true;
            };
            let hash = hash(place);
            if !known.lines().any(|line| line == hash) {
                return true;
            }
            match users.and_then(|users| users.pointer(pointer)).filter(|key| key.is_string()) {
                Some(key) => {
                    *place = key.clone();
                    true
                }
                None => false,
            }
        })
    }

    /// Replaces the user's keys in a login by this session's phantom keys. They are recorded first, so that they
    /// are never taken for keys.
    pub(super) fn hide(&self, login: &Value) -> io::Result<Value> {
        let mut hidden = login.clone();
        let mut hashes = Vec::new();
        for (pointer, phantom) in &self.keys {
            if let Some(place) = hidden.pointer_mut(pointer).filter(|value| value.is_string()) {
                *place = Value::from(phantom.as_str());
                hashes.push(hash(place));
            }
        }
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        let mut lines: Vec<_> = known.lines().map(str::to_owned).collect();
        hashes.retain(|hash| !lines.contains(hash));
        if !hashes.is_empty() {
            lines.extend(hashes);
            let dropped = lines.len().saturating_sub(MAX_HASHES);
            lines.drain(..dropped);
            fs::write(&self.file, lines.join("\n") + "\n")?;
        }
        Ok(hidden)
    }
}

/// Returns the SHA-256 of a login or a part of it, in hexadecimal.
pub(super) fn hash(login: &Value) -> String {
    let digest = Sha256::digest(login.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
