//! The cluster of a configuration, and the pods of sessions in it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use aifo_config::{Config, Flags, UsageError};
use aifo_engine::{MissingProgram, Programs};
use aifo_host::{TrustedPrograms, default_workspace, short, the_one};
use aifo_launch::BackendChoice;
use aifo_sync::Git;
use aifo_terminal::console;
use aifo_types::quote_word;
use anyhow::{Context, bail};
use serde::Deserialize;

use super::records;
use crate::{
    ApiFailure, FailureCause, KubeTarget, Kubectl, KubectlError, PodObject, SESSION_LABEL,
};

/// The launcher container.
pub(crate) const CONTAINER: &str = "aifo";
/// The launcher in its image.
pub(crate) const PROGRAM: &str = "/usr/local/bin/aifo-coder";

/// The time to resolve the name of the API server.
const RESOLVE_TIME: Duration = Duration::from_secs(2);
/// Any port: only the address is used.
const HTTPS: u16 = 443;

/// A cluster and namespace with sessions.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) kubectl: Kubectl,
    pub(crate) git: UsersGit,
}

/// The user's git; without a trusted one, the reason.
type UsersGit = Result<Git, String>;

fn users_git(programs: &TrustedPrograms) -> UsersGit {
    let found = programs.find("git").map(|program| Git::new(program.file, program.path));
    found.map_err(|missing| match missing {
        MissingProgram::Absent => "git is not installed".to_owned(),
        untrusted => untrusted.to_string(),
    })
}

/// Returns the cluster and namespace of a configuration.
pub fn target(config: &Config) -> KubeTarget {
    KubeTarget {
        context: config.kube_context.value.clone(),
        namespace: config.kube_namespace.value.clone(),
        kubeconfig: config.kubeconfig.value.clone(),
    }
}

/// The output of `kubectl get`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodList {
    items: Vec<PodObject>,
}

impl Cluster {
    /// Finds kubectl. No cluster is contacted.
    pub async fn of(config: &Config, workspace: &Path) -> anyhow::Result<Self> {
        Cluster::at(config, workspace, target(config)).await
    }

    async fn at(config: &Config, workspace: &Path, target: KubeTarget) -> anyhow::Result<Self> {
        let programs = config.trusted_programs(workspace);
        let kubectl = Kubectl::find(&programs, target).await?;
        Ok(Cluster { kubectl, git: users_git(&programs) })
    }

    /// Returns the cluster in which this machine has started the session whose id starts with `session`;
    /// `None` without a record, or if flags select a cluster.
    pub async fn recorded(flags: &Flags, session: Option<&str>) -> anyhow::Result<Option<Self>> {
        let Some(prefix) = session.filter(|_| flags.names().next().is_none()) else {
            return Ok(None);
        };
        let workspace = default_workspace(Path::new("."));
        // Commands on sessions work with a wrong configuration.
        let config = aifo_config::load(&workspace, flags).unwrap_or_else(|_| Config::builtin());
        Cluster::of_session(&config, &workspace, prefix).await
    }

    /// Returns the cluster in which this machine has started a session; `None` without a record.
    pub async fn of_session(
        config: &Config,
        workspace: &Path,
        prefix: &str,
    ) -> anyhow::Result<Option<Self>> {
        let Some(target) = records::find(prefix)? else { return Ok(None) };
        Cluster::at(config, workspace, target).await.map(Some)
    }

    /// As [`Cluster::selected`], but the configuration alone selects none: for commands that also work without a
    /// session.
    pub async fn given(flags: &Flags, session: Option<&str>) -> anyhow::Result<Option<Self>> {
        match flags.names().next() {
            Some(_) => Cluster::selected(flags, session).await,
            None => Cluster::recorded(flags, session).await,
        }
    }

    /// Returns the cluster of these flags and the user's configuration, or the one in which this machine has
    /// started the session; `None` if the session is one of this machine.
    pub async fn selected(flags: &Flags, session: Option<&str>) -> anyhow::Result<Option<Self>> {
        if let Some(cluster) = Cluster::recorded(flags, session).await? {
            return Ok(Some(cluster));
        }
        let workspace = default_workspace(Path::new("."));
        let config = match aifo_config::load(&workspace, flags) {
            // Commands on sessions of this machine work with a wrong configuration.
            Err(_) if flags.names().next().is_none() => return Ok(None),
            loaded => loaded?,
        };
        if config.backend.value != BackendChoice::Kubernetes {
            return match flags.names().find(|name| *name != "--backend") {
                Some(flag) => bail!(without_backend(flag)),
                None => Ok(None),
            };
        }
        Cluster::of(&config, &workspace).await.map(Some)
    }

