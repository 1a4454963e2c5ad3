//! Follows a call through the steps of shim, proxy and runner.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_decide::{Decision, Reason, Settings, Toggle, ToolCall, decide};
use aifo_launch::NetworkAccess;
use aifo_policy::{Explained, JudgedCall, KindPolicy, asks_only_for_version, running_first};
use aifo_process::Lookup;
use aifo_proxy::HostExecutables;
use aifo_types::{Kind, Refusal, ToolName, exit};

use super::explanation::{DecidedBy, Explanation, Mode, Refused, Route, Tried};
use super::facts::{FileSystem, installed, installed_in};
use super::variables::judge_variables;
use super::words;
use crate::{Config, Source, ToolEffect, ToolRule, user_file_name};

/// Explains calls under one configuration.
pub(crate) struct CallExplainer<'a> {
    pub(crate) config: &'a Config,
    /// The workspace's real path.
    pub(crate) workspace: &'a Path,
    pub(crate) smart: aifo_agents::SmartRuntimes,
    pub(crate) place: SidecarLocation,
}

/// Where sidecars run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SidecarLocation {
    /// On this machine, with its tools.
    Machine,
    /// In containers, with the tools of their images.
    Containers,
}

/// The lookup of a tool in a sidecar.
enum Found {
    /// On this machine.
    Here(Lookup),
    /// In a container, where only a session could look it up.
    InContainer,
}

