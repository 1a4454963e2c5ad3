//! The history of a session on this machine (`spec/history.md`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aifo_engine::MissingProgram;
use aifo_history::{Call, History, HistoryConfig, HistoryError, Store, UndoReport, UndoRequest};
use aifo_proxy::{CallRecord, Checkpoints, Ready};
use tokio::sync::oneshot;

use crate::own_directories::state_directory;
use crate::project::key_of;
use crate::trusted::TrustedPrograms;

/// The settings for a history.
#[derive(Clone, Debug)]
pub struct HistorySettings {
    /// The workspace's store.
    pub store: Store,
    /// Also covers files with the names of secrets.
    pub with_secrets: bool,
}

/// The checkpoints of a running session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionHistory(Arc<History>);

/// The longest time that a call waits for the checkpoint before it.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Returns the directory of a workspace's store; `None` without a home.
fn history_directory(workspace: &Path) -> Option<PathBuf> {
    let key = key_of(workspace);
    state_directory().map(|state| state.join("history").join(key.as_str()))
}

/// Returns a workspace's store; `None` without a home. Errors: there is no trusted git.
pub fn history_store(
    workspace: &Path,
    programs: &TrustedPrograms,
) -> Result<Option<Store>, MissingProgram> {
    let git = programs.program("git")?;
    Ok(history_directory(workspace).map(|directory| Store::new(git, programs.path(), directory)))
}

impl SessionHistory {
    /// Starts to make checkpoints.
    pub fn start(
        settings: HistorySettings,
        session: &str,
        workspace: &Path,
    ) -> Result<Self, HistoryError> {
        let HistorySettings { store, with_secrets } = settings;
        let (session, workspace) = (session.to_owned(), workspace.to_owned());
        let config = HistoryConfig { store, session, workspace, with_secrets };
        let history = History::start(config, |line| tracing::warn!("{line}"))?;
        Ok(SessionHistory(Arc::new(history)))
    }

    /// Notes that a turn of the agent begins.
    pub fn turn_started(&self) {
        self.0.turn_started();
    }

    /// Notes that a turn of the agent has ended.
    pub fn turn_ended(&self) {
        self.0.turn_ended();
    }

    /// Makes a checkpoint, and waits until other processes can read all.
    pub async fn checkpoint(&self) -> Result<(), HistoryError> {
        let (sender, answer) = oneshot::channel();
        self.0.query(move |answered| drop(sender.send(answered)));
        answer.await.unwrap_or(Err(HistoryError::Ended))
    }

    /// Undoes something, or says what an undo would do.
    pub async fn undo(&self, request: UndoRequest) -> Result<UndoReport, HistoryError> {
        let (sender, answer) = oneshot::channel();
        self.0.undo(request, move |answered| drop(sender.send(answered)));
        answer.await.unwrap_or(Err(HistoryError::Ended))
    }

    /// Makes the last checkpoint.
    pub async fn close(self) {
        // It waits for a thread. A panic there is in the log.
        let _ = tokio::task::spawn_blocking(move || self.0.close()).await;
    }
}

impl Checkpoints for SessionHistory {
    fn call_starts(&self, call: &CallRecord) -> Option<Ready> {
        let call = Call {
            id: call.exec_id.clone(),
            tool: call.tool.clone(),
            argv: call.argv.clone(),
            exit: None,
        };
        let (sender, ready) = oneshot::channel();
        let waits = self.0.call_starts(call.clone(), move || {
            // The waiter may have gone.
            let _ = sender.send(());
        });
        let history = Arc::clone(&self.0);
        waits.then(|| -> Ready {
            Box::pin(async move {
                if tokio::time::timeout(MAX_WAIT, ready).await.is_err() {
                    let command = call.command();
                    match history.has_started() {
                        true => {
                            tracing::info!("a call did not wait for its checkpoint: {command}");
                        }
                        false => tracing::warn!(
                            "a call started before the first checkpoint was complete, so its changes may be lost to \
                             an undo: {command}"
                        ),
                    }
                    history.call_starts_unready(call);
                }
            })
        })
    }

    fn call_ended(&self, call: &CallRecord) {
        self.0.call_ended(&call.exec_id, call.exit_code);
    }
}
