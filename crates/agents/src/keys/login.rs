//! Keys in agents' logins (`spec/keys.md#logins`).

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use aifo_host::{Beneath, Found};
use aifo_provider::{FreshKey, Key, KeySource};
use serde_json::Value;

use crate::agents::{LoginKey, StateFile};

/// A key in the user's login of an agent.
#[derive(Clone, Debug)]
pub(crate) struct KeyOfLogin {
    home: PathBuf,
    file: StateFile,
    place: LoginKey,
}

impl KeyOfLogin {
    /// Returns `None` if the login has no such key, or is one by OAuth.
    pub(crate) fn find(home: &Path, file: &StateFile, place: &LoginKey) -> Option<Self> {
        let found = KeyOfLogin { home: home.to_owned(), file: file.clone(), place: place.clone() };
        found.parse().is_ok().then_some(found)
    }

    /// Reads the key. The errors have no part of it.
    fn parse(&self) -> Result<Key, String> {
        let failed = |why: &str| format!("'~/{}' {why}", self.file.from.display());
        let home = Beneath::open(&self.home).map_err(|error| failed(&error.to_string()))?;
        let bytes = match home.read(&self.file.from, MAX_BYTES) {
            Found::File(bytes, _) => zeroize::Zeroizing::new(bytes),
            Found::Missing => return Err(failed("is missing")),
            Found::Rejected(why) => return Err(failed(why)),
        };
        let login = self.file.format.parse(&bytes).ok_or_else(|| failed("is damaged"))?;
        let is_oauth = self.place.oauth.as_ref().and_then(|pointer| login.pointer(pointer));
        if is_oauth.is_some_and(|login| !login.is_null()) {
            return Err(failed("is a login by OAuth"));
        }
        let text = login.pointer(&self.place.pointer).and_then(Value::as_str);
        let key = Key::parse(text.ok_or_else(|| failed("has no key"))?);
        key.map_err(|error| failed(&format!("has no key: {error}")))
    }
}

impl KeySource for KeyOfLogin {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        Box::pin(async move { Ok(FreshKey { key: self.parse()?, lifetime: None }) })
    }
}

/// Logins have a few kilobytes.
const MAX_BYTES: u64 = 64 << 10;
