//! The forges that an agent's git reaches without having their credentials (`spec/forges.md`).

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_egress::{Connector, ParentProxy};
use aifo_forge::{RemoteUrl, RepositoryPath, git_settings, remotes_of_config};
use aifo_host::{TrustedPrograms, repository_below};
use aifo_provider::{
    FORGES, Forge, ForgeApi, ForgeForm, ForgeGate, ForgeProxy, KeySource, KnownForge, UpstreamUrl,
};
use aifo_types::container_path;
use aifo_workspace::Tree;
use tokio::net::{TcpListener, UnixListener};

use crate::forge_credentials;
use crate::keys::{KEY_PORT, KeysError, Reader, SecretSource};

/// The user's settings for forges, by name.
pub type ForgeSettings = BTreeMap<String, ForgeEntry>;

/// The user's settings for a forge.
#[derive(Clone, Debug)]
pub struct ForgeEntry {
    /// Where the credential is, instead of the variables of a known forge.
    pub source: Option<SecretSource>,
    /// The URL, if it is no known forge.
    pub url: Option<UpstreamUrl>,
    /// The form.
    pub form: ForgeForm,
    /// Repositories beside the project's remotes.
    pub repositories: Vec<RepositoryPath>,
}

/// The forges of a session. Clones share phantom credentials.
#[derive(Clone, Debug)]
pub struct AgentForges {
    /// Each with the project's remotes there, and further repositories.
    forges: Vec<(Arc<Forge>, Vec<RemoteUrl>)>,
    /// Each with where its credential comes from.
    names: Vec<String>,
    /// That of gh, which has one host.
    of_gh: Option<Arc<Forge>>,
    parent: Option<ParentProxy>,
    certificates: Vec<PathBuf>,
}

/// The port of the first forge on the agent localhost; others have the next ones.
const FORGE_PORT: u16 = KEY_PORT + 1;

/// The socket and the settings of gh, in the directory of sockets.
const GH_SOCKET: &str = "gh.sock";
const GH_CONFIG: &str = "gh";

/// Forges of a session.
const MAX_FORGES: usize = 4;

/// The longest configuration of a repository that is read.
const MAX_CONFIG: u64 = 1 << 20;

impl AgentForges {
    /// Collects the forges that the project has a remote at and the user a credential for. `None` if there are none.
    ///
    /// Forges for which `is_denied` are left out. `variable` reads the launcher environment; `certificates` are PEM files that are trusted beside this machine's
    /// own.
    pub async fn collect(
        settings: &ForgeSettings,
        workspace: &Path,
        programs: &TrustedPrograms,
        certificates: &[PathBuf],
        is_denied: impl Fn(&UpstreamUrl) -> bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<AgentForges>, KeysError> {
        let own = LazyCell::new(|| remotes(workspace));
        let (mut forges, mut names, mut of_gh) = (Vec::new(), Vec::new(), None);
        for (name, entry) in rows(settings) {
            let known = FORGES.iter().find(|known| known.name == name);
            let of_variable = known.and_then(|known| set_variable(known, &variable));
            let source = entry.source.clone().or(of_variable);
            let url = entry.url.clone().or_else(|| known.and_then(url_of));
            let Some(url) = url.filter(|url| !is_denied(url)) else { continue };
            let host = url.host_name();
            let mut of_forge: Vec<_> =
                own.iter().filter(|remote| remote.host == host).cloned().collect();
            of_forge.extend(entry.repositories.iter().map(|path| RemoteUrl::at(&host, path)));
            if of_forge.is_empty() {
                continue;
            }
            if forges.len() >= MAX_FORGES {
                tracing::warn!(
                    "git does not get through to '{name}': a session has {MAX_FORGES} forges"
                );
                continue;
            }
            let (reader, of): (Box<dyn KeySource>, String) = match source {
                Some(source) => {
                    let of = source.name();
                    (Box::new(Reader { source, programs: programs.clone() }), of)
                }
                None => match forge_credentials::find(&url, entry.form, programs).await {
                    Some(found) => found,
                    None => continue,
                },
            };
            let repositories = of_forge.iter().map(|remote| remote.repository.clone()).collect();
            let forge = Forge::new(&name, url, entry.form, reader, repositories)?;
            names.push(format!("{name} ({of})"));
            let forge = Arc::new(forge);
            if forge.api().is_some_and(|(_, url)| !is_denied(url)) {
                of_gh.get_or_insert_with(|| Arc::clone(&forge));
            }
            forges.push((forge, of_forge));
        }
        if forges.is_empty() {
            return Ok(None);
        }
        let (parent, certificates) =
            (ParentProxy::from_environment(&variable)?, certificates.to_vec());
        Ok(Some(AgentForges { forges, names, of_gh, parent, certificates }))
    }

    /// Returns the names of the forges, each with where its credential comes from.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether gh reaches one.
    pub fn has_api(&self) -> bool {
        self.of_gh.is_some()
    }

    /// Returns the ports on the agent localhost, in the order of the forges.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        (FORGE_PORT..).take(self.forges.len())
    }

