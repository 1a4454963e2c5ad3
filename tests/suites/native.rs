//! Compares each call natively and through the shim, with everything that is observable.
//!
//! `AIFO_TEST_CALLS` selects calls by a part of class and name.
//!
//! `spec/native.md` lists the known differences with reasons. An unlisted difference fails the
//! test, and so does a listed one that does not occur.

mod cases;
mod differences;
mod invocation;
mod observation;
mod place;
mod run;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use aifo_tests::passes_descriptors;
use differences::{Known, MOST, Verdict, can_occur, classes};
use invocation::{Invocation, Starts};
use observation::{Difference, Ending, Observation};
use place::{Mode, Place};
use run::observe;

/// The number of concurrent calls.
const AT_ONCE: usize = 2;

/// Otherwise a comparison would be meaningless.
#[test]
fn a_native_call_is_the_same_twice() {
    check(Mode::Native);
}

#[test]
fn with_descriptors_passed() {
    if !passes_descriptors("with_descriptors_passed") {
        return;
    }
    check(Mode::Passed);
}

#[test]
fn with_descriptors_relayed() {
    check(Mode::Relayed);
}

#[test]
fn over_tcp() {
    check(Mode::Tcp);
}

#[test]
fn with_version_2() {
    check(Mode::Version2);
}

/// Makes every call that this mode supports, natively and in this mode.
#[track_caller]
fn check(mode: Mode) {
    let (place, calls, known) = (Place::new(mode), calls(mode), Known::all());
    let (next, verdict) = (AtomicUsize::new(0), Mutex::new(Verdict::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(call) = calls.get(number) else { return };
            let native = observe(&place, call, Mode::Native, number);
            if mode == Mode::Version2 && matches!(native.ending, Ending::Killed(_)) {
                // Versions 1 and 2 report a signal as an exit code.
                continue;
            }
            let here = observe(&place, call, mode, number);
            let found = native.differences(&here);
            verdict.lock().expect("the lock is not poisoned").add(&known, call, mode, found);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let verdict = verdict.into_inner().expect("the lock is not poisoned");
    let mut complaints = verdict.unlisted();
    if wanted().is_empty() {
        complaints += &verdict.untrue(&known, mode);
    }
    assert!(
        complaints.is_empty(),
        "of {} calls in mode {}:\n{complaints}",
        calls.len(),
        mode.word()
    );
}

/// Selects calls whose class and name contain this.
fn wanted() -> String {
    std::env::var("AIFO_TEST_CALLS").unwrap_or_default()
}

/// The calls that a mode supports, adapted to the mode.
fn calls(mode: Mode) -> Vec<Invocation> {
    let wanted = wanted();
    let all = cases::all().into_iter().filter(|call| call.title().contains(&wanted));
    if mode != Mode::Version2 {
        return all.collect();
    }
    all.filter(Invocation::fits_version_2)
        .map(|call| if call.starts == Starts::Yes { call.merged() } else { call })
        .collect()
}

#[test]
fn every_call_has_a_name_of_its_own_and_its_class_a_row_in_the_page() {
    let calls = cases::all();
    assert!(calls.len() >= 150, "{} calls", calls.len());
    let titles: BTreeSet<String> = calls.iter().map(Invocation::title).collect();
    assert_eq!(titles.len(), calls.len(), "a name occurs twice");
    for (class, count) in classes() {
        let found = calls.iter().filter(|call| call.class == class).count();
        assert_eq!(found, count, "calls of the class '{class}'");
    }
    let counted: usize = classes().iter().map(|(_, count)| count).sum();
    assert_eq!(counted, calls.len(), "a class has no row");
}

#[test]
fn few_things_differ_and_never_bytes_or_endings() {
    let (known, calls) = (Known::all(), cases::all());
    assert!(known.len() <= MOST, "{} differences", known.len());
    let classes = calls.iter().map(|call| call.class).collect();
    let titles = calls.iter().map(Invocation::title).collect();
    known.iter().for_each(|row| row.check(&classes, &titles));
}

/// Each single change is detected.
#[test]
fn the_comparison_can_fail() {
    let place = Place::new(Mode::Native);
    let script = |out: &str, err: &str, code: &str, mode: &str| {
        let report = format!("echo mode {mode} > report");
        let script = format!(
            "echo {out}; echo {err} >&2; umask {mode}; echo {out} > made; {report}; exit {code}"
        );
        observe(&place, &Invocation::shell("a call", script), Mode::Native, 0)
    };
    let native = script("out", "err", "3", "022");
    let what = |other: Observation| -> Vec<String> {
        native.differences(&other).into_iter().map(|difference| difference.what).collect()
    };
    assert_eq!(what(script("out", "err", "3", "022")), [""; 0]);
    assert_eq!(what(script("other", "err", "3", "022")), ["stdout", "file made"]);
    assert_eq!(what(script("out", "other", "3", "022")), ["stderr"]);
    assert_eq!(what(script("out", "err", "4", "022")), ["status"]);
    assert_eq!(what(script("out", "err", "3", "077")), ["file made", "report mode"]);
    let mut dumped = native.clone();
    dumped.core = true;
    assert_eq!(what(dumped), ["core"]);
}

/// Both unlisted differences and listed ones that do not occur fail.
#[test]
fn the_list_is_wrong_in_either_direction() {
    let calls = cases::all();
    let call = calls.first().expect("there are calls");
    let difference = Difference { what: "stdout".into(), native: "a".into(), here: "b".into() };
    let mut verdict = Verdict::default();
    verdict.add(&Known::all(), call, Mode::Passed, vec![difference]);
    assert!(verdict.unlisted().contains(&call.title()));
    let complaints = verdict.untrue(&Known::all(), Mode::Passed);
    let listed = Known::all().into_iter().flat_map(|row| row.expected(Mode::Passed));
    for what in listed.filter(|what| can_occur(what)) {
        assert!(complaints.contains(&format!("listed, but not so: {what}")), "{complaints}");
    }
}
