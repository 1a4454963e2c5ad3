//! Checks before the agent starts that its shells find the shims (`spec/agents.md#self-check`).

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use std::{fmt, io};

use aifo_policy::{Policy, kinds};
use aifo_types::{Kind, ToolName, exit};

use crate::agent::{Agent, AgentEnvironment};
use crate::session::Session;

/// A problem: calls would bypass the sidecars, or fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimFinding {
    /// A shell finds another file under a tool name.
    Bypass {
        /// The shell's command line.
        shell: &'static str,
        /// The tool.
        tool: String,
        /// The path found, if any.
        found: Option<String>,
    },
    /// The sidecar did not run the tool.
    ToolFailed {
        /// The tool.
        tool: String,
        /// The last line of its stderr, or the error.
        message: String,
    },
}

impl fmt::Display for ShimFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShimFinding::Bypass { shell, tool, found: Some(found) } => write!(
                f,
                "'{shell}' finds {tool} at '{found}': what the agent runs by it bypasses aifo"
            ),
            ShimFinding::Bypass { shell, tool, found: None } => {
                write!(f, "'{shell}' does not find {tool}: it has another PATH than the agent")
            }
            ShimFinding::ToolFailed { tool, message } => {
                write!(f, "'{tool} --version' is not answered by its sidecar: {message}")
            }
        }
    }
}

/// Selects a tool of the first of these sidecars for a trial call.
pub(crate) fn probe<'a>(
    policy: &Policy,
    started: impl Iterator<Item = &'a Kind>,
) -> Option<ToolName> {
    let mut known = started.filter_map(|kind| {
        let spec = kinds().iter().find(|spec| spec.name == kind.as_str())?;
        let tool = spec.tools.first().unwrap_or(&"make");
        policy.kind_named(spec.name)?.allowance(tool)?;
        ToolName::parse(tool.as_bytes()).ok()
    });
    known.next()
}

/// Every session has a link of this name.
const ANY_TOOL: &str = "cargo";

/// Time limit of a shell or tool.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Agent {
    /// Checks that shells in the agent environment find the shims, and that a tool runs. May take
    /// a moment. Errors: no command can be started there.
    pub async fn check(&self, session: &Session) -> io::Result<Vec<ShimFinding>> {
        let environment = self.prepare(session)?;
        let probe = session.probe().map(ToolName::as_str);
        let tool = probe.unwrap_or(ANY_TOOL);
        let (plain, login, answered) = tokio::join!(
            check_shell(&environment, "sh -c", tool),
            check_shell(&environment, "bash -lc", tool),
            async {
                match probe {
                    Some(tool) => check_tool(&environment, tool).await,
                    None => None,
                }
            },
        );
        Ok([plain, login, answered].into_iter().flatten().collect())
    }
}

async fn check_shell(
    environment: &AgentEnvironment,
    shell: &'static str,
    tool: &str,
) -> Option<ShimFinding> {
    let (program, flag) = shell.split_once(' ')?;
    let output = run(environment, program, &[flag, &format!("command -v {tool}")]).await.ok()?;
    let there = output.status.code();
    if there == Some(exit::NOT_FOUND.into()) || there == Some(exit::NOTHING_RAN.into()) {
        // There is no such shell; or the call failed, which the trial call reports.
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The last line: a profile may print a greeting.
    let found = text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    let expected = environment.shims().join(tool);
    let is_shim = found.as_deref().is_some_and(|found| Path::new(found) == expected);
    (!is_shim).then(|| ShimFinding::Bypass { shell, tool: tool.to_owned(), found })
}

async fn check_tool(environment: &AgentEnvironment, tool: &str) -> Option<ShimFinding> {
    let failure = |message: String| ShimFinding::ToolFailed { tool: tool.to_owned(), message };
    let output = match run(environment, tool, &["--version"]).await {
        Ok(output) => output,
        Err(error) => return Some(failure(error.to_string())),
    };
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    let proxy_codes = [exit::NOTHING_RAN, exit::TIMED_OUT, exit::UNKNOWN, exit::NOT_EXECUTABLE];
    let ran = code.is_some_and(|code| !proxy_codes.contains(&code) && code != exit::NOT_FOUND);
    // The tool's own exit code does not matter.
    (!ran).then(|| {
        let message = String::from_utf8_lossy(&output.stderr);
        failure(message.lines().last().unwrap_or("no output").to_owned())
    })
}

/// Runs a command in the agent environment and collects its output.
async fn run(environment: &AgentEnvironment, program: &str, args: &[&str]) -> io::Result<Output> {
    let mut command = environment.command(OsStr::new(program));
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let in_time = tokio::time::timeout(TIMEOUT, command.output()).await;
    in_time.unwrap_or_else(|_| {
        let what = format!("no answer within {} s", TIMEOUT.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_a_tool_of_the_first_started_sidecar() {
        let policy = Policy::builtin();
        let kinds = |names: &[&str]| -> Vec<Kind> {
            names.iter().map(|name| Kind::parse(name).unwrap()).collect()
        };
        let probe = |names: &[&str]| {
            probe(&policy, kinds(names).iter()).map(|tool| tool.as_str().to_owned())
        };
        assert_eq!(probe(&["rust", "node"]).as_deref(), Some("cargo"));
        assert_eq!(probe(&["c-cpp"]).as_deref(), Some("make"));
        assert_eq!(probe(&["java", "go"]).as_deref(), Some("go"));
        assert_eq!(probe(&[]), None);
    }
}