    /// Returns the agent variables, by which git reaches the forges.
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.git_variables(Forge::authorization);
        if let Some((phantom, _)) = self.of_gh.as_ref().and_then(|forge| forge.api()) {
            let own = [
                ("GH_HOST", "127.0.0.1".to_owned()),
                ("GH_CONFIG_DIR", format!("{}/{GH_CONFIG}", container_path::SOCKET_DIR)),
                // gh takes the first one at github.com, and the other at other hosts.
                ("GH_TOKEN", phantom.as_str().to_owned()),
                ("GH_ENTERPRISE_TOKEN", phantom.as_str().to_owned()),
            ];
            variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        }
        variables
    }

    /// Returns the variables of tools, whose git and cargo only fetch.
    pub fn variables_of_tools(&self) -> Vec<(String, String)> {
        let mut variables = self.git_variables(Forge::authorization_of_tools);
        // Its own library of git reads no variables.
        variables.push(("CARGO_NET_GIT_FETCH_WITH_CLI".to_owned(), "true".to_owned()));
        variables
    }

    fn git_variables(&self, authorization: impl Fn(&Forge) -> String) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        for (port, (forge, remotes)) in self.ports().zip(&self.forges) {
            let base = format!("http://127.0.0.1:{port}");
            let is_of_gh = self.of_gh.as_ref().is_some_and(|of_gh| Arc::ptr_eq(of_gh, forge));
            let named = remotes.iter().filter(|_| is_of_gh);
            // URLs of `gh repo clone`.
            let of_gh = named.map(|remote| RemoteUrl::at("127.0.0.1", &remote.repository));
            let remotes: Vec<_> = remotes.iter().cloned().chain(of_gh).collect();
            let keeps_paths = forge.keeps_paths();
            settings.extend(git_settings(&base, &authorization(forge), &remotes, keeps_paths));
        }
        let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
        for (number, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{number}"), key));
            variables.push((format!("GIT_CONFIG_VALUE_{number}"), value));
        }
        variables
    }

    /// Binds a socket for gh, and writes its settings. `directory` is that of sockets in agent containers. `None` if
    /// gh reaches no forge.
    pub(crate) fn listen_api(&self, directory: &Path) -> io::Result<Option<UnixListener>> {
        if self.of_gh.is_none() {
            return Ok(None);
        }
        let settings = directory.join(GH_CONFIG);
        fs::create_dir_all(&settings)?;
        let socket = format!("{}/{GH_SOCKET}", container_path::SOCKET_DIR);
        let text = format!("version: \"1\"\ngit_protocol: https\nhttp_unix_socket: {socket}\n");
        fs::write(settings.join("config.yml"), text)?;
        UnixListener::bind(directory.join(GH_SOCKET)).map(Some)
    }

    /// Serves the listeners of [`ports`](Self::ports), and that of gh, until the future is dropped.
    pub(crate) async fn serve(
        self,
        listeners: Vec<TcpListener>,
        of_api: Option<UnixListener>,
        gate: Arc<dyn ForgeGate>,
    ) {
        let mut serving = tokio::task::JoinSet::new();
        if let (Some(forge), Some(listener)) = (&self.of_gh, of_api) {
            let connector = Connector::new(self.parent.clone());
            let api =
                ForgeApi::new(Arc::clone(forge), Arc::clone(&gate), connector, &self.certificates);
            serving.spawn(async move { api.serve(listener).await });
        }
        for ((forge, _), listener) in self.forges.iter().zip(listeners) {
            let (forge, gate) = (Arc::clone(forge), Arc::clone(&gate));
            let connector = Connector::new(self.parent.clone());
            let proxy = ForgeProxy::new(forge, gate, connector, &self.certificates);
            serving.spawn(async move { proxy.serve(listener).await });
        }
        serving.join_all().await;
    }
}

