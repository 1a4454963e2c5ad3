//! Summaries printed before and after an agent: its isolation, and its tool calls.

use std::path::{Path, PathBuf};

use aifo_agents::{AgentForges, AgentSpec, agent_variables};
use aifo_config::Config;
use aifo_host::{CallStats, WorkspaceAccess, short};
use aifo_launch::{Admission, Containers, Session};
use aifo_network::{NetworkRule, RuleScope};
use aifo_provider::Usage;
use aifo_sidecar::Net;
use aifo_types::{Kind, env};

use crate::log::on_one_line;

/// The facts of a session that the banner states (`spec/agents.md#banner-and-summary`).
struct Facts {
    engine: &'static str,
    image: String,
    /// Its name.
    session: String,
    workspace: PathBuf,
    access: WorkspaceAccess,
    /// Below the home; none without a home.
    state: Vec<PathBuf>,
    /// The mounted settings files.
    settings: Vec<PathBuf>,
    kinds: Vec<Kind>,
    /// True if it has toolchains that start on demand.
    has_on_demand: bool,
    /// The user's settings of package managers that tools get.
    registries: Vec<String>,
    net: Net,
    /// The file, variable or flag that sets the network, or why it is open; `None` for the default.
    net_source: Option<String>,
    /// The rules of [`Net::Names`].
    rules: Vec<String>,
    /// The kinds whose tools have the network of a container of the user's.
    attached: Vec<Kind>,
    /// The ports of this machine that are relayed.
    host_ports: Vec<u16>,
    /// The engine network of the tools.
    join: Option<String>,
    /// The secret variables of the agent.
    variables: Vec<String>,
    /// The providers whose keys stay on this machine.
    proxied: Vec<String>,
    /// Forges that its git reaches, as text.
    forges: Option<String>,
    admitted: Vec<Admission>,
    /// True if the agent has a state of its own, not the user's directories.
    has_own_state: bool,
    /// The agent's login below the home directory.
    login: Option<PathBuf>,
    /// True if the user has that login.
    is_logged_in: bool,
    /// True if its copy has no key that aifo adds.
    login_has_phantoms: bool,
}

/// Describes the agent's isolation in four lines.
pub(crate) fn before(
    session: &Session,
    spec: &AgentSpec,
    image: &str,
    containers: &Containers,
    config: &Config,
) -> String {
    let set = |name: &&String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let keys = session.model_keys();
    let passed = |name: &&String| keys.is_none_or(|keys| !keys.withholds(name));
    let of_row = spec.variables.iter().filter(set).filter(passed);
    let mut variables: Vec<_> = of_row.cloned().collect();
    variables.extend(agent_variables());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let below_home = |paths: &[PathBuf]| if home.is_some() { paths.to_vec() } else { Vec::new() };
    let mut settings = below_home(&spec.settings);
    settings.retain(|path| home.as_ref().is_some_and(|home| home.join(path).is_file()));
    let toolchains = &config.toolchains.value;
    let is_initial = |rule: &&NetworkRule| match &rule.scope {
        RuleScope::Kind(kind) => !toolchains.on_demand.contains(kind),
        RuleScope::All | RuleScope::Agent => true,
    };
    let facts = Facts {
        engine: containers.engine.flavor().program(),
        image: image.to_owned(),
        session: session.name().to_owned(),
        workspace: session.workspace().to_owned(),
        access: WorkspaceAccess::to(session.workspace()),
        state: below_home(&spec.state),
        settings,
        kinds: toolchains.initial().map(|toolchain| toolchain.kind.clone()).collect(),
        has_on_demand: !toolchains.on_demand.is_empty(),
        registries: containers.settings.iter().flat_map(|it| it.sources.clone()).collect(),
        net: containers.net,
        net_source: match config.net.is_builtin() {
            true => None,
            false => Some(config.net.source.to_string()),
        },
        attached: config.kinds.attached.keys().cloned().collect(),
        host_ports: containers.host_ports.clone(),
        join: containers.join.clone(),
        rules: containers
            .rules
            .iter()
            .filter(|rule| is_initial(rule))
            .map(ToString::to_string)
            .collect(),
        variables,
        proxied: keys.map(|keys| keys.providers().to_vec()).unwrap_or_default(),
        forges: session.forges().map(of_forges),
        admitted: config.admit.iter().map(|admission| admission.value).collect(),
        has_own_state: session.has_own_state(),
        login: spec.credentials.as_ref().map(|login| login.from.clone()),
        is_logged_in: spec.credentials.as_ref().is_some_and(|login| {
            std::env::var_os("HOME").is_some_and(|home| Path::new(&home).join(&login.from).exists())
        }),
        login_has_phantoms: session.model_keys().is_some_and(|keys| !keys.of_login().is_empty()),
    };
    facts.text()
}

