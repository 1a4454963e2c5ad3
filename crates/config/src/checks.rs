//! Checks for a session: configuration, workspace, programs, killed sessions.

use std::path::Path;

use aifo_agents::{ToolSettings, UnreachableUrl};
use aifo_host::{
    CheckedWorkspace, TrustedPrograms, killed_sessions, own_certificates, runtime_directory,
};
use aifo_launch::Admission;
use aifo_types::Finding;

use crate::error::ConfigError;
use crate::table::Config;

/// A session that could be started.
#[derive(Clone, Copy, Debug)]
pub struct SessionCheck<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// The error of its file; the configuration then has the built-in values.
    pub error: Option<&'a ConfigError>,
    /// Its workspace.
    pub workspace: &'a Path,
    /// The programs that it may start.
    pub programs: &'a TrustedPrograms,
}

impl SessionCheck<'_> {
    /// Returns whether the workspace can be one: the check may run in the home directory.
    pub fn has_project(&self) -> bool {
        CheckedWorkspace::new(self.workspace).is_ok()
    }

    /// Checks configuration, workspace, programs and what killed sessions left.
    pub fn findings(&self) -> Vec<Finding> {
        let checks = [
            workspace(self),
            programs(self),
            config(self),
            certificates(self),
            registries(self),
            network(self),
            runtime_dir(),
            killed(),
        ];
        checks.concat()
    }
}

fn config(check: &SessionCheck<'_>) -> Vec<Finding> {
    if let Some(error) = check.error {
        return vec![Finding::failure("config", error, "see: aifo-coder config check")];
    }
    let toolchains = &check.config.toolchains.value;
    if toolchains.initial().next().is_none() && !check.has_project() {
        return Vec::new();
    }
    if toolchains.list.is_empty() {
        let fix = "name a toolchain with --toolchain, or in the configuration file";
        let text =
            "no toolchain matches the files of the workspace, so every tool would be refused";
        return vec![Finding::warn("config", text, fix)];
    }
    vec![Finding::ok("config", format!("toolchains of a session here: {}", toolchains.text()))]
}

/// Returns whether the workspace is safe to give to an agent.
fn workspace(check: &SessionCheck<'_>) -> Vec<Finding> {
    vec![match CheckedWorkspace::new(check.workspace) {
        Ok(workspace) => Finding::ok("workspace", format!("{}", workspace.path().display())),
        Err(error) if check.workspace == Path::new(".") => {
            let text = error.to_string();
            let text = text.lines().next().unwrap_or_default();
            Finding::warn(
                "workspace",
                format!("not in a project: {text}"),
                "run the doctor in a project's directory too, or name it with --workspace",
            )
        }
        Err(error) => Finding::failure("workspace", &error, "name another with --workspace"),
    }]
}

/// The trusted and refused programs in PATH.
fn programs(check: &SessionCheck<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ["docker", "podman", "git"] {
        let (trusted, refused) = check.programs.search(name);
        let check = format!("program {name}");
        findings.extend(refused.into_iter().map(|(file, why)| {
            let text = format!("'{}' is not trusted: {why}", file.display());
            Finding::warn(&check, text, "remove its directory from PATH")
        }));
        findings.extend(trusted.map(|file| Finding::ok(&check, file.display().to_string())));
    }
    findings
}

/// The network of containers and the names that their tools reach.
fn network(check: &SessionCheck<'_>) -> Vec<Finding> {
    let config = check.config;
    if config.backend.value.engine().is_none() {
        return Vec::new();
    }
    let mut findings = vec![Finding::ok("network", config.network(check.workspace, None))];
    if config.net.value.is_by_name() {
        let (_, unreachable) = config.network_rules(check.workspace);
        let warn = |url: &UnreachableUrl| {
            let (text, fix) = (url.to_string(), url.remedy());
            Finding::warn("network", text, fix)
        };
        findings.extend(unreachable.iter().map(warn));
    }
    findings
}

/// Returns what tools in containers get of the user's settings of package managers.
fn registries(check: &SessionCheck<'_>) -> Vec<Finding> {
    let config = check.config;
    let Ok(admitted) = config.admitted() else { return Vec::new() };
    let all = config.tool_settings(check.workspace, &admitted);
    let mut findings = Vec::new();
    for settings in &all {
        let ToolSettings { kind, sources, left_out, with_secrets, .. } = settings;
        let tokens = match with_secrets.as_slice() {
            [] => String::new(),
            files => format!(", without the tokens in {}", files.join(", ")),
        };
        let passed = match sources.as_slice() {
            [] => format!("tools of {kind} get none of your registries"),
            sources => format!("tools of {kind} use those of {}{tokens}", sources.join(", ")),
        };
        findings.push(match left_out.as_slice() {
            [] => Finding::ok("registries", passed),
            left_out => Finding::warn(
                "registries",
                format!("{passed}; left out: {}", left_out.join(", ")),
                "set a URL of a registry without a login, or admit the file: admit = [..] in [containers]",
            ),
        });
    }
    findings
}

/// Returns whether containers get the certificates that this machine has beyond the distribution's.
fn certificates(check: &SessionCheck<'_>) -> Vec<Finding> {
    let is_admitted = check.config.admit.iter().any(|item| item.value == Admission::CaBundle);
    let sources = own_certificates(&|name| std::env::var_os(name));
    vec![match (sources.is_empty(), is_admitted) {
        (true, _) => Finding::ok("certificates", "none beyond the distribution's"),
        (false, true) => {
            Finding::ok("certificates", "containers get the bundle of certificates (ca-bundle)")
        }
        (false, false) => Finding::warn(
            "certificates",
            format!("containers do not have those of {}", sources.join(", ")),
            "add admit = [\"ca-bundle\"] to [containers] of your configuration",
        ),
    }]
}

fn runtime_dir() -> Vec<Finding> {
    vec![judge_runtime_dir(&runtime_directory())]
}

/// The path of a session socket below the runtime directory.
const SOCKET: &str = "/aifo-0123456789abcdef/front/exec.sock";
/// Bytes of a unix socket's path (`sun_path` without its NUL).
const MAX_ADDRESS: usize = 107;

fn judge_runtime_dir(directory: &Path) -> Finding {
    let length = directory.as_os_str().len() + SOCKET.len();
    let text = format!("{}, socket paths of {length} bytes", directory.display());
    match length {
        0..=MAX_ADDRESS => Finding::ok("runtime directory", text),
        _ => Finding::warn(
            "runtime directory",
            format!("{text}: too long for most clients"),
            "set XDG_RUNTIME_DIR, or TMPDIR, to a shorter path",
        ),
    }
}

fn killed() -> Vec<Finding> {
    let killed: Vec<_> = killed_sessions().into_iter().map(|session| session.id).collect();
    vec![match killed[..] {
        [] => Finding::ok("killed sessions", "none"),
        _ => Finding::warn(
            "killed sessions",
            format!("remains of {}", killed.join(", ")),
            "run: aifo-coder clean",
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn long_paths_are_reported() {
        assert_eq!(judge_runtime_dir(Path::new("/run/user/1000")).status, Status::Ok);
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(judge_runtime_dir(Path::new(&long)).status, Status::Warn);
    }
}