/// Which variable has credentials of this forge.
fn set_variable(
    known: &KnownForge,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<SecretSource> {
    let is_set = |name: &&&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    known.variables.iter().find(is_set).map(|name| SecretSource::Variable((*name).to_owned()))
}

/// The user's entries, and known forges without one.
fn rows(settings: &ForgeSettings) -> ForgeSettings {
    let known = FORGES.iter().map(|known| {
        let entry =
            ForgeEntry { source: None, url: None, form: known.form, repositories: Vec::new() };
        (known.name.to_owned(), entry)
    });
    let mut rows: ForgeSettings = known.collect();
    rows.extend(settings.clone());
    rows
}

fn url_of(known: &KnownForge) -> Option<UpstreamUrl> {
    UpstreamUrl::of_row(known.url).ok()
}

/// The remotes of the workspace's repository. The workspace is not trusted: their file is found without links.
fn remotes(workspace: &Path) -> Vec<RemoteUrl> {
    let read = || -> io::Result<Option<Vec<u8>>> {
        let (root, git) = repository_below(workspace);
        Ok(Tree::open(&root)?.read(&Path::new(git).join("config"), MAX_CONFIG))
    };
    let bytes = read().ok().flatten().unwrap_or_default();
    remotes_of_config(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::agent_programs::trusted_programs_here;

    async fn collect(config: &str, environment: &[(&str, &str)]) -> Option<AgentForges> {
        collect_with(config, environment, "/nowhere").await
    }

    async fn collect_with(
        config: &str,
        environment: &[(&str, &str)],
        path_of_programs: &str,
    ) -> Option<AgentForges> {
        let workspace = tempfile::tempdir().unwrap();
        fs::create_dir(workspace.path().join(".git")).unwrap();
        fs::write(workspace.path().join(".git/config"), config).unwrap();
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let programs = trusted_programs_here();
        let settings = ForgeSettings::new();
        let is_denied = |url: &UpstreamUrl| url.host_name() == "gitlab.com";
        let path = workspace.path();
        let programs = programs.with_path(path_of_programs.into());
        let collecting = AgentForges::collect(&settings, path, &programs, &[], is_denied, variable);
        collecting.await.unwrap()
    }

    const ORIGIN: &str = "[remote \"origin\"]\n\turl = git@github.com:o/r.git\n";

    #[tokio::test]
    async fn gh_has_a_credential() {
        let programs = tempfile::tempdir().unwrap();
        let gh = programs.path().join("gh");
        fs::write(
            &gh,
            "#!/bin/sh\n[ \"$*\" = 'auth token --hostname github.com' ] && echo gho_1\n",
        )
        .unwrap();
        fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
        let path = programs.path().to_str().unwrap();
        let forges = collect_with(ORIGIN, &[], path).await.unwrap();
        assert_eq!(forges.names(), ["github (gh)"]);
        fs::write(&gh, "#!/bin/sh\nexit 1\n").unwrap();
        assert!(collect_with(ORIGIN, &[], path).await.is_none());
    }

    #[tokio::test]
    async fn a_forge_needs_a_remote_and_a_credential() {
        let token = [("GH_TOKEN", "ghp_0123456789abcdef")];
        let forges = collect(ORIGIN, &token).await.unwrap();
        assert_eq!(forges.names(), ["github (GH_TOKEN)"]);
        let variables = forges.variables();
        let has = |value: &str| variables.iter().any(|(_, of)| of == value);
        assert!(has("git@github.com:o/r.git") && has("https://github.com/o/r"), "{variables:?}");
        assert!(!format!("{variables:?}{forges:?}").contains("ghp_"));
        assert!(has("https://127.0.0.1/o/r.git") && has("/run/aifo/gh"), "{variables:?}");
        assert!(collect(ORIGIN, &[]).await.is_none());
        assert!(collect(ORIGIN, &[("GITLAB_TOKEN", "x")]).await.is_none());
        let gitlab = "[remote \"o\"]\n\turl = https://gitlab.com/o/r\n";
        assert!(collect(gitlab, &[("GITLAB_TOKEN", "x")]).await.is_none(), "it is denied");
        assert!(collect("[remote \"o\"]\n\turl = /srv/r\n", &token).await.is_none());
    }
}
