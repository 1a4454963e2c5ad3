//! Describes a session for a pod, from configuration and flags.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aifo_agents::{AgentSpec, key_variables};
use aifo_config::{Config, Flags, UsageError, carried_settings, without_effect};
use aifo_host::git_identity;
use aifo_policy::Policy;
use aifo_process::Restriction;
use aifo_sidecar::{Images, Net, cache_directories, container_variables};
use aifo_types::{Kind, WindowSize, is_secret};
use anyhow::bail;

use super::agent_variables::AgentVariables;
use super::cluster::{self, options_of};
use super::network::{key_urls, network, own_rules};
use super::target::PodTarget;
use crate::in_pod::HOLD_IN_POD;
use crate::{Keys, KindContainer, Limits, PodAgent, SessionPod, WorkspaceSource};

/// The process that runs the agent of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProcess {
    /// The first process of the container `aifo`, with its terminal, for `kubectl attach`.
    OnTerminal,
    /// The same without a terminal.
    WithoutTerminal,
    /// A process with a held terminal of this size. The first client has to connect within this time.
    Held(Option<Duration>, WindowSize),
    /// A process that a client starts by `kubectl exec`, within this time.
    Exec(Duration),
}

/// A pod's settings that are no keys.
#[derive(Clone, Debug, Default)]
pub struct PodOptions {
    /// The persistent volume claim that is the workspace.
    pub claim: Option<String>,
    /// The repository whose clone is the workspace: `URL[#REF]`.
    pub git: Option<String>,
    /// The secret with its login.
    pub git_secret: Option<String>,
    /// Pushes the session branch at the end.
    pub git_push: bool,
    /// Uploads ignored files, too.
    pub upload_ignored: bool,
    /// The seconds after which Kubernetes ends the pod.
    pub deadline_secs: Option<u64>,
    /// The user of all processes; 1000 if `None`.
    pub user: Option<u32>,
}

/// A session that is to be described.
pub struct PodRequest<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Settings that are no keys.
    pub options: PodOptions,
    /// The flags of the configuration.
    pub given: Flags,
    /// The directory with the project files.
    pub workspace: &'a Path,
    /// The agent or command.
    pub target: PodTarget,
    /// The server of the agent files, if it has one.
    pub files: AgentFiles,
    /// Prints the manifests, and creates no pod.
    pub is_dry: bool,
    /// Omits warnings.
    pub is_quiet: bool,
}

/// Whether the launcher serves files to an agent that speaks ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFiles {
    /// It does.
    Served,
    /// It does not: the agent works with files itself.
    Unserved,
}

impl PodRequest<'_> {
    /// Returns the options of the launcher in the pod.
    pub fn options(&self) -> Vec<String> {
        let config = self.config;
        let keys_mode = if config.key_settings().is_none() { "pass" } else { "proxy" };
        let fixed = ["--backend", "pod", "--workspace", "/workspace", "--keys", keys_mode];
        let mut options: Vec<String> = fixed.map(str::to_owned).into();
        let mut option = |name: &str, value: Option<String>| {
            options.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        for kind in &config.toolchains.value.kinds() {
            option("--toolchain", Some(kind.to_string()));
        }
        option("--max-secs", config.max_secs.value.map(|secs| secs.to_string()));
        option("--max-requests", config.max_requests.value.map(|count| count.to_string()));
        option("--max-tokens", config.max_tokens.value.map(|count| count.to_string()));
        let forwarded = config.variables.forwarding.additions_text();
        for name in forwarded.split(',').filter(|name| !name.is_empty()) {
            option("--env", Some(name.to_owned()));
        }
        for word in self.given.words("--env").iter().filter(|word| word.contains('=')) {
            option("--env", Some(word.clone()));
        }
        let is_given = |flag: &str| !self.given.words(flag).is_empty();
        for (flag, is_on) in [
            ("--verbose", config.verbose.value),
            ("--no-rules", is_given("--no-rules")),
            ("--smart-node", is_given("--smart-node")),
            ("--smart-python", is_given("--smart-python")),
        ] {
            options.extend(is_on.then(|| flag.to_owned()));
        }
        options
    }

    /// Returns the words of `run` in the pod, after the command name.
    pub fn words_of_run(&self) -> Vec<String> {
        self.options().into_iter().chain(self.target.words.iter().cloned()).collect()
    }
}

