//! A session's agent that speaks ACP, before it starts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp::ClientCapabilities;
use aifo_acp_io::{
    Files, TerminalCommand, TerminalConfig, Terminals, WireLog, WireLogLimits, Workspace,
    WorkspaceHost, Writing,
};
use aifo_agents::{AGENT_VARIABLE_PREFIX, AcpProfile, AgentSpec, agent_variables};
use aifo_host::SessionHistory;
use aifo_policy::Judge;
use aifo_types::{FileId, names_secret};
use tokio::process::Command;

use super::judge::{AgentRequest, PermissionJudge};
use super::profile::missing_file;
use crate::agent::{Agent, AgentEnvironment};
use crate::session::Session;

/// The agent to prepare.
pub struct AcpRequest<'a> {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Its row in the table of agents.
    pub spec: Option<&'a AgentSpec>,
    /// How it speaks ACP.
    pub profile: AcpProfile,
    /// The rules on its requests.
    pub rules: Arc<Judge>,
    /// The directory of a log with all messages.
    pub wire_log: Option<&'a Path>,
    /// Its working directory.
    pub cwd: PathBuf,
}

/// An agent that is ready to start, with its hosts, permission rules and log.
pub struct AcpAgent {
    /// Its name.
    pub name: String,
    /// The command that starts it.
    pub command: Command,
    /// How it speaks ACP.
    pub profile: AcpProfile,
    /// The files and terminals that it is served.
    pub hosts: WorkspaceHost,
    /// Decides its requests.
    pub judge: PermissionJudge,
    /// The log of messages.
    pub log: Option<Arc<WireLog>>,
    /// Its working directory; the same path in its container.
    pub cwd: PathBuf,
    /// The workspace.
    pub workspace: PathBuf,
    /// The session's temporary directory.
    pub tmp: PathBuf,
    /// Where it runs.
    pub place: AgentEnvironment,
    /// The session's checkpoints, if there are any.
    pub history: Option<SessionHistory>,
}

/// An agent that speaks ACP cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum AcpError {
    /// The command is empty.
    #[error("there is no agent to run")]
    NoCommand,
    /// Its environment cannot be entered.
    #[error("cannot enter the agent's environment")]
    Environment(#[source] io::Error),
    /// The log of messages cannot be written.
    #[error("cannot write a log in '{}'", directory.display())]
    WireLog {
        /// Its directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The workspace cannot be opened.
    #[error("cannot open '{}'", workspace.display())]
    Workspace {
        /// Its path.
        workspace: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl AcpAgent {
    /// Prepares a session's agent: its command, hosts and rules. It starts nothing.
    pub fn prepare(
        session: &Session,
        agent: &Agent,
        request: AcpRequest<'_>,
    ) -> Result<Self, AcpError> {
        let AcpRequest { name, command, spec, profile, rules, wire_log, cwd } = request;
        let place = agent.prepare(session).map_err(AcpError::Environment)?;
        let (program, args) = command.split_first().ok_or(AcpError::NoCommand)?;
        let mut command = place.command_with(program, &profile.set);
        command.args(args).current_dir(&cwd);
        let workspace = session.workspace().to_owned();
        let alias = place.workspace_alias().map(Path::to_owned);
        let log = wire_log.map(|directory| {
            let (limits, secrets) = (WireLogLimits::default(), secrets(session, spec));
            let log = WireLog::open(directory, limits, &name, secrets);
            log.map(Arc::new).map_err(|source| {
                let directory = directory.to_owned();
                AcpError::WireLog { directory, source }
            })
        });
        let log = log.transpose()?;
        let opened = Workspace::open(workspace.clone(), alias.clone()).map_err(|source| {
            let workspace = workspace.clone();
            AcpError::Workspace { workspace, source }
        })?;
        let opened = Arc::new(opened);
        let judge = PermissionJudge {
            rules,
            allow_option: profile.allow_option.clone(),
            workspace: alias.iter().cloned().chain([workspace.clone()]).collect(),
            place: Arc::clone(&opened),
            cwd: cwd.clone(),
            approvals: session.approvals(),
            shims: session.shims(),
        };
        let files = Files::new(Arc::clone(&opened), missing_file(&profile), Writing::Served);
        let for_files = judge.clone();
        let files = files.with_judge(Arc::new(move |access, path, real| {
            for_files.serve(AgentRequest::File(access, path, real))
        }));
        let hosts = WorkspaceHost {
            files: Arc::new(files),
            terminals: terminals(opened, &cwd, &place, &judge),
            capabilities: ClientCapabilities {
                read_text_file: profile.fs,
                write_text_file: profile.fs,
                terminal: profile.terminal,
            },
        };
        let (tmp, history) = (session.tmp().to_owned(), session.history());
        Ok(AcpAgent {
            name,
            command,
            profile,
            hosts,
            judge,
            log,
            cwd,
            workspace,
            tmp,
            place,
            history,
        })
    }
}

/// Terminals in the agent environment, for commands that no rule denies.
fn terminals(
    workspace: Arc<Workspace>,
    cwd: &Path,
    place: &AgentEnvironment,
    judge: &PermissionJudge,
) -> Terminals {
    let (place, judge) = (place.clone(), judge.clone());
    let shim = place.shim().to_string_lossy().into_owned();
    let cwd = cwd.to_string_lossy();
    let in_place = move |program: &OsStr, variables: &[(String, String)]| {
        Ok(place.command_with(program, variables))
    };
    let mut config = TerminalConfig::new(workspace, cwd, Arc::new(in_place));
    config.without_network = [shim, "--without-network".to_owned()];
    config.judge = Arc::new(move |command: &TerminalCommand, real: (&Path, FileId)| {
        judge.terminal(command, real)
    });
    Terminals::new(config)
}

/// Values that logs must not contain: the session token and the agent's credentials.
fn secrets(session: &Session, spec: Option<&AgentSpec>) -> Vec<String> {
    let text = |value: OsString| value.into_string().ok();
    let own = session.variables().into_iter().map(|(name, value)| (name.to_owned(), text(value)));
    let known = spec.iter().flat_map(|spec| spec.variables.iter().cloned());
    let agents = known.chain(agent_variables()).flat_map(|name| {
        let given = std::env::var(format!("{AGENT_VARIABLE_PREFIX}{name}")).ok();
        [(name.clone(), std::env::var(&name).ok()), (name, given)]
    });
    let all = own.chain(agents).filter(|(name, _)| names_secret(name.as_bytes()));
    all.filter_map(|(_, value)| value).collect()
}
