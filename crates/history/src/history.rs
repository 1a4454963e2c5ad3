//! The history of one session: a thread that makes checkpoints.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::HistoryError;
use crate::recorder::Recorder;
use crate::report::{UndoReport, UndoRequest};
use crate::shared::{HistoryConfig, Shared, State, Task};
use crate::version::Call;

/// The history of a session that runs. [`History::close`] ends it; dropping it loses what is not yet a checkpoint.
#[derive(Debug)]
pub struct History {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl History {
    /// Starts the thread, which takes the first checkpoint at once. `warn` takes a line for the user if no further
    /// checkpoints can be made. Errors: no thread can be started.
    pub fn start(
        config: HistoryConfig,
        warn: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, HistoryError> {
        let system = |source| HistoryError::System { action: "start the history", source };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| system(error.into()))?;
        let state = State { is_busy: true, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake, reports: OnceLock::new() });
        let for_thread = Arc::clone(&shared);
        let run = move || Recorder::run(&config, &for_thread, warn);
        let thread = std::thread::Builder::new().name("history".to_owned()).spawn(run);
        Ok(History { shared, thread: Mutex::new(Some(thread.map_err(system)?)) })
    }

    /// Notes that a call is about to start. Returns false if it can start at once; otherwise `ready` runs when its
    /// changes can be told from earlier ones.
    pub fn call_starts(&self, call: Call, ready: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.shared.state();
        if state.failure.is_some() {
            return false;
        }
        if self.shared.is_quiet(&state) {
            state.calls.push(call);
            return false;
        }
        self.shared.give(&mut state, Task::CallStarts(call, Box::new(ready)));
        true
    }

    /// Returns whether the first checkpoint is complete.
    pub fn has_started(&self) -> bool {
        self.shared.state().has_started
    }

    /// Notes that a call starts although its checkpoint is not made: earlier changes may be its own.
    pub fn call_starts_unready(&self, call: Call) {
        let mut state = self.shared.state();
        let waits = |task: &Task| matches!(task, Task::CallStarts(it, _) if it.id == call.id);
        let count = state.tasks.len();
        state.tasks.retain(|task| !waits(task));
        if state.tasks.len() == count {
            state.unready.insert(call.id.clone());
        }
        state.calls.push(call);
    }

    /// Notes that a call has ended, or has not started.
    pub fn call_ended(&self, id: &str, exit: u8) {
        let mut state = self.shared.state();
        if self.shared.is_quiet(&state) {
            state.calls.retain(|call| call.id != id);
            return;
        }
        let mut is_known = false;
        for call in state.calls.iter_mut().filter(|call| call.id == id) {
            call.exit = Some(exit);
            is_known = true;
        }
        if is_known {
            self.shared.give(&mut state, Task::CallEnded);
        }
    }

    /// Notes that a turn of the agent begins.
    pub fn turn_started(&self) {
        let mut state = self.shared.state();
        self.shared.give(&mut state, Task::TurnStarts);
    }

    /// Notes that a turn of the agent has ended.
    pub fn turn_ended(&self) {
        let mut state = self.shared.state();
        self.shared.give(&mut state, Task::TurnEnded);
    }

    /// Makes a checkpoint, and all checkpoints readable by others.
    pub fn query(&self, answer: impl FnOnce(Result<(), HistoryError>) + Send + 'static) {
        let mut state = self.shared.state();
        self.shared.give(&mut state, Task::Query(Box::new(answer)));
    }

    /// Undoes something, or says what an undo would do.
    pub fn undo(
        &self,
        request: UndoRequest,
        answer: impl FnOnce(Result<UndoReport, HistoryError>) + Send + 'static,
    ) {
        let mut state = self.shared.state();
        self.shared.give(&mut state, Task::Undo(request, Box::new(answer)));
    }

    /// Makes the last checkpoint and waits for its end.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.shared.give(&mut self.shared.state(), Task::Close);
            // A panic is in the log.
            let _ = thread.join();
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if self.thread.get_mut().is_ok_and(|thread| thread.is_some()) {
            self.shared.give(&mut self.shared.state(), Task::Close);
        }
    }
}