/// Returns the description of a session with this id. Errors: the agent cannot run in a pod.
pub fn describe(
    request: PodRequest<'_>,
    session: String,
    process: &PodProcess,
) -> anyhow::Result<SessionPod> {
    let is_passed = request.config.key_settings().is_none();
    let has_key = !is_passed && !request.target.spec.keys.is_empty();
    if let Some(limit) = request.config.model_limit().filter(|_| !has_key) {
        return Err(without_effect(limit, "aifo adds no key to its requests").into());
    }
    let mut arguments: Vec<String> = match process {
        PodProcess::Held(within, size) => {
            let secs = within.unwrap_or_default().as_secs().to_string();
            vec![HOLD_IN_POD.to_owned(), secs, size.to_string(), request.target.spec.name.clone()]
        }
        PodProcess::Exec(within) => vec![HOLD_IN_POD.to_owned(), within.as_secs().to_string()],
        PodProcess::OnTerminal | PodProcess::WithoutTerminal => vec!["run".to_owned()],
    };
    if !matches!(process, PodProcess::Exec(_)) {
        arguments.extend(request.words_of_run());
    }
    let PodRequest { config, options, workspace: project, target, files, .. } = request;
    let kinds = config.toolchains.value.kinds();
    let (spec, image) = (target.spec, target.image);
    let user = options.user.unwrap_or(DEFAULT_USER);
    let of_user = AgentVariables::of_environment(&spec);
    let variables = [("SHELL".to_owned(), spec.shell.to_string_lossy().into_owned())];
    let limits = Limits {
        memory: config.memory.value.filter(|memory| *memory > 0),
        milli_cpus: config.cpus.value.map(milli),
    };
    Ok(SessionPod {
        session,
        namespace: config.kube_namespace.value.clone(),
        launcher_image: launcher_image(config),
        arguments,
        settings: carried_settings(config, &spec.name)?,
        client: options_of(&cluster::target(config)),
        terminal: *process == PodProcess::OnTerminal,
        agent: PodAgent {
            name: spec.name.clone(),
            image,
            variables: variables.into_iter().chain(plain_variables(&spec)).collect(),
            git: git_settings(project, config),
            private: spec
                .private_in_tmp(user)
                .iter()
                .map(|it| it.to_string_lossy().into())
                .collect(),
        },
        kinds: kind_containers(&kinds, config),
        workspace: workspace(
            &options,
            matches!(process, PodProcess::Held(..) | PodProcess::Exec(_)),
        )?,
        serves_files: files == AgentFiles::Served,
        keys: keys(&spec, config, is_passed, &of_user)?,
        pull_secrets: config.pull_secrets.value.clone(),
        restrictions: restrictions(config),
        limits,
        deadline_secs: options.deadline_secs,
        user,
        further_tools: further_tools(config),
        in_place: in_place(config),
        network: network(config, &spec, project)?,
        addresses: own_rules(config).addresses().into_iter().collect(),
        dns: config.kube_dns.value.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
        api_server: Vec::new(),
        warnings: warnings(config, &spec, &of_user),
        agent_variables: of_user.plain,
    })
}

/// Returns the launcher image.
pub fn launcher_image(config: &Config) -> String {
    let default =
        || format!("{}aifo-launcher:{}", config.image_prefix.value, config.image_tag.value);
    config.launcher_image.value.clone().unwrap_or_else(default)
}

