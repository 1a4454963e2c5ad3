//! The tables of `spec/native.md`: classes of calls and known differences.

use std::collections::BTreeSet;

use aifo_tests::{Backend, Landlock, can_run, status_field};

use crate::native::invocation::Invocation;
use crate::native::observation::Difference;
use crate::native::place::Mode;

/// The maximum number of differences: of any backend, and of containers.
pub(crate) const MOST: usize = 12 + 6;

/// A row of the table of differences.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// `*`, a class, or `class: name`.
    calls: String,
    modes: Vec<String>,
    /// As in [`Difference::what`].
    what: Vec<String>,
}

impl Known {
    /// The rows for this run's backend.
    pub(crate) fn all() -> Vec<Known> {
        let mut rows = table("| calls |");
        if Backend::chosen().is_engine() {
            rows.extend(table("| calls in containers |"));
        }
        let rows = rows.into_iter().map(|cells| {
            let [calls, modes, what, reason] = &cells[..] else { panic!("{cells:?}") };
            assert!(!reason.is_empty(), "'{calls}' differs without a reason");
            let words = |cell: &str| -> Vec<String> {
                cell.split(',').map(|word| word.trim().replace('`', "")).collect()
            };
            Known { calls: calls.clone(), modes: words(modes), what: words(what) }
        });
        rows.collect()
    }

    /// All differences that this row allows in this mode.
    pub(crate) fn expected(&self, mode: Mode) -> Vec<String> {
        if self.modes.iter().any(|word| word == mode.word()) { self.what.clone() } else { vec![] }
    }

    fn covers(&self, invocation: &Invocation, mode: Mode, difference: &Difference) -> bool {
        let called =
            self.calls == "*" || self.calls == invocation.class || self.calls == invocation.title();
        called && self.expected(mode).contains(&difference.what)
    }

    #[track_caller]
    pub(crate) fn check(&self, classes: &BTreeSet<&str>, titles: &BTreeSet<String>) {
        let calls = self.calls.as_str();
        assert!(calls == "*" || classes.contains(calls) || titles.contains(calls), "{self:?}");
        let modes = [Mode::Passed, Mode::Relayed, Mode::Tcp, Mode::Version2].map(Mode::word);
        assert!(self.modes.iter().all(|mode| modes.contains(&mode.as_str())), "{self:?}");
        let bytes_or_ending = ["stdout", "stderr", "status"];
        assert!(self.what.iter().all(|what| !bytes_or_ending.contains(&what.as_str())), "{self:?}");
    }
}

/// The rows that occurred, and the unlisted differences.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    seen: BTreeSet<(usize, String)>,
    unlisted: Vec<(String, Difference)>,
}

impl Verdict {
    /// Records one call's differences.
    pub(crate) fn add(
        &mut self,
        known: &[Known],
        invocation: &Invocation,
        mode: Mode,
        found: Vec<Difference>,
    ) {
        for difference in found {
            let rows = known.iter().enumerate();
            let mut rows = rows.filter(|(_, row)| row.covers(invocation, mode, &difference));
            match rows.next() {
                Some((row, _)) => _ = self.seen.insert((row, difference.what)),
                None => self.unlisted.push((invocation.title(), difference)),
            }
        }
    }

    /// Every unlisted difference, as text.
    pub(crate) fn unlisted(&self) -> String {
        let mut text = String::new();
        for (title, difference) in &self.unlisted {
            let Difference { what, native, here } = difference;
            text += &format!("{title}\n    {what}\n      native: {native}\n      here:   {here}\n");
        }
        text
    }

    /// Every listed difference that did not occur, as text.
    pub(crate) fn untrue(&self, known: &[Known], mode: Mode) -> String {
        let mut text = String::new();
        for (number, row) in known.iter().enumerate() {
            for what in row.expected(mode) {
                if can_occur(&what) && !self.seen.contains(&(number, what.clone())) {
                    text += &format!("listed, but not so: {what} of {}\n", row.calls);
                }
            }
        }
        text
    }
}

/// Returns whether this machine can show a difference.
pub(crate) fn can_occur(what: &str) -> bool {
    let in_containers = Backend::chosen().is_engine();
    match what {
        // Images set no language, and the launcher's is ignored.
        "report LANG" => !in_containers,
        "report CapEff" | "report CapPrm" => {
            status_field(std::process::id().cast_signed(), "CapEff") != "0".repeat(16)
        }
        "report NoNewPrivs" if in_containers => true,
        "report NoNewPrivs" => {
            Landlock::Writes.available("native: the privileges of a confined tool")
        }
        "report soft_limit_p" | "report hard_limit_p" => limited_by_podman(),
        "core" => {
            can_run("native: a core that is dumped", &["/bin/sh", "-c", "ulimit -c unlimited"])
        }
        _ => true,
    }
}

/// Podman replaces one limit by another; where they are equal, nothing differs.
fn limited_by_podman() -> bool {
    let Backend::Engine { name, .. } = Backend::chosen() else { return false };
    let read = |path| std::fs::read_to_string(path).expect("/proc is mounted");
    let (pids, limits) = (read("/proc/sys/kernel/pid_max"), read("/proc/self/limits"));
    let ours = limits.lines().find_map(|line| line.strip_prefix("Max processes"));
    let hard = ours.and_then(|numbers| numbers.split_whitespace().nth(1));
    name == "podman" && hard != Some(pids.trim_end())
}

/// The classes of the page and their numbers of calls.
pub(crate) fn classes() -> Vec<(String, usize)> {
    let rows = table("| class |").into_iter().map(|cells| {
        let [class, count, _] = &cells[..] else { panic!("{cells:?}") };
        (class.clone(), count.parse().expect("a count is a number"))
    });
    rows.collect()
}

/// The cells of the table with this head.
fn table(head: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../../spec/native.md");
    let lines = page.lines().skip_while(|line| !line.starts_with(head));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}
