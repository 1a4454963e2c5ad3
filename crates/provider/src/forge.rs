//! A forge of the user's, and what decides about pushes to it (`spec/forges.md`).

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use aifo_forge::{Oid, Push, RepositoryPath};

use crate::forges::ForgeForm;
use crate::key::{Alphabet, KeyShape, PhantomKey};
use crate::providers::KeyHeader;
use crate::source::{KeptKey, KeySource};
use crate::url::UpstreamUrl;

/// A forge of the user's, and what an agent may do there.
pub struct Forge {
    pub(crate) name: String,
    pub(crate) url: UpstreamUrl,
    pub(crate) form: ForgeForm,
    pub(crate) api: ForgeApiUrl,
    pub(crate) phantom: PhantomKey,
    /// That of tools, which only fetch.
    pub(crate) of_tools: PhantomKey,
    pub(crate) key: KeptKey,
    pub(crate) repositories: Vec<RepositoryPath>,
}

/// Where an API is.
pub(crate) struct ForgeApiUrl {
    pub(crate) url: UpstreamUrl,
    /// True if its paths have no `/api/v3`.
    pub(crate) is_at_root: bool,
}

/// The shape of a credential that nothing checks.
const PHANTOM: KeyShape =
    KeyShape { prefix: "aifo_", alphabet: Alphabet::Alphanumeric, length: 40 };

const GITHUB: &str = "github.com";
const GITHUB_API: &str = "https://api.github.com";

impl Forge {
    /// Draws phantom credentials. `name` is the user's word for the forge; `repositories`
    /// are those that git may fetch and push.
    pub fn new(
        name: &str,
        url: UpstreamUrl,
        form: ForgeForm,
        source: Box<dyn KeySource>,
        repositories: Vec<RepositoryPath>,
    ) -> io::Result<Forge> {
        let (name, key) = (name.to_owned(), KeptKey::new(source));
        let (phantom, of_tools) =
            (PhantomKey::generate(&PHANTOM)?, PhantomKey::generate(&PHANTOM)?);
        let root = UpstreamUrl::of_row(GITHUB_API).ok().filter(|_| url.host() == GITHUB);
        let api = match root {
            Some(url) => ForgeApiUrl { url, is_at_root: true },
            None => ForgeApiUrl { url: url.clone(), is_at_root: false },
        };
        Ok(Forge { name, url, form, api, phantom, of_tools, key, repositories })
    }

    /// Returns the value of the header `Authorization` by which the proxy knows the agent's requests.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.phantom.as_str())
    }

    /// Returns the value of that header in requests of tools, which fetch, and do not push.
    pub fn authorization_of_tools(&self) -> String {
        format!("Bearer {}", self.of_tools.as_str())
    }

    /// Returns how the forge takes the credential.
    pub(crate) fn header(&self) -> KeyHeader {
        KeyHeader::Basic(self.form.user())
    }

    /// Returns whether a path of the agent's is that of the forge.
    pub fn keeps_paths(&self) -> bool {
        self.form == ForgeForm::Git
    }

    /// Returns its path there.
    pub(crate) fn path_of(&self, repository: &RepositoryPath) -> String {
        format!("/{}.git", repository.as_str())
    }

    /// Returns the phantom credential, and the URL of the API, if gh can work with it.
    pub fn api(&self) -> Option<(&PhantomKey, &UpstreamUrl)> {
        (self.form == ForgeForm::GitHub).then_some((&self.phantom, &self.api.url))
    }
}

impl fmt::Debug for Forge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forge")
            .field("name", &self.name)
            .field("url", &self.url)
            .field("repositories", &self.repositories)
            .finish_non_exhaustive()
    }
}

/// Where a push goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PushedTo {
    /// Host, with a port if it has another one than HTTPS.
    pub host: String,
    /// The repository there.
    pub repository: RepositoryPath,
    /// True if everybody can read it; also if that is not known.
    pub is_public: bool,
}

/// The decision about a push.
pub type GateFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A change at a forge that is no push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeChange {
    /// Its effect, as of "it ..".
    pub effect: String,
    /// All of it, as text of the agent's.
    pub content: String,
    /// False if one answer covers the changes of a session that have this effect.
    pub is_each: bool,
}

/// Decides about pushes, and other changes.
pub trait ForgeGate: Send + Sync + 'static {
    /// Returns once the push may go on, or with the reason, in one line, why it may not. The pack is not read meanwhile.
    /// `known` are the ids of the forge's refs, as it told them last.
    fn judge_push(&self, to: PushedTo, push: Push, known: Arc<HashSet<Oid>>) -> GateFuture;

    /// Returns once the change may be made, or with the reason, in one line, why it may not.
    fn judge_change(&self, to: PushedTo, change: ForgeChange) -> GateFuture;
}