fn kind_containers(kinds: &[Kind], config: &Config) -> Vec<KindContainer> {
    let named = config.kinds.images.iter().map(|(kind, image)| (kind.clone(), image.value.clone()));
    let versions = config.toolchains.value.list.iter().filter_map(|toolchain| {
        Some((toolchain.kind.clone(), toolchain.version.as_ref()?.to_string()))
    });
    let images = Images {
        prefix: config.image_prefix.value.clone(),
        tag: config.image_tag.value.clone(),
        named: named.collect(),
        versions: versions.collect::<HashMap<_, _>>(),
        ..Images::default()
    };
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let container = |kind: &Kind| KindContainer {
        kind: kind.clone(),
        image: images.of(kind),
        variables: container_variables(kind).map(owned).collect(),
        // Those below the home are in its volume.
        caches: cache_directories(kind)
            .filter(|path| !path.starts_with("/home/"))
            .map(str::to_owned)
            .collect(),
    };
    kinds.iter().map(container).collect()
}

fn workspace(options: &PodOptions, is_run: bool) -> anyhow::Result<WorkspaceSource> {
    if let Some(claim) = &options.claim {
        return Ok(WorkspaceSource::Claim(claim.clone()));
    }
    let Some(given) = options.git.as_deref() else {
        if is_run {
            return Ok(WorkspaceSource::Upload);
        }
        let hint = "--pvc NAME for a persistent volume claim, or --git URL#REF for a clone; `run --backend \
                    kubernetes` uploads this machine's";
        bail!(UsageError(format!("a manifest needs a workspace in the cluster\nhint: {hint}")));
    };
    let (url, reference) = match given.rsplit_once('#') {
        Some((url, reference)) => (url, Some(reference.to_owned())),
        None => (given, None),
    };
    if url.contains('@') && url.contains("://") {
        bail!(
            "the URL of --git has a login, which every reader of the pod would see\n\
             hint: put it into a secret, and name that with --git-secret"
        );
    }
    Ok(WorkspaceSource::Git {
        url: url.to_owned(),
        reference: reference.filter(|reference| !reference.is_empty()),
        secret: options.git_secret.clone(),
        is_pushed: options.git_push,
    })
}

/// Returns the keys that the launcher container gets.
fn keys(
    spec: &AgentSpec,
    config: &Config,
    is_passed: bool,
    of_user: &AgentVariables,
) -> anyhow::Result<Option<Keys>> {
    let mut variables = match is_passed {
        true => spec.variables.clone(),
        false => key_variables(spec).into_iter().map(str::to_owned).collect(),
    };
    if variables.is_empty() && !spec.variables.is_empty() {
        bail!(
            "agent '{}' takes no base URL, so it needs the key of its model itself\n\
             hint: pass it with --keys pass",
            spec.name
        );
    }
    variables.retain(|name| !of_user.has_plain(name));
    let secret = config.keys_secret.value.clone();
    Ok((!variables.is_empty()).then_some(Keys { secret, variables }))
}

/// Returns the user's name for commits of the agent, and the name of first branches.
fn git_settings(workspace: &Path, config: &Config) -> Vec<(String, String)> {
    let mut settings = git_identity(&config.trusted_programs(workspace));
    settings.retain(|(key, value)| !is_secret(key.as_bytes(), value.as_bytes()));
    settings
}

/// Returns the row's variables without secrets, which a manifest does not have.
fn plain_variables(spec: &AgentSpec) -> impl Iterator<Item = (String, String)> {
    let is_plain =
        |(name, value): &&(String, String)| !is_secret(name.as_bytes(), value.as_bytes());
    spec.set.iter().filter(is_plain).cloned()
}

fn restrictions(config: &Config) -> Vec<String> {
    let kept = Restriction::ALL.iter().filter(|one| !config.unrestricted.value.contains(one));
    kept.map(|one| one.name().to_owned()).collect()
}

