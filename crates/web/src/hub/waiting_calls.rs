//! The calls that wait for approval, and the last ones that were answered.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use super::commands::ApiError;
use super::{Attention, Command, Hub, Inner};
use crate::clock::unix_ms;
use crate::view;
use crate::waiting_call::{CallAnswer, CallEnd, WaitingCall, call_id};

/// Waiting calls by their id on the page.
#[derive(Debug)]
pub(crate) struct ShownCalls {
    calls: BTreeMap<String, ShownCall>,
    last: u64,
    answers: mpsc::UnboundedSender<CallAnswer>,
}

#[derive(Debug)]
struct ShownCall {
    call: WaitingCall,
    /// The order of arrival.
    number: u64,
    /// The end, and when it was shown in milliseconds since 1970.
    end: Option<(CallEnd, u64)>,
}

/// Ended calls that are shown.
const MOST_ENDED: usize = 5;
/// How long an ended call is shown, in milliseconds.
const ENDED_MS: u64 = 60_000;

impl ShownCalls {
    pub(super) fn new(answers: mpsc::UnboundedSender<CallAnswer>) -> Self {
        ShownCalls { calls: BTreeMap::new(), last: 0, answers }
    }

    /// Returns the keys and HTML of the page.
    pub(super) fn html(&self) -> impl Iterator<Item = (String, String)> {
        self.calls.values().map(|ShownCall { call, number, end }| match end {
            // Before the permission requests, whose keys have one number.
            None => (format!("asks.0.{number}"), view::waiting_call(call)),
            Some((end, time)) => (format!("answered.{number}"), view::ended_call(call, end, *time)),
        })
    }

    /// Returns whether a call of this session waits.
    pub(super) fn waits(&self, session: &str) -> bool {
        self.calls.values().any(|shown| shown.end.is_none() && shown.call.session == session)
    }

    /// Returns whether this call waits.
    pub(super) fn is_waiting(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|shown| shown.end.is_none())
    }

    /// Removes ended calls that were shown for long enough. Returns whether there were any.
    fn forget(&mut self, now: u64) -> bool {
        let before = self.calls.len();
        let is_old = |time: u64| now.saturating_sub(time) > ENDED_MS;
        self.calls.retain(|_, shown| shown.end.as_ref().is_none_or(|(_, time)| !is_old(*time)));
        let ended = self.calls.iter().filter(|(_, shown)| shown.end.is_some());
        let mut ended: Vec<(u64, String)> =
            ended.map(|(id, shown)| (shown.number, id.clone())).collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(MOST_ENDED);
        for (_, id) in ended.into_iter().take(surplus) {
            self.calls.remove(&id);
        }
        self.calls.len() < before
    }
}

impl Hub {
    /// Shows a call, or its new state. A call that has ended stays ended.
    pub(crate) fn show_call(&self, call: WaitingCall) {
        let mut inner = self.lock();
        let id = call.id();
        match inner.calls.calls.get_mut(&id) {
            Some(shown) if shown.end.is_some() => return,
            Some(shown) => shown.call = call,
            None => {
                inner.calls.last = inner.calls.last.saturating_add(1);
                let number = inner.calls.last;
                let event = Attention::new(Some(id.clone()), "", &call.workspace, &call.command);
                inner.attend(event);
                inner.calls.calls.insert(id, ShownCall { call, number, end: None });
            }
        }
        self.flush(&mut inner, None);
    }

    /// Shows the end of a call.
    pub(crate) fn end_call(&self, session: &str, question: &str, end: CallEnd) {
        let mut inner = self.lock();
        let ends_turns = end.ends_turns;
        if let Some(shown) = inner.calls.calls.get_mut(&call_id(session, question))
            && shown.end.is_none()
        {
            shown.end = Some((end, unix_ms()));
        }
        inner.calls.forget(unix_ms());
        self.flush(&mut inner, None);
        drop(inner);
        if ends_turns {
            self.send(Command::CancelAll);
        }
    }

    /// Removes the waiting calls of a session.
    pub(crate) fn end_calls_of(&self, session: &str) {
        let mut inner = self.lock();
        inner.calls.calls.retain(|_, shown| shown.end.is_some() || shown.call.session != session);
        self.flush(&mut inner, None);
    }

    /// Removes ended calls that were shown for long enough.
    pub(crate) fn forget_calls(&self) {
        let mut inner = self.lock();
        if inner.calls.forget(unix_ms()) {
            self.flush(&mut inner, None);
        }
    }

    /// Sends a browser answer to a waiting call. `change` names the change that the browser shows.
    /// Returns the receiver of the result, or `None` if the call is unknown.
    pub(crate) fn answer_call(
        &self,
        id: &str,
        option: &str,
        change: Option<&str>,
    ) -> Option<Result<oneshot::Receiver<Result<(), String>>, ApiError>> {
        let inner = self.lock();
        let call = &inner.calls.calls.get(id)?.call;
        Some(inner.send_answer(call, option, change))
    }
}

impl Inner {
    fn send_answer(
        &self,
        call: &WaitingCall,
        option: &str,
        change: Option<&str>,
    ) -> Result<oneshot::Receiver<Result<(), String>>, ApiError> {
        if !call.options.iter().any(|(id, ..)| id == option) {
            return Err(ApiError::new(400, format!("a waiting call has no option '{option}'")));
        }
        let mut written = None;
        if option == ALWAYS {
            let shown = call.change.as_ref().map_err(|why| ApiError::new(409, why.clone()))?;
            if call.change_id().as_deref() != change {
                let why = "the file has changed: look at the new difference, and answer again";
                return Err(ApiError::new(409, why));
            }
            written = Some(shown.clone());
        }
        let (reply, result) = oneshot::channel();
        let (session, question) = (call.session.clone(), call.question.clone());
        let answer =
            CallAnswer { session, question, option: option.to_owned(), change: written, reply };
        match self.calls.answers.send(answer) {
            Ok(()) => Ok(result),
            Err(_) => Err(ApiError::new(503, "the server ends")),
        }
    }
}

/// The answer that changes the user's file.
const ALWAYS: &str = "always";
