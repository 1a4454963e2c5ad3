//! Waiting for a condition, never for a time.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take before a test calls it stuck. Generous: success never waits for it.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(DEADLINE, what, condition);
}

/// [`eventually`] with a deadline of its own, for what is slow by design.
#[track_caller]
pub fn eventually_within(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "not so after {deadline:?}: {what}");
        sleep(Duration::from_millis(2));
    }
}