/// Returns the tools of the configuration that have no link by default.
fn further_tools(config: &Config) -> Vec<String> {
    let builtin = Policy::builtin();
    let known = builtin.all_tools();
    let tools = config.kinds.policy.all_tools().into_iter();
    tools.filter(|tool| !known.contains(tool)).map(str::to_owned).collect()
}

/// Returns the tools that rules are about, and that run where the agent is.
fn in_place(config: &Config) -> Vec<String> {
    let judge = config.argument_rules.judge(config.default_rules.value);
    config.tools_in_place(&judge).map(|tool| tool.to_string()).collect()
}

/// The user and group of all processes, without `--user`.
const DEFAULT_USER: u32 = 1000;
/// Returns the warnings: weaker isolation than in an engine's containers, and settings that a pod does not
/// get.
fn warnings(config: &Config, spec: &AgentSpec, of_user: &AgentVariables) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.net.value.is_by_name() {
        warnings.push(
            "--net names is degraded: a pod has one network stack, and a network policy names ports \
             and addresses, not hosts. It holds only if the cluster enforces network policies."
                .to_owned(),
        );
    }
    let private: Vec<_> = own_rules(config).private_rules().map(ToString::to_string).collect();
    if config.net.value.is_by_name() && !private.is_empty() {
        warnings.push(format!(
            "a network policy cannot match names, so the pod cannot reach the private addresses of these rules: '{}'. \
             Add address=IP to them.",
            private.join("', '")
        ));
    }
    if config.net.value.is_by_name() && key_urls(config, spec).next().is_some() {
        warnings.push(
            "a URL of [keys] is reached at public addresses only; one with a private address needs a network rule \
             with address=IP."
                .to_owned(),
        );
    }
    if spec.listens {
        warnings.push(format!(
            "{} listens on localhost, which tools share with it in a pod.",
            spec.name
        ));
    }
    if !of_user.secrets.is_empty() {
        warnings.push(format!(
            "{} is not passed, because a manifest must not contain secrets. Put the keys of the agent's models in \
             the secret of --keys-secret.",
            of_user.secrets.join(", ")
        ));
    }
    if !of_user.urls.is_empty() {
        warnings.push(format!(
            "{} is not passed: put it in the secret of --keys-secret, or set the URL as 'url' in [keys].",
            of_user.urls.join(", ")
        ));
    }
    warnings.extend(config.dropped_in_pod(spec));
    if config.net.value == Net::None && !spec.keys.is_empty() {
        warnings.push("with --net none the agent cannot reach its model.".to_owned());
    }
    warnings
}

fn milli(cpus: f64) -> u64 {
    // Rounded up: 0 would be no limit.
    format!("{:.0}", (cpus * 1000.0).ceil()).parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use aifo_agents::known_agents;

    use super::*;
    use aifo_config::File;

    #[test]
    fn an_agent_that_listens_is_named() {
        let config = Config::builtin();
        let agents = known_agents().iter().filter(|agent| {
            let expected = format!("{} listens on localhost", agent.name);
            warnings(&config, agent, &AgentVariables::default())
                .iter()
                .any(|warning| warning.starts_with(&expected))
        });
        let names: Vec<_> = agents.map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["opencode"]);
    }

    #[test]
    fn a_url_of_keys_is_warned_about() {
        let mut config = Config::builtin();
        let users = "[keys.openai]\nurl = \"https://llm.example:8443/v1\"\n";
        config.apply_user(&File::new(Path::new("/c.toml"), users.to_owned())).unwrap();
        let warned = |agent: &str| {
            let spec = config.agent_named(agent).unwrap();
            let all = warnings(&config, spec, &AgentVariables::default());
            all.iter().any(|warning| warning.contains("a private address needs a network rule"))
        };
        assert!(warned("codex") && !warned("claude"));
    }

    #[test]
    fn processors_are_thousandths() {
        assert_eq!(milli(1.5), 1500);
        assert_eq!(milli(0.0001), 1);
    }
}
