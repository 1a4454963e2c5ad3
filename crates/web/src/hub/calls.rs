//! The running sessions of this user, and their calls.

use std::path::PathBuf;

use super::{Hub, Inner};
use crate::block::ToolRun;
use crate::call_log::{CallLog, RunningSession};
use crate::page_state::PageState;

impl Hub {
    /// Takes the running sessions, and brings the shown timelines up to date.
    pub(crate) fn set_running(&self, running: Vec<RunningSession>) {
        let mut inner = self.lock();
        inner.running = running;
        _ = inner.timeline(OWN);
        for id in inner.timelines.keys().cloned().collect::<Vec<_>>() {
            inner.update_timeline(&id);
        }
        self.flush(&mut inner, None);
    }
}

impl Inner {
    /// Returns the timeline of a session that runs or has been shown. [`OWN`] is this server's.
    pub(crate) fn timeline(&mut self, id: &str) -> Option<&PageState> {
        if !self.timelines.contains_key(id) {
            if self.timelines.len() >= MOST_TIMELINES {
                return None;
            }
            let log = match self.find_running(id) {
                Some(session) => session.log.clone(),
                // The agent has not been started.
                None if id == OWN => return Some(&self.no_calls),
                None => return None,
            };
            self.open_timeline(id, log);
            self.update_timeline(id);
        }
        self.timelines.get(id).map(|log| &log.page)
    }

    fn open_timeline(&mut self, id: &str, log: PathBuf) {
        let source = (self.open_log)(log.clone());
        self.timelines.insert(id.to_owned(), CallLog::new(log, source, self.seq));
    }

    fn update_timeline(&mut self, id: &str) {
        let found = self.find_running(id).cloned();
        let (tools, log) = found.map(|session| (session.tools, session.log)).unwrap_or_default();
        // The agent was started again, in a new session.
        if id == OWN
            && !log.as_os_str().is_empty()
            && self.timelines.get(id).is_some_and(|shown| shown.path() != log)
        {
            self.open_timeline(id, log);
        }
        let Some(log) = self.timelines.get_mut(id) else { return };
        let new = log.update(&mut self.seq, &tools);
        if id != OWN {
            return;
        }
        let new = new.into_iter().map(|(time, run)| EarlyRun { time, run, tries: 0 });
        let runs: Vec<EarlyRun> = self.early_runs.drain(..).chain(new).collect();
        for run in runs {
            self.match_run(run);
        }
    }

    /// Shows a run with the tool call that caused it, or keeps it for the next update.
    fn match_run(&mut self, run: EarlyRun) {
        let states = self.sessions.values_mut().filter_map(|slot| slot.loaded.as_mut());
        let mut found = states.filter_map(|loaded| {
            let call = loaded.state.only_call_at(run.time)?;
            Some((&mut loaded.state, call))
        });
        match (found.next(), found.next()) {
            (Some((state, call)), None) => state.add_run(&call, run.run),
            (None, _) if run.tries < MOST_TRIES => {
                self.early_runs.push(EarlyRun { tries: run.tries.saturating_add(1), ..run });
            }
            // With two candidates it is not known which of them called the tool.
            _ => {}
        }
    }

    fn find_running(&self, id: &str) -> Option<&RunningSession> {
        let own = std::process::id();
        self.running.iter().find(|session| session.id == id || (id == OWN && session.pid == own))
    }
}

/// A call of the log that is shown with a tool call.
#[derive(Debug)]
pub(super) struct EarlyRun {
    /// When it started, in milliseconds since 1970.
    time: u64,
    run: ToolRun,
    tries: u8,
}

/// Updates of the timeline within which the agent has to report the tool call.
const MOST_TRIES: u8 = 3;

/// Stands for the session of this server's agent.
const OWN: &str = "own";
/// Sessions whose timelines are kept.
const MOST_TIMELINES: usize = 64;