    /// Returns the addresses of the API server; none if its name cannot be resolved here.
    pub(crate) async fn api_server(&self) -> Vec<IpAddr> {
        let context = self.kubectl.context().await.unwrap_or_default();
        let Some(host) = context.server_host() else { return Vec::new() };
        let resolved = tokio::time::timeout(RESOLVE_TIME, tokio::net::lookup_host((host, HTTPS)));
        match resolved.await {
            Ok(Ok(addresses)) => {
                addresses.map(|it| it.ip()).collect::<BTreeSet<_>>().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the options of `aifo-coder` that select this cluster, with a space before each.
    pub fn options(&self) -> String {
        options_of(self.kubectl.target())
    }

    /// Returns the user's kubectl with the options that select this cluster, for command lines.
    pub(crate) fn kubectl_line(&self) -> String {
        let options = self.kubectl.target().options();
        let options = options.iter().map(|word| format!(" {}", quote_word(word.as_bytes())));
        format!("kubectl{}", options.collect::<String>())
    }

    /// Returns the pod with this name; `None` if it does not exist.
    pub(crate) async fn pod(&self, name: &str) -> Result<Option<PodObject>, KubectlError> {
        let args = ["get", "pod", name, "--output=json"];
        match self.kubectl.output_retried(&args, b"", away).await {
            Ok(output) => Ok(Some(parse(&output)?)),
            Err(error) if error.cause() == Some(FailureCause::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the pods of all sessions, oldest first.
    pub async fn pods(&self) -> anyhow::Result<Vec<PodObject>> {
        let selector = format!("--selector={SESSION_LABEL}");
        let args = ["get", "pods", &selector, "--output=json"];
        let recorded = records::in_cluster(self.kubectl.target());
        let output = self.kubectl.output_retried(&args, b"", away).await?;
        let list: PodList = parse(&output)?;
        let mut pods: Vec<_> =
            list.items.into_iter().filter(|pod| pod.session().is_some()).collect();
        let is_gone = |id: &&String| pods.iter().all(|pod| pod.session() != Some(id.as_str()));
        recorded.iter().filter(is_gone).for_each(|id| records::remove(id));
        pods.sort_by(|one, other| one.created().cmp(other.created()));
        Ok(pods)
    }

    /// Returns the pod of the session whose id starts with `prefix`, or of the only one.
    pub async fn find(&self, prefix: Option<&str>) -> anyhow::Result<PodObject> {
        let pods: Vec<_> = self.pods().await?.into_iter().filter(|pod| !pod.is_deleted()).collect();
        let ids: Vec<&str> = pods.iter().filter_map(PodObject::session).collect();
        let index = the_one(prefix.unwrap_or_default(), &ids, "session in the cluster")?;
        pods.into_iter().nth(index).context("no session in the cluster")
    }

    /// Records the cluster of a session, for commands that get its id only.
    pub(crate) async fn record(&self, session: &str) {
        let mut target = self.kubectl.target().clone();
        // The current ones may be others when the record is read.
        if let Ok(context) = self.kubectl.context().await
            && !context.name.is_empty()
        {
            target.context.get_or_insert(context.name);
            target.namespace.get_or_insert(context.namespace);
        }
        if target.kubeconfig.is_none() {
            // The option has one file.
            let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
            let mut files = std::env::split_paths(&files).filter(|file| file.is_file());
            target.kubeconfig = files.next().filter(|_| files.next().is_none());
        }
        if let Err(error) = records::write(session, &target) {
            tracing::warn!("the cluster of session {} is not recorded: {error}", short(session));
        }
    }

    /// Deletes the pod of a session and its network policy. Reports a failure on stderr.
    pub(crate) async fn delete(&self, session: &str) -> bool {
        let selector = format!("--selector={SESSION_LABEL}={session}");
        let args = ["delete", "pod,networkpolicy", &selector, "--ignore-not-found", "--wait=false"];
        match self.kubectl.output_retried(&args, b"", away).await {
            Ok(_) => {
                records::remove(session);
                true
            }
            Err(error) => {
                let (id, options) = (short(session), self.options());
                console::fail(&anyhow::Error::from(error).context(format!(
                    "cannot delete the pod of session {id}; remove it with: \
                     aifo-coder clean{options} {id}"
                )));
                false
            }
        }
    }
}

/// Returns the options of `aifo-coder` that select a cluster, with a space before each.
pub(crate) fn options_of(target: &KubeTarget) -> String {
    let path = target.kubeconfig.as_ref().map(|path| path.display().to_string());
    let options = [
        ("--context", target.context.as_ref()),
        ("--namespace", target.namespace.as_ref()),
        ("--kubeconfig", path.as_ref()),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let words = options.flat_map(|(name, value)| [name.to_owned(), value.clone()]);
    let words = ["--backend".to_owned(), "kubernetes".to_owned()].into_iter().chain(words);
    words.map(|word| format!(" {}", shlex::try_quote(&word).unwrap_or_default())).collect()
}

/// The error for a flag of clusters on a command for this machine.
pub fn without_backend(flag: &str) -> UsageError {
    UsageError(format!(
        "{flag} is for sessions in a cluster\nhint: add --backend kubernetes, or omit it"
    ))
}

/// Reports that requests are repeated.
pub(crate) fn away(failure: &ApiFailure) {
    let secs = crate::RETRY_TIME.as_secs();
    console::say(format_args!(
        "the cluster's API server does not answer, trying for {secs} s: {}",
        failure.message
    ));
}

fn parse<T: serde::de::DeserializeOwned>(output: &[u8]) -> Result<T, KubectlError> {
    serde_json::from_slice(output).map_err(|error| KubectlError::Io(error.into()))
}