impl CallExplainer<'_> {
    /// Explains a call made in `cwd`, a real path.
    pub(crate) fn explain(&self, tool: &ToolName, args: &[Vec<u8>], cwd: &Path) -> Explanation {
        let mut explanation = self.unexplained(tool.to_string(), args, cwd);
        let settings = self.settings();
        let notifies = settings.notify_tools.iter().any(|name| name == tool.as_str());
        if !notifies && !self.has_shim(tool) {
            match self.is_in_place(tool) {
                true => self.explain_in_place(tool, &mut explanation),
                false => self.explain_direct(tool, &mut explanation),
            }
            return explanation;
        }
        let call = ToolCall { tool: tool.as_str().as_bytes(), program: None, args, cwd };
        match decide(&call, &settings, &FileSystem) {
            Ok(Decision::Local(local)) => {
                explanation.mode = Mode::Local;
                explanation.reason = local.reason.to_string();
                explanation.because =
                    words::because(tool.as_str(), local.reason, Some(&local.program));
                explanation.smart = Some(true);
                explanation.executable = Some(local.runtime);
                explanation.directory = Some(cwd.to_owned());
                explanation.environment = "the agent's own";
                explanation.max_secs = None;
            }
            Ok(Decision::Notify(notify)) => {
                self.explain_notify(&notify.command, args, &mut explanation);
            }
            Ok(Decision::Proxy(proxy)) => {
                explanation.reason = proxy.reason.to_string();
                explanation.because =
                    words::because(tool.as_str(), proxy.reason, proxy.program.as_ref());
                let undecided = proxy.reason == Reason::NotARuntime;
                let off = proxy.reason == Reason::SmartOff;
                explanation.smart = (!undecided).then_some(!off);
                self.explain_proxied(tool, args, &mut explanation);
            }
            Err(no_runtime) => {
                let text = no_runtime.to_string();
                let (text, remedy) = text.split_once("\nhint: ").unwrap_or((&text, ""));
                explanation.mode = Mode::Local;
                explanation.reason = "no-runtime".to_owned();
                explanation.because = "the agent's own runtime must run this program".to_owned();
                explanation.smart = Some(true);
                explanation.refusal = Some(Refused {
                    status: None,
                    exit_code: no_runtime.exit_code(),
                    text: text.to_owned(),
                    remedy: remedy.to_owned(),
                });
            }
        }
        explanation
    }

    pub(crate) fn unexplained(&self, tool: String, args: &[Vec<u8>], cwd: &Path) -> Explanation {
        let Explained { judgement, calls, is_unclear } = self.judged(&tool, args, cwd);
        let decided_by = (!judgement.rule.is_empty())
            .then_some(DecidedBy { rule: judgement.rule, reason: judgement.reason });
        Explanation {
            tool,
            args: args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect(),
            cwd: cwd.to_owned(),
            workspace: self.workspace.to_owned(),
            mode: Mode::Proxy,
            reason: String::new(),
            because: String::new(),
            smart: None,
            executable: None,
            route: None,
            directory: None,
            verdict: judgement.verdict.as_str(),
            decided_by,
            calls,
            unclear: is_unclear,
            no_network: judgement.no_network,
            refusal: None,
            environment: "the sidecar's own, with the caller's variables that pass",
            variables: None,
            max_secs: self.config.max_secs.value,
            confinement: None,
            network: None,
        }
    }

    /// Returns the verdict of the rules on arguments.
    fn judged(&self, tool: &str, args: &[Vec<u8>], cwd: &Path) -> Explained {
        let judge = self.config.judge(self.workspace);
        let mut argv = vec![tool.as_bytes().to_vec()];
        argv.extend(args.iter().cloned());
        let workspace = [self.workspace.as_os_str().as_bytes().to_vec()];
        let directory = cwd.as_os_str().as_bytes();
        judge.explain(&JudgedCall { argv: &argv, directory, workspace: &workspace })
    }

    fn settings(&self) -> Settings {
        let toggle = Toggle::from;
        Settings {
            smart: aifo_decide::SmartToggles {
                node: toggle(self.smart.node),
                python: toggle(self.smart.python),
            },
            workspace: self.workspace.to_owned(),
            workspace_alias: None,
            local_python: self.config.local_python.value.clone(),
            notify_tools: self.config.notify_allow.value.clone(),
        }
    }

    /// Returns whether the tool has a shim; denied tools have one too.
    pub(crate) fn has_shim(&self, tool: &ToolName) -> bool {
        let policy = &self.config.kinds.policy;
        let offered = |kind: &KindPolicy| kind.allowance(tool.as_str()).is_some();
        policy.all_tools().contains(tool.as_str()) || policy.kinds().iter().any(offered)
    }

    /// Returns whether a shim lets the tool be judged before it runs where the agent is.
    fn is_in_place(&self, tool: &ToolName) -> bool {
        let judge = self.config.argument_rules.judge(self.config.default_rules.value);
        self.config.tools_in_place(&judge).any(|in_place| in_place == *tool)
    }

    fn explain_in_place(&self, tool: &ToolName, explanation: &mut Explanation) {
        explanation.mode = Mode::InPlace;
        explanation.reason = "in-place".to_owned();
        explanation.because =
            format!("'{tool}' runs where the agent is, once the rules on its arguments allow it");
        explanation.environment = "the agent's own";
        explanation.max_secs = None;
        explanation.directory = Some(explanation.cwd.clone());
        if let Lookup::Found(path) = installed(tool.as_str()) {
            explanation.executable = Some(path);
        }
    }

    /// No shim: the agent's own PATH decides.
    fn explain_direct(&self, tool: &ToolName, explanation: &mut Explanation) {
        explanation.mode = Mode::Direct;
        explanation.reason = "no-shim".to_owned();
        explanation.because =
            format!("no toolchain has a tool '{tool}', so the agent's PATH decides");
        explanation.environment = "the agent's own";
        explanation.max_secs = None;
        let remedy = self.remedy_to_allow(tool);
        match installed(tool.as_str()) {
            Lookup::Found(path) => {
                explanation.executable = Some(path);
                explanation.directory = Some(explanation.cwd.clone());
            }
            Lookup::NotExecutable(path) => {
                let text = format!("'{}' cannot be executed: permission denied", path.display());
                let exit_code = exit::NOT_EXECUTABLE;
                explanation.refusal = Some(Refused { status: None, exit_code, text, remedy });
            }
            Lookup::Absent => {
                let text = format!("'{tool}' is not found in PATH");
                let exit_code = exit::NOT_FOUND;
                explanation.refusal = Some(Refused { status: None, exit_code, text, remedy });
            }
        }
    }

    fn explain_notify(&self, command: &str, args: &[Vec<u8>], explanation: &mut Explanation) {
        explanation.mode = Mode::Notify;
        explanation.reason = "notify-tool".to_owned();
        explanation.because = words::because(command, Reason::NotifyTool, None);
        let config = self.config;
        explanation.environment = match config.notify_trim_env.value {
            true => "the user's, trimmed",
            false => "the user's",
        };
        explanation.max_secs = config.notify_timeout_secs.value.or(config.max_secs.value);
        match config.notify_rules().judge(command.as_bytes(), args, &HostExecutables) {
            Ok(notification) => explanation.executable = Some(notification.program),
            Err(refusal) => {
                let remedy = match config.notify_enabled.value {
                    false => {
                        format!("notifications are disabled by {}", config.notify_enabled.source)
                    }
                    true => format!("see [notify] in '{}'", user_file_name()),
                };
                explanation.refusal = Some(Refused::by_proxy(&refusal, remedy));
            }
        }
    }

    /// Follows the call through the proxy to the runner.
    pub(crate) fn explain_proxied(
        &self,
        tool: &ToolName,
        args: &[Vec<u8>],
        explanation: &mut Explanation,
    ) {
        let toolchains = &self.config.toolchains.value;
        let mut route = Route::among(toolchains);
        match self.config.kinds.policy.route(tool, &toolchains.kinds()) {
            Ok(mut routes) => match self.start_in(&explanation.cwd, args) {
                Ok(directory) => {
                    running_first(&mut routes, |kind| !toolchains.on_demand.contains(kind));
                    let found = self.find_sidecar(tool, routes, &directory, &mut route);
                    explanation.directory = Some(directory);
                    self.finish(tool, found, &mut route, explanation);
                }
                Err(refusal) => {
                    let remedy = format!(
                        "call it below '{}', or choose a larger workspace with --workspace",
                        self.workspace.display()
                    );
                    explanation.refusal = Some(Refused::by_proxy(&refusal, remedy));
                }
            },
            Err(refusal) => {
                let remedy = match refusal {
                    Refusal::ToolUnavailable { .. } => self.remedy_to_start(tool),
                    _ => self.remedy_to_allow(tool),
                };
                explanation.refusal = Some(Refused::by_proxy(&refusal, remedy));
            }
        }
        let has_names = match self.place {
            SidecarLocation::Machine => self.config.has_local_names(),
            SidecarLocation::Containers => self.config.net.value.is_by_name(),
        };
        let forwarding = self.config.forwarding(has_names);
        explanation.variables = Some(judge_variables(self.config, &forwarding, self.workspace));
        explanation.confinement = Some(match self.place {
            SidecarLocation::Machine => {
                let access = match self.config.has_local_names() {
                    true => NetworkAccess::Names,
                    false => NetworkAccess::Machine,
                };
                self.config.confine.value.summary(access)
            }
            SidecarLocation::Containers => IN_CONTAINERS.to_owned(),
        });
        let has_own_network =
            self.place == SidecarLocation::Containers || self.config.has_local_names();
        let kind = route.kind.as_ref().and_then(|kind| Kind::parse(kind).ok());
        explanation.network =
            has_own_network.then(|| self.config.network(self.workspace, kind.as_ref()));
        explanation.route = Some(route);
    }

    /// Searches the candidate sidecars in order for the tool.
    fn find_sidecar(
        &self,
        tool: &ToolName,
        candidates: Vec<aifo_policy::Route>,
        directory: &Path,
        route: &mut Route,
    ) -> Found {
        for candidate in candidates {
            let (kind, rule) = (candidate.kind.to_string(), candidate.reason.as_str());
            if self.place == SidecarLocation::Containers {
                route.tried.push(Tried { kind, rule, installed: None });
                return Found::InContainer;
            }
            let found = installed_in(&kind, tool.as_str(), directory, self.workspace);
            let installed = match &found {
                Lookup::Found(path) | Lookup::NotExecutable(path) => Some(path.clone()),
                Lookup::Absent => None,
            };
            route.tried.push(Tried { kind, rule, installed });
            if found != Lookup::Absent {
                return Found::Here(found);
            }
        }
        Found::Here(Lookup::Absent)
    }

    fn finish(
        &self,
        tool: &ToolName,
        found: Found,
        route: &mut Route,
        explanation: &mut Explanation,
    ) {
        let choose_last = |route: &mut Route| {
            if let Some(last) = route.tried.last() {
                (route.kind, route.rule) = (Some(last.kind.clone()), Some(last.rule));
            }
        };
        match found {
            Found::InContainer => choose_last(route),
            Found::Here(Lookup::Found(path)) => {
                explanation.executable = Some(path);
                choose_last(route);
            }
            Found::Here(Lookup::NotExecutable(path)) => {
                let cause = format!("cannot execute '{}': permission denied", path.display());
                let refusal = Refusal::StartFailed { cause, exit_code: exit::NOT_EXECUTABLE };
                let remedy = format!("make it executable: chmod +x '{}'", path.display());
                explanation.refusal = Some(Refused::by_proxy(&refusal, remedy));
            }
            Found::Here(Lookup::Absent) => {
                let kinds = self.config.toolchains.value.kinds();
                let refusal = self.config.kinds.policy.unavailable(tool, &kinds);
                let remedy = format!("install {tool} in the sidecar's PATH");
                explanation.refusal = Some(Refused::by_proxy(&refusal, remedy));
            }
        }
    }

    /// Returns the directory the tool starts in. The session's temporary directory would be valid too,
    /// but there is no session here.
    fn start_in(&self, cwd: &Path, args: &[Vec<u8>]) -> Result<PathBuf, Refusal> {
        if cwd.starts_with(self.workspace) {
            return Ok(cwd.to_owned());
        }
        if asks_only_for_version(args) {
            return Ok(self.workspace.to_owned());
        }
        let outside = format!("cwd '{}' lies outside the workspace", cwd.display());
        Err(Refusal::BadRequest(outside))
    }

    fn remedy_to_start(&self, tool: &ToolName) -> String {
        if let source @ Source::WorkspaceFile(_) = &self.config.toolchains.source {
            return format!("its toolchain is omitted by {source}");
        }
        let kinds = self.config.kinds.policy.kinds().iter();
        let offering = kinds.filter(|kind| kind.allowance(tool.as_str()).is_some());
        let flags: Vec<_> =
            offering.map(|kind| format!("--toolchain {}", kind.kind)).take(2).collect();
        let flags = flags.join(" or ");
        match installed(tool.as_str()) {
            Lookup::Found(_) => format!("start the session with {flags}"),
            _ => format!("install {tool} and start the session with {flags}"),
        }
    }

    fn remedy_to_allow(&self, tool: &ToolName) -> String {
        let denies = |rule: &&ToolRule| {
            rule.effect == ToolEffect::Deny
                && rule.tools.value.iter().any(|name| name == tool.as_str())
        };
        let mut denied_by =
            self.config.kinds.rules.iter().filter(denies).map(|rule| rule.tools.source.to_string());
        match denied_by.next() {
            Some(first) => {
                let all = denied_by.fold(first, |all, next| format!("{all} and {next}"));
                format!("it is denied by {all}")
            }
            None => format!(
                "to run it in a sidecar, add to '{}': [kind.NAME] allow = [\"{tool}\"]",
                user_file_name()
            ),
        }
    }
}

/// The confinement of tools in containers.
const IN_CONTAINERS: &str = "tools run in containers: of this machine's files they see the workspace, \
                             the session's temporary directory and caches";
