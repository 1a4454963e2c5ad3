//! The state that a thread and its callers share.

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::eventfd::EventFd;

use crate::checkpoint::Cause;
use crate::error::HistoryError;
use crate::git::Store;
use crate::report::{UndoReport, UndoRequest};
use crate::version::Call;
use crate::watch::is_readable;

/// The workspace and session that a history covers.
#[derive(Clone, Debug)]
pub struct HistoryConfig {
    /// The project's store; it is created if it is missing.
    pub store: Store,
    /// The session's id. Another history of the same session is continued.
    pub session: String,
    /// The workspace, a real path.
    pub workspace: PathBuf,
    /// Also covers files with the names of secrets.
    pub with_secrets: bool,
}

/// Runs when a checkpoint has been made.
pub(crate) type Ready = Box<dyn FnOnce() + Send>;
pub(crate) type Answer<T> = Box<dyn FnOnce(Result<T, HistoryError>) + Send>;

/// A task for the thread.
pub(crate) enum Task {
    CallStarts(Call, Ready),
    CallEnded,
    TurnStarts,
    TurnEnded,
    Query(Answer<()>),
    Undo(UndoRequest, Answer<UndoReport>),
    Close,
}

/// The state of a thread and its callers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) wake: EventFd,
    /// The kernel's reports, once the thread has started to watch.
    pub(crate) reports: OnceLock<OwnedFd>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) tasks: VecDeque<Task>,
    /// The thread is at work, or has reports that are not yet a checkpoint.
    pub(crate) is_busy: bool,
    /// The calls that have run since the last checkpoint.
    pub(crate) calls: Vec<Call>,
    /// The agent's turn.
    pub(crate) turn: Option<u32>,
    /// The first checkpoint is complete.
    pub(crate) has_started: bool,
    /// Why there are no further checkpoints.
    pub(crate) failure: Option<String>,
    /// The last task was given.
    pub(crate) is_closing: bool,
    /// Calls that did not wait for their checkpoint, while it was being made.
    pub(crate) unready: HashSet<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether nothing has changed since the last checkpoint. The reports first: the thread is busy before
    /// it takes one.
    pub(crate) fn is_quiet(&self, state: &State) -> bool {
        let reports = self.reports.get();
        reports.is_some_and(|reports| !is_readable(reports.as_fd()))
            && !state.is_busy
            && state.tasks.is_empty()
    }

    pub(crate) fn give(&self, state: &mut State, task: Task) {
        state.is_closing |= matches!(task, Task::Close);
        state.tasks.push_back(task);
        // It fails only if the thread is awake and has not read for ages.
        let _ = self.wake.write(1);
    }

    /// From now on no call waits.
    pub(crate) fn fail(&self, why: &str) {
        let mut state = self.state();
        state.failure.get_or_insert_with(|| why.to_owned());
    }

    pub(crate) fn next_task(&self) -> Option<Task> {
        self.state().tasks.pop_front()
    }

    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub(crate) fn clear_wake(&self) {
        let _ = self.wake.read();
    }

    /// Sets whether callers must wait for the thread.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.state().is_busy = is_busy;
    }
}

/// The ids of ended calls among those.
pub(crate) fn ended(calls: &[Call]) -> HashSet<String> {
    calls.iter().filter(|call| call.exit.is_some()).map(|call| call.id.clone()).collect()
}

/// Why a checkpoint is made, for each task.
impl Task {
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Task::CallStarts(..) => Cause::Call,
            Task::CallEnded => Cause::CallEnd,
            Task::TurnStarts => Cause::Turn,
            Task::TurnEnded => Cause::TurnEnd,
            Task::Query(_) | Task::Undo(..) => Cause::Query,
            Task::Close => Cause::End,
        }
    }
}
