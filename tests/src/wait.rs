//! Waiting for conditions, with deadlines.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// The default deadline. Generous: a passing test never waits for it.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(DEADLINE, what, condition);
}

/// [`eventually`] with another deadline, for slow tests.
#[track_caller]
pub fn eventually_within(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "timed out after {deadline:?}: {what}");
        sleep(Duration::from_millis(2));
    }
}
