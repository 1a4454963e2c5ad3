//! Finds the call that a refused connection or query belongs to (`spec/network.md#callers`).

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use aifo_egress::ConnectionEvent;
use aifo_proxy::{RunningTable, RunningTool};
use aifo_sidecar::Fleet;
use aifo_types::Kind;
use aifo_wire::{OnlyCall, SocketType};
use tokio::task::JoinSet;

use crate::tool_stacks::ToolStacks;

/// Asks the runners of a stack. A refusal waits for it, so it is bounded.
#[derive(Debug)]
pub struct CallerFinder {
    /// The fleet's backend has the stacks, which have this.
    fleet: Weak<Fleet>,
    running: RunningTable,
    stacks: ToolStacks,
    /// The kinds whose tools are in another network.
    outside: BTreeSet<Kind>,
    budget: Mutex<Budget>,
}

/// The requests that may be made now. A search takes a runner about a millisecond.
#[derive(Debug)]
struct Budget {
    left: u32,
    filled: Instant,
    /// The calls and refusals that were asked for.
    asked: HashSet<(String, String)>,
}

/// Requests at once, and further ones per second.
const BURST: u32 = 64;
const PER_SECOND: u32 = 32;

/// Pairs of a call and a refusal that are kept.
const MAX_ASKED: usize = 1024;

/// The longest time that a refusal waits. A runner that starts a tool replies later.
const TIMEOUT: Duration = Duration::from_millis(200);

impl CallerFinder {
    /// Returns the finder of a session's tools. `outside` are the kinds without a stack.
    pub fn new(
        fleet: &Arc<Fleet>,
        running: RunningTable,
        stacks: ToolStacks,
        outside: BTreeSet<Kind>,
    ) -> Self {
        let budget = Budget { left: BURST, filled: Instant::now(), asked: HashSet::new() };
        let fleet = Arc::downgrade(fleet);
        CallerFinder { fleet, running, stacks, outside, budget: Mutex::new(budget) }
    }

    /// Returns the only call of a stack of tools.
    pub(crate) fn only(&self, stack: &str) -> Option<RunningTool> {
        self.running.only(|tool| Kind::parse(&tool.kind).is_ok_and(|kind| self.is_in(&kind, stack)))
    }

    /// Returns whether a kind's tools are in a stack.
    fn is_in(&self, kind: &Kind, stack: &str) -> bool {
        self.stacks.name_of(kind) == Some(stack) && !self.outside.contains(kind)
    }

    /// Returns a future that finds the caller of a refused event, and has its runner keep `text` for the
    /// call's client. `None` if no call can have caused it, or after too many requests.
    pub(crate) fn find(
        &self,
        event: &ConnectionEvent,
        text: String,
    ) -> Option<impl Future<Output = Option<RunningTool>> + Send + use<>> {
        let port = event.peer?.port();
        let socket = if event.port.is_some() { SocketType::Stream } else { SocketType::Datagram };
        let mut runners = self.fleet.upgrade()?.busy_runners();
        runners.retain(|runner| self.is_in(runner.kind(), &event.stack));
        let only = self.only(&event.stack);
        if runners.is_empty() || !self.budget().take(only.as_ref(), &text, Instant::now()) {
            return None;
        }
        let running = self.running.clone();
        let only_call = only;
        let only = if only_call.is_some() { OnlyCall::Yes } else { OnlyCall::No };
        Some(async move {
            let mut replies = JoinSet::new();
            for runner in runners {
                let text = text.clone();
                replies.spawn(async move { runner.find_caller((socket, port), only, text).await });
            }
            let found = async {
                while let Some(reply) = replies.join_next().await {
                    if let Ok(Some(id)) = reply {
                        return Some(id);
                    }
                }
                None
            };
            match tokio::time::timeout(TIMEOUT, found).await {
                Ok(id) => running.find(id?.as_str()),
                // The runner may still find it.
                Err(_) => only_call,
            }
        })
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    /// Returns whether a request may be made. One about the same call and refusal is made once, as long as
    /// the call is the only one.
    fn take(&mut self, only: Option<&RunningTool>, text: &str, now: Instant) -> bool {
        if let Some(only) = only {
            if self.asked.len() >= MAX_ASKED {
                self.asked.clear();
            }
            if !self.asked.insert((only.exec_id.clone(), text.to_owned())) {
                return false;
            }
        }
        let gained =
            now.saturating_duration_since(self.filled).as_millis() * u128::from(PER_SECOND) / 1000;
        if gained > 0 {
            let gained = u32::try_from(gained).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(gained).min(BURST);
            self.filled = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn budget() -> (Budget, Instant) {
        let now = Instant::now();
        (Budget { left: BURST, filled: now, asked: HashSet::new() }, now)
    }

    #[test]
    fn requests_are_limited() {
        let (mut budget, now) = budget();
        let take = |budget: &mut Budget, at| budget.take(None, "a.example", at);
        for _ in 0..BURST {
            assert!(take(&mut budget, now));
        }
        assert!(!take(&mut budget, now));
        let later = now + Duration::from_millis(100);
        let again = (0..BURST).filter(|_| take(&mut budget, later)).count();
        assert_eq!(again, 3, "32 per second");
        let much_later = now + Duration::from_secs(3600);
        let again = (0..2 * BURST).filter(|_| take(&mut budget, much_later)).count();
        assert_eq!(again, BURST as usize);
    }

    #[test]
    fn the_only_call_is_asked_for_once_for_each_refusal() {
        let (mut budget, now) = budget();
        let call = |id: &str| RunningTool {
            since: UNIX_EPOCH,
            kind: "rust".to_owned(),
            exec_id: id.to_owned(),
            tool: "cargo".to_owned(),
        };
        let rows = [
            (Some(call("e1")), "a.example", true),
            (Some(call("e1")), "a.example", false),
            (Some(call("e1")), "b.example", true),
            (Some(call("e2")), "a.example", true),
            (None, "a.example", true),
            (None, "a.example", true),
        ];
        for (only, text, expected) in rows {
            assert_eq!(budget.take(only.as_ref(), text, now), expected, "{only:?} {text}");
        }
    }
}
