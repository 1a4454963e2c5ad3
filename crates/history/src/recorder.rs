//! The thread that makes checkpoints.

use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::capture::Capture;
use crate::checkpoint::{Cause, Note};
use crate::commit::Commit;
use crate::error::HistoryError;
use crate::retention::InUse;
use crate::shared::{HistoryConfig, Shared, Task, ended};
use crate::version::Objects;
use crate::writer::Writer;

/// The thread's state.
pub(crate) struct Recorder<'a> {
    pub(crate) config: &'a HistoryConfig,
    pub(crate) shared: &'a Shared,
    pub(crate) capture: Capture,
    writer: Writer,
    in_use: InUse,
    /// When the tree was last reported to change.
    changed: Option<Instant>,
    /// Since when there are checkpoints that only this process can read.
    unflushed: Option<Instant>,
    turns: u32,
}

/// The tree counts as quiet after this time without changes.
const QUIET: Duration = Duration::from_secs(3);
/// Reports are taken this long after the first, many at a time.
const GATHER: Duration = Duration::from_millis(50);
/// The checkpoints of this time are lost if this process and git are killed together.
const FLUSH: Duration = Duration::from_secs(30);

impl<'a> Recorder<'a> {
    /// Serves a history to its end.
    pub(crate) fn run(config: &'a HistoryConfig, shared: &'a Shared, warn: impl Fn(&str)) {
        let _ended = EndedThread(shared);
        let served = Recorder::start(config, shared).and_then(|mut recorder| {
            recorder.serve()?;
            let Recorder { writer, in_use, .. } = recorder;
            writer.close()?;
            config.store.tidy(in_use)
        });
        if let Err(error) = served {
            warn(&format!("{error}; changes from now on cannot be undone"));
            shared.fail(&error.to_string());
            refuse(shared, &error.to_string());
        }
    }

    fn start(config: &'a HistoryConfig, shared: &'a Shared) -> Result<Self, HistoryError> {
        let store = &config.store;
        store.create()?;
        let in_use = store.mark_in_use();
        // An earlier session that is damaged must not end this one.
        let sessions = store.sessions().unwrap_or_default();
        let is_continued = sessions.contains(&config.session);
        let last = match is_continued {
            true => Some(&config.session),
            false => sessions.first(),
        };
        let checkpoints = match last {
            Some(session) if is_continued => store.checkpoints(session)?,
            Some(session) => store.checkpoints(session).unwrap_or_default(),
            None => Vec::new(),
        };
        let turns = match is_continued {
            true => checkpoints.iter().filter_map(|it| it.note.turn).max().unwrap_or_default(),
            false => 0,
        };
        let last = checkpoints.into_iter().next_back();
        let objects = match &last {
            Some(last) if is_continued => store.objects(&last.id)?,
            Some(last) => store.objects(&last.id).unwrap_or_default(),
            None => Objects::new(),
        };
        let stored = objects.values().filter_map(|version| version.content()).collect();
        let (parent, objects) = match is_continued {
            true => (last.map(|last| last.id), objects),
            false => (None, Objects::new()),
        };
        let capture = Capture::new(&config.workspace, config.with_secrets, objects, stored)?;
        let writer = Writer::start(store, &config.session, parent)?;
        if let Some(watch) = capture.watch() {
            let system = |source| HistoryError::System { action: "watch the workspace", source };
            let _ = shared.reports.set(watch.as_fd().try_clone_to_owned().map_err(system)?);
        }
        let (changed, unflushed) = (None, None);
        let mut recorder =
            Recorder { config, shared, capture, writer, in_use, changed, unflushed, turns };
        recorder.checkpoint(Cause::Start)?;
        recorder.flush()?;
        shared.state().has_started = true;
        Ok(recorder)
    }

    fn serve(&mut self) -> Result<(), HistoryError> {
        loop {
            let has_reports = self.wait();
            self.shared.set_busy(true);
            if has_reports && self.capture.take_reports() {
                self.changed = Some(Instant::now());
            }
            while let Some(task) = self.shared.next_task() {
                if matches!(task, Task::Close) {
                    self.capture.scan_next();
                    return self.checkpoint(Cause::End).map(drop);
                }
                self.serve_task(task)?;
            }
            if self.changed.is_some_and(|at| at.elapsed() >= QUIET) {
                self.checkpoint(Cause::Quiet)?;
            }
            if self.unflushed.is_some_and(|at| at.elapsed() >= FLUSH) {
                self.flush()?;
            }
            self.shared.set_busy(self.capture.may_have_changed());
        }
    }