/// The rules that the banner lists.
const MAX_RULES: usize = 4;

/// Says which forges it reaches, by whose credential.
fn of_forges(forges: &AgentForges) -> String {
    let who = if forges.has_api() { "git and gh get" } else { "git gets" };
    format!("{who} through to {}; changes there are asked", forges.names().join(", "))
}

impl Facts {
    fn text(&self) -> String {
        let Facts { engine, image, session, .. } = self;
        let agent = format!("{session}, in a container of {engine} ({image}); {}", self.tools());
        let rows = [
            ("agent", agent),
            ("files", self.files()),
            ("network", self.network()),
            ("secrets", self.secrets()),
        ];
        let lines =
            rows.map(|(what, text)| format!("{:<8} {}\n", format!("{what}:"), one_line(&text)));
        lines.concat()
    }

    fn files(&self) -> String {
        let home = |paths: &[PathBuf]| {
            let names = paths.iter().map(|path| format!("~/{}", path.display()));
            names.collect::<Vec<_>>().join(", ")
        };
        let access = match self.access {
            WorkspaceAccess::ReadWrite => "read and write".to_owned(),
            WorkspaceAccess::ReadOnly => "read only, as its file system is".to_owned(),
            WorkspaceAccess::Foreign(uid) => format!("not writable: it belongs to uid {uid}"),
        };
        let mut text = format!("{}, {access}; ", self.workspace.display());
        text += &match self.state.as_slice() {
            [] if self.settings.is_empty() => "nothing of your home".to_owned(),
            [] => String::new(),
            state if self.has_own_state => format!("copies of {} for this project", home(state)),
            state => format!("{} of your home, read and write", home(state)),
        };
        match (self.settings.as_slice(), self.state.is_empty()) {
            ([], _) => {}
            (settings, true) => text += &format!("{} of your home, read only", home(settings)),
            (settings, false) => text += &format!("; {}, read only", home(settings)),
        }
        text
    }

    fn tools(&self) -> String {
        let kinds: Vec<_> = self.kinds.iter().map(Kind::as_str).collect();
        match kinds.as_slice() {
            [] if self.has_on_demand => "each toolchain starts with its first call".to_owned(),
            [] => "no toolchain, so every sidecar tool is refused".to_owned(),
            kinds => {
                let on_demand =
                    if self.has_on_demand { ", others on their first call" } else { "" };
                let registries = match self.registries.as_slice() {
                    [] => String::new(),
                    of => format!(", with the registries of {}", of.join(", ")),
                };
                format!("{} in sidecars{on_demand}{registries}", kinds.join(", "))
            }
        }
    }

    fn network(&self) -> String {
        let text = match self.net {
            Net::Shared => "outbound access; localhost is shared with the tools",
            Net::Separate => "outbound access; its own localhost",
            Net::Names => return self.names(),
            Net::Learn => "every name; the session's end lists those that no rule allows",
            Net::None => "none",
            Net::Host => "this machine's own, including all local services",
        };
        let source = self.net_source.as_ref().map(|source| format!(" ({source})"));
        format!("{text}{}", source.unwrap_or_default())
    }

    /// The rules of a network by name.
    fn names(&self) -> String {
        let shown = self.rules.iter().take(MAX_RULES).map(String::as_str).collect::<Vec<_>>();
        let names = match (shown.join(", "), self.rules.len().saturating_sub(MAX_RULES)) {
            (_, _) if shown.is_empty() => "no name, as no rule allows one".to_owned(),
            (shown, 0) => format!("only {shown}"),
            (shown, more) => format!("only {shown} and {more} more"),
        };
        let ports = self.host_ports.iter().map(|port| format!(", this machine's port {port}"));
        let names = names + &ports.collect::<String>();
        let attached: Vec<_> = self.attached.iter().map(Kind::as_str).collect();
        let attached = match attached.is_empty() {
            true => String::new(),
            false => format!("; {} tools have their container's", attached.join(", ")),
        };
        let tools = match &self.join {
            Some(network) => format!("; tools have all of the engine's network {network}"),
            None => String::new(),
        };
        format!("{names}{attached}{tools}")
    }

