//! The frontends of a session at which users answer questions about calls (`spec/questions.md`).

use std::io;
use std::path::PathBuf;

use aifo_host::{SessionHistory, SessionInfo, control_socket, user_command};
use aifo_proxy::CallApprovals;
use aifo_types::Token;
use tokio::task::JoinSet;

use crate::ask_command::run_ask_command;
use crate::config::SessionConfig;

/// Returns the session's approvals. With a judge or a history, `tasks` serve the control socket; with a judge they
/// run the user's program.
pub(crate) fn open(
    config: &SessionConfig,
    shared: Vec<Vec<PathBuf>>,
    (session, token): (&SessionInfo, &Token),
    history: Option<SessionHistory>,
    tasks: &mut JoinSet<()>,
) -> io::Result<CallApprovals> {
    let judge = config.judge.clone();
    let command = user_command("approve");
    let approvals = CallApprovals::new(judge, shared, config.ask_timeout, &config.limits, command);
    if approvals.has_judge() || history.is_some() {
        let served = (approvals.clone(), history);
        tasks.spawn(control_socket::serve(session, served, token.clone())?);
    }
    if let Some(program) = config.ask_command.clone().filter(|_| approvals.has_judge()) {
        tasks.spawn(run_ask_command(approvals.clone(), session.id.clone(), program));
    }
    Ok(approvals)
}