    /// Waits for a task, for reports or for the next thing to do; returns whether there are reports.
    fn wait(&self) -> bool {
        let until = |at: Option<Instant>, after| {
            at.map(|at: Instant| (at + after).saturating_duration_since(Instant::now()))
        };
        let times = [until(self.changed, QUIET), until(self.unflushed, FLUSH)];
        let timeout = times.into_iter().flatten().min();
        let reports = self.capture.watch().map(AsFd::as_fd);
        let mut fds = vec![PollFd::new(self.shared.wake(), PollFlags::POLLIN)];
        fds.extend(reports.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        wait_for(&mut fds, timeout);
        let is_ready = |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::any).unwrap_or(false);
        let has_reports = is_ready(fds.get(1));
        if has_reports && !is_ready(fds.first()) {
            wait_for(&mut [PollFd::new(self.shared.wake(), PollFlags::POLLIN)], Some(GATHER));
        }
        self.shared.clear_wake();
        has_reports
    }

    fn serve_task(&mut self, task: Task) -> Result<(), HistoryError> {
        let cause = task.cause();
        match task {
            Task::CallStarts(call, ready) => {
                self.checkpoint(cause)?;
                let mut state = self.shared.state();
                if !state.unready.remove(&call.id) {
                    state.calls.push(call);
                }
                drop(state);
                ready();
            }
            Task::CallEnded | Task::Close => {
                self.checkpoint(cause)?;
            }
            Task::TurnStarts => {
                self.checkpoint(cause)?;
                self.turns += 1;
                self.shared.state().turn = Some(self.turns);
            }
            Task::TurnEnded => {
                // Writes through a shared mapping or another hard link are not reported.
                self.readable_checkpoint(cause)?;
                self.shared.state().turn = None;
            }
            Task::Query(answer) => {
                let made = self.readable_checkpoint(cause);
                answer(said(&made));
                made?;
            }
            Task::Undo(request, answer) => match self.readable_checkpoint(cause) {
                Ok(()) => answer(self.undo(&request)),
                made => {
                    answer(said(&made).and(Err(HistoryError::Ended)));
                    made?;
                }
            },
        }
        Ok(())
    }

    /// Looks at everything, and makes all checkpoints readable by others.
    fn readable_checkpoint(&mut self, cause: Cause) -> Result<(), HistoryError> {
        self.capture.scan_next();
        self.checkpoint(cause)?;
        self.flush()
    }

    /// Makes a checkpoint of what has changed; none if nothing has.
    pub(crate) fn checkpoint(&mut self, cause: Cause) -> Result<(), HistoryError> {
        let (calls, turn) = {
            let state = self.shared.state();
            (state.calls.clone(), state.turn)
        };
        self.changed = None;
        if self.capture.take_reports() || self.capture.may_have_changed() {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let note = Note { time, cause, calls: calls.clone(), turn };
            let mut commit = Commit { writer: &mut self.writer, note, has_begun: false };
            if cause == Cause::Start {
                commit.begin()?;
            }
            self.capture.update(&mut commit)?;
            if commit.has_begun {
                self.writer.end()?;
                self.unflushed.get_or_insert_with(Instant::now);
            }
        }
        // The changes of a call that had ended before are in this checkpoint.
        let ended = ended(&calls);
        self.shared.state().calls.retain(|call| !ended.contains(&call.id));
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), HistoryError> {
        match self.unflushed.take() {
            Some(_) => self.writer.flush(),
            None => Ok(()),
        }
    }
}

/// Returns the error for a caller; the thread ends with the same one.
fn said(made: &Result<(), HistoryError>) -> Result<(), HistoryError> {
    made.as_ref().copied().map_err(|error| HistoryError::Unknown(error.to_string()))
}

fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        // Rounded up: zero would ask again and again.
        let millis = i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    // A signal ends it early, which does no harm.
    let _ = poll(fds, timeout);
}

/// Lets no caller wait for a thread that has ended, even by a panic.
struct EndedThread<'a>(&'a Shared);

impl Drop for EndedThread<'_> {
    fn drop(&mut self) {
        self.0.fail("the thread that makes checkpoints has ended");
        // Their callers find that nobody answers.
        while self.0.next_task().is_some() {}
    }
}

/// Answers the tasks of a history that has failed, until it is closed.
fn refuse(shared: &Shared, why: &str) {
    while !shared.state().is_closing {
        wait_for(&mut [PollFd::new(shared.wake(), PollFlags::POLLIN)], None);
        shared.clear_wake();
        while let Some(task) = shared.next_task() {
            match task {
                Task::CallStarts(_, ready) => ready(),
                Task::CallEnded | Task::TurnStarts | Task::TurnEnded => {}
                Task::Query(answer) => answer(Err(HistoryError::Unknown(why.to_owned()))),
                Task::Undo(_, answer) => answer(Err(HistoryError::Unknown(why.to_owned()))),
                Task::Close => return,
            }
        }
    }
}