    /// The secrets of the agent, and those that are admitted for tools.
    fn secrets(&self) -> String {
        let mut secrets = self.variables.clone();
        if let Some(login) = self.login.as_ref().filter(|_| self.has_own_state) {
            let has_key = !self.variables.is_empty() || !self.proxied.is_empty();
            let without =
                if self.login_has_phantoms { " without the key that aifo adds" } else { "" };
            secrets.extend(match self.is_logged_in {
                true => Some(format!("the login in ~/{}{without}", login.display())),
                false if has_key => None,
                false => {
                    Some(format!("no login yet; a new one is copied to ~/{}", login.display()))
                }
            });
        }
        secrets.extend(self.admitted.iter().filter_map(|admission| {
            let (secret, kind) = match admission {
                Admission::SshAgent => {
                    return Some("your SSH agent, which signs for agent and tools".to_owned());
                }
                Admission::ProxyLogin => {
                    return Some("the logins of your proxies, for agent and tools".to_owned());
                }
                Admission::Npmrc => ("npmrc", "node"),
                Admission::Pip => ("pip.conf", "python"),
                Admission::Cargo => ("cargo's tokens", "rust"),
                // Certificates are public.
                Admission::CaBundle => return None,
            };
            let is_offered = self.kinds.iter().any(|offered| offered.as_str() == kind);
            is_offered.then(|| format!("{secret} for {kind} tools"))
        }));
        let inside = match secrets.as_slice() {
            [] => "none".to_owned(),
            secrets => secrets.join(", "),
        };
        let keys = match self.proxied.as_slice() {
            [] => inside,
            proxied => format!("{inside}; aifo adds the key of {} outside", proxied.join(", ")),
        };
        let forges = self.forges.iter().map(|forges| format!("; {forges}"));
        keys + &forges.collect::<String>()
    }
}

/// Warns if agent and tools are root on this machine too.
pub(crate) fn root_warning(containers: &Containers) -> Option<&'static str> {
    containers.run_as_host_root().then_some(
        "you are root: agent and tools write files as root, and a flaw of the engine is root's\n\
         hint: run aifo-coder as another user",
    )
}

/// Returns the warning that tools and agent lack certificates of this machine.
pub(crate) fn certificates_warning(containers: &Containers) -> Option<String> {
    let sources = &containers.missing_certificates;
    (!sources.is_empty()).then(|| missing_certificates(sources))
}

fn missing_certificates(sources: &[&str]) -> String {
    format!(
        "agent and tools do not have the certificates of {}; to pass them: admit = \
         [\"ca-bundle\"] in [containers] of your configuration",
        sources.join(", ")
    )
}

/// Summarises the agent's tool calls, and why some were refused; nothing if it made none.
pub(crate) fn after(stats: &CallStats, id: &str) -> Vec<String> {
    let calls = match stats.calls {
        0 if stats.plumbing == 0 => return Vec::new(),
        0 => {
            return vec![format!(
                "no tool calls but {} of the agent itself{}",
                stats.plumbing,
                see_log(id)
            )];
        }
        1 => "1 tool call".to_owned(),
        calls => format!("{calls} tool calls"),
    };
    let failed = match (stats.failed, stats.refused) {
        (0, _) if stats.unseen > 0 => "no failure seen".to_owned(),
        (0, _) => "none failed".to_owned(),
        (failed, 0) => format!("{failed} failed"),
        (failed, refused) => format!("{failed} failed, {refused} of them refused"),
    };
    let seconds = stats.tool_time.as_secs_f64();
    let see = see_log(id);
    let own = match stats.plumbing {
        0 => String::new(),
        own => format!("; {own} more of the agent itself"),
    };
    let totals = format!("{calls}, {failed}, {seconds:.1} s in tools{own}{see}");
    let reasons = stats.reasons.iter().map(|reason| format!("refused: {}", on_one_line(reason)));
    std::iter::once(totals).chain(reasons).collect()
}

/// Returns the hint at the log of a session that has ended; empty in a pod, which is deleted with it.
pub(crate) fn see_log(id: &str) -> String {
    match std::env::var_os(env::POD_SESSION) {
        Some(_) => String::new(),
        None => format!("; see 'aifo-coder log {}'", short(id)),
    }
}

/// Returns a line about the requests of a session with model keys.
pub(crate) fn model_usage(usage: &Usage) -> Option<String> {
    let count = |count: u64, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let Usage { requests, received, tokens, estimated, .. } = usage;
    (*requests > 0).then(|| {
        let requests = count(*requests, "request");
        let (input, output) = (count(tokens.input, "token"), count(tokens.output, "token"));
        let estimated = match estimated {
            0 => String::new(),
            more => format!(", {} estimated", count(*more, "token")),
        };
        format!(
            "{requests} to models, {} received, {input} of prompts, {output} of answers{estimated}",
            size(*received)
        )
    })
}

/// Returns a number of bytes with its unit.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn one_line(text: &str) -> String {
    aifo_types::escape_line(text)
}

#[cfg(test)]
mod tests;
