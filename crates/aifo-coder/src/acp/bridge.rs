//! `aifo-coder acp`: relays between an editor and an agent (`spec/acp-commands.md#acp`).

use std::process::ExitCode;
use std::sync::Arc;

use aifo_acp::{MethodServer, PathMap, PathResolver, RelayConfig, RpcError, TerminalLogin, code};
use aifo_acp_io::{
    self, Bridge, FIRST_REQUEST, Stdio, WorkspaceHost, agent_failure, refuse_editor,
};
use aifo_agents::AGENT_VARIABLE_PREFIX;
use aifo_config::Config;
use aifo_host::EndSignals;
use aifo_launch::acp::{AcpAgent, BridgeEnd, own_commands, process_limits, serve_editor};
use aifo_terminal::console;
use aifo_types::exit;
use anyhow::Context;
use serde_json::json;

use crate::acp::agent_session::{Prepared, prepare};
use crate::acp::pod;
use crate::cli::{Acp, ServedBy, UserPresence};
use crate::code_of;
use crate::start::signal_exit_code;

pub(crate) async fn bridge(flags: Acp, name: Option<String>) -> anyhow::Result<ExitCode> {
    let mut signals = EndSignals::listen()?;
    match session(flags, name, &mut signals).await {
        Err(error) => Ok(refuse(&error, &mut signals).await),
        ended => ended,
    }
}

pub(crate) async fn in_pod(
    flags: &Acp,
    name: Option<&str>,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    match pod::acp(flags, name, config).await {
        Err(error) => Ok(refuse(&error, &mut EndSignals::listen()?).await),
        ended => ended,
    }
}

/// Reports a failed start on stderr, and to the editor as the answer to `initialize`.
async fn refuse(error: &anyhow::Error, signals: &mut EndSignals) -> ExitCode {
    console::fail(error);
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if let Ok(editor) = Stdio::start(&stdin, &stdout) {
        let error = editor_error(error);
        tokio::select! {
            () = refuse_editor(editor, &error, FIRST_REQUEST) => {}
            _ = signals.recv() => {}
        }
    }
    ExitCode::from(code_of(error, exit::NOTHING_RAN))
}

/// An error for an editor: `message` has the full text, `data` the cause and the hint.
fn editor_error(error: &anyhow::Error) -> RpcError {
    let text = console::error_chain(error);
    let (details, hint) = match text.split_once("\nhint: ") {
        Some((details, hint)) => (details, Some(hint)),
        None => (text.as_str(), None),
    };
    let data = json!({"details": details, "hint": hint});
    RpcError { data: Some(data), ..RpcError::new(code::INTERNAL, text) }
}

async fn session(
    mut flags: Acp,
    name: Option<String>,
    signals: &mut EndSignals,
) -> anyhow::Result<ExitCode> {
    flags.agent.user = UserPresence::Present;
    // Messages of the editor wait in the pipe until the session is up.
    let (agent_session, guard) = match prepare(flags.agent, name.as_deref(), signals).await? {
        Prepared::Ready(agent_session, guard) => (*agent_session, *guard),
        Prepared::DryRun => return Ok(ExitCode::SUCCESS),
        Prepared::Cancelled(signal) => return Ok(signal_exit_code(signal)),
    };
    let (name, judge, log) =
        (agent_session.name.clone(), agent_session.judge.clone(), agent_session.log.clone());
    let served = (flags.files, flags.terminals);
    let history = agent_session.history.clone();
    let started = start(agent_session, served, flags.allow_request, flags.editor_workspace);
    let bridge = match started {
        Ok(bridge) => bridge,
        Err(error) => {
            guard.close().await;
            return Err(error);
        }
    };
    let end = serve_editor(bridge, &judge, log.as_deref(), history.as_ref(), signals).await;
    guard.close().await;
    Ok(match end {
        BridgeEnd::EditorGone => ExitCode::SUCCESS,
        BridgeEnd::Signaled(signal) => signal_exit_code(signal),
        BridgeEnd::AgentGone { non_json, end } => {
            let why = agent_failure(&name, "the agent exited", &end, &non_json);
            console::fail(&anyhow::Error::msg(why));
            ExitCode::FAILURE
        }
    })
}

fn start(
    agent_session: AcpAgent,
    (files, terminals): (Option<ServedBy>, Option<ServedBy>),
    allowed_requests: Vec<String>,
    editor_workspace: Option<String>,
) -> anyhow::Result<Bridge<WorkspaceHost>> {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (workspace, tmp) = (text(&agent_session.workspace), text(&agent_session.tmp));
    // An editor of a pod's client has its files on another machine.
    let root = editor_workspace.unwrap_or_else(|| workspace.clone());
    let mut map = PathMap::default().map_directory(&root, &workspace);
    if let Some(alias) = agent_session.place.workspace_alias() {
        map = map
            .map_alias(&text(alias), &root)
            .map_directory(&tmp, &text(agent_session.place.tmp()));
    }
    let place = Arc::clone(&agent_session.judge.place);
    let config = RelayConfig {
        files: served(files, agent_session.profile.fs),
        terminal: served(terminals, agent_session.profile.terminal),
        map,
        remedy: format!(
            "it is not in the workspace '{root}'; start aifo-coder acp with --workspace, or in \
             that directory"
        ),
        roots: vec![root],
        resolver: PathResolver::new(move |path| {
            let path = place.host_path(path)?;
            path.into_os_string().into_string().map_err(|path| {
                let text = format!("'{}' is not UTF-8", path.display());
                RpcError::new(code::INVALID_PARAMS, text)
            })
        }),
        allowed_requests,
        terminal_login: Some(TerminalLogin {
            words: Acp::own_words(),
            variable_prefix: AGENT_VARIABLE_PREFIX.to_owned(),
        }),
        commands: own_commands(agent_session.history.as_ref()),
        ..RelayConfig::default()
    };
    let limits = process_limits(&agent_session.profile);
    let editor = || Stdio::start(&std::io::stdin(), &std::io::stdout());
    let program = agent_session.command.as_std().get_program().to_string_lossy().into_owned();
    let bridge = Bridge::start(
        agent_session.command,
        config,
        limits,
        agent_session.log,
        agent_session.hosts,
        editor,
    );
    bridge.with_context(|| format!("cannot start '{program}'"))
}

/// The user's choice, else the profile's.
fn served(flag: Option<ServedBy>, by_profile: bool) -> MethodServer {
    match flag {
        Some(ServedBy::Aifo) => MethodServer::Host,
        Some(ServedBy::Editor) => MethodServer::Editor,
        Some(ServedBy::None) => MethodServer::Neither,
        None if by_profile => MethodServer::Host,
        None => MethodServer::Neither,
    }
}
