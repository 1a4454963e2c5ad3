//! Timeouts of a connection.

use std::time::Instant;

use super::Client;
use crate::event::{Event, RequestEvent, Withdrawal};
use crate::failure::Failure;
use crate::permission::PermissionOutcome;
use crate::turn::Due;
use crate::turn_end::CancelCause;

impl Client {
    /// Returns the time at which [`handle_timeout`](Client::handle_timeout) has work to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let idle = self.idle();
        let turns = self.sessions.values().filter_map(|session| session.poll_timeout(idle));
        let others = [self.agent.sent.poll_timeout(), self.agent.received.poll_timeout()];
        turns.chain(others.into_iter().flatten()).min()
    }

    /// Handles expired deadlines. Does nothing if called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some((request, sent)) = self.agent.sent.expire(now) {
            self.complete(request, sent, Err(Failure::TimedOut));
        }
        while let Some((id, session)) = self.agent.received.expired(now) {
            // `session/cancel` goes first, then the answers to the turn's permission requests.
            self.cancel(&session, CancelCause::PermissionTimeout, now);
            if self.answer_permission(&id, &PermissionOutcome::Cancelled) {
                self.events.push_back(Event::Request(RequestEvent::Withdrawn {
                    id,
                    why: Withdrawal::TimedOut,
                }));
            }
        }
        let idle = self.idle();
        let due: Vec<(String, Due)> = self
            .sessions
            .values_mut()
            .filter_map(|session| Some((session.id().to_owned(), session.due(now, idle)?)))
            .collect();
        for (session, due) in due {
            match due {
                Due::Cancel(cause) => _ = self.cancel(&session, cause, now),
                Due::Overdue => self.events.push_back(Event::Overdue { session }),
                Due::Drained => self.end_turn(&session),
            }
        }
    }

    /// Returns when the agent has been idle for too long; `None` while it waits for an answer.
    fn idle(&self) -> Option<Instant> {
        let has_pending_request = self.agent.received.len() > 0;
        (!has_pending_request)
            .then(|| self.last_activity.checked_add(self.config.limits.prompt_idle))
            .flatten()
    }
}
