//! What the clock does to a connection.

use std::time::Instant;

use super::Client;
use crate::event::{Event, Withdrawal};
use crate::failure::Failure;
use crate::permission::Decision;
use crate::turn::Due;
use crate::turn_end::CancelCause;

impl Client {
    /// UpdateScope [`handle_timeout`](Client::handle_timeout) next has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let idle = self.idle();
        let turns = self.sessions.values().filter_map(|session| session.poll_timeout(idle));
        let others = [self.pending.poll_timeout(), self.agent_requests.poll_timeout()];
        turns.chain(others.into_iter().flatten()).min()
    }

    /// Does what is due. Earlier than asked for, it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some((request, sent)) = self.pending.expire(now) {
            self.complete(request, sent, Err(Failure::TimedOut));
        }
        while let Some((id, session)) = self.agent_requests.expired(now) {
            // A turn is told first, and with that everything it waits for is answered.
            self.cancel(&session, CancelCause::PermissionTimeout, now);
            if self.answer_permission(&id, &Decision::Cancelled) {
                self.events.push_back(Event::Withdrawn { id, why: Withdrawal::TimedOut });
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

    /// UpdateScope the agent has been quiet for too long; never, as long as something is owed to it.
    fn idle(&self) -> Option<Instant> {
        let is_waiting_for_us = self.agent_requests.len() > 0;
        (!is_waiting_for_us)
            .then(|| self.last_activity.checked_add(self.config.limits.prompt_idle))
            .flatten()
    }
}
