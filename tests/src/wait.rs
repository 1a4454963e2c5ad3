//! Waiting for conditions, with deadlines.

use std::env;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The default deadline. Generous: a passing test never waits for it.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// [`DEADLINE`], or longer if this run has an engine: several engine commands at once, as tests
/// run them, may take many seconds each.
pub fn default_deadline() -> Duration {
    let engine =
        ["AIFO_TEST_ENGINE", "AIFO_TEST_BACKEND"].iter().any(|name| env::var_os(name).is_some());
    if engine { Duration::from_secs(150) } else { DEADLINE }
}

/// Polls until `condition` holds; panics with `what` after [`default_deadline`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(default_deadline(), what, condition);
}

/// [`eventually`], for a text in an output that grows; the failure has the output.
#[track_caller]
pub(crate) fn eventually_shows(what: &str, text: &str, output: impl Fn() -> String) {
    let (start, deadline) = (Instant::now(), default_deadline());
    while !output().contains(text) {
        assert!(
            start.elapsed() < deadline,
            "timed out after {deadline:?}: {what} does not show {text:?}; it shows:\n{}",
            output()
        );
        sleep(Duration::from_millis(2));
    }
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
