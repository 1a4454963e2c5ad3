//! The benchmark's rows, in order, with their bounds.

use std::time::Duration;

use anyhow::Result;

use super::builds;
use super::call::Tool;
use super::call::Transport::{Passed, Relayed, Version2};
use super::containers;
use super::frames;
use super::history;
use super::in_place;
use super::mailbox;
use super::measure::{Bench, Party};
use super::messages;
use super::network;
use super::parents::Parent;
use super::report::Bound::{self, Reported};
use super::report::Measured::{self, Absent, Instructions, Mib, Slowdown, Throughput};
use super::rules;
use super::sandbox;

/// A row of the table.
pub(super) struct Row {
    /// The name that `--only` searches.
    pub(super) name: &'static str,
    pub(super) bound: Bound,
    pub(super) measure: fn(&Bench<'_>) -> Result<Measured>,
}

/// All rows. Those of the proxy's memory depend on the rows before them.
pub(super) const ROWS: &[Row] = &[
    row("shim size", at_most(1.81, SIZE), |it| it.shim_size().map(Mib)),
    row("proxy at rest, before", at_most(1.12, SIZE), |it| it.proxy_memory().map(Mib)),
    row("true, passed", at_most(1.87, CALL), |it| it.calls(Tool::True, Passed).map(Slowdown)),
    row(
        "true, relayed",
        Reported("for engines on another kernel, whose own cost is larger"),
        |it| it.calls(Tool::True, Relayed).map(Slowdown),
    ),
    row("true, version 2", at_most(2.11, CALL), |it| it.calls(Tool::True, Version2).map(Slowdown)),
    row("true, shim's instructions", Reported("compares shims, not machines"), instructions),
    row("true, from node spawnSync", Reported("node's own spawn is most of it"), |it| {
        from_parent(it, Parent::NodeSpawnSync)
    }),
    row("true, from node spawn", Reported("node's own spawn is most of it"), |it| {
        from_parent(it, Parent::NodeSpawn)
    }),
    row("true, from python subprocess", Reported("python's own spawn is most of it"), |it| {
        from_parent(it, Parent::Python)
    }),
    row("perl -e 1, passed", Reported("true, passed is the bound"), |it| {
        it.calls(Tool::Perl, Passed).map(Slowdown)
    }),
    row("gcc --version, passed", Reported("true, passed is the bound"), |it| {
        it.calls(Tool::Gcc, Passed).map(Slowdown)
    }),
    row("2 ms, passed", at_most(1.32, CALL), |it| it.calls(nap(2), Passed).map(Slowdown)),
    row("10 ms, passed", at_most(1.11, CALL), |it| it.calls(nap(10), Passed).map(Slowdown)),
    row("true, with rules to without", at_most(1.0, CALL), in_place::with_rules),
    row("git status in place, added", at_most(0.52, TURN), in_place::added),
    row("8 at once, passed", Reported("64 at once is the bound"), |it| {
        it.bursts(8, Passed).map(Throughput)
    }),
    row("64 at once, passed", at_least(0.62, BATCH), |it| it.bursts(64, Passed).map(Throughput)),
    row("512 at once, passed", Reported("more than a build starts"), |it| {
        it.bursts(512, Passed).map(Throughput)
    }),
    row("64 at once, version 2", Reported("for clients of earlier protocols"), |it| {
        it.bursts(64, Version2).map(Throughput)
    }),
    row("CPU of all parties", at_most(2.18, BATCH), |it| it.cpu(Party::All).map(Slowdown)),
    row("CPU of the shim", Reported("a part of all parties"), |it| {
        it.cpu(Party::Shim).map(Slowdown)
    }),
    row("CPU of the proxy", Reported("a part of all parties"), |it| {
        it.cpu(Party::Proxy).map(Slowdown)
    }),
    row("CPU of guard and runner", Reported("a part of all parties"), |it| {
        it.cpu(Party::Runner).map(Slowdown)
    }),
    row("Ctrl-C, to native true", at_most(0.78, TURN), |it| it.interrupts().map(Slowdown)),
    row("output, passed", at_most(1.02, CALL), |it| it.outputs(Passed).map(Slowdown)),
    row(
        "output, relayed",
        Reported("for engines on another kernel, whose own cost is larger"),
        |it| it.outputs(Relayed).map(Slowdown),
    ),
    row("output, version 2", at_most(1.63, BATCH), |it| it.outputs(Version2).map(Slowdown)),
    row("proxy at rest, after", at_most(1.82, HEAP), |it| {
        // Longer than the proxy waits before the system gets its free pages.
        std::thread::sleep(Duration::from_secs(3));
        it.proxy_memory().map(Mib)
    }),
    row("proxy peak, 256 MiB v2", at_most(15.7, HEAP), |it| it.proxy_peak_v2().map(Mib)),
    row("proxy peak, 256 MiB v1", at_most(17.6, HEAP), |it| it.proxy_peak_v1().map(Mib)),
    row("mailbox: true, by the script, to bash -c true", at_most(6.1, BATCH), mailbox::script),
    row("mailbox: 256 MiB, to cp", at_most(2.26, BATCH), mailbox::output),
    row("rules: true, to a session without", at_most(1.0, CALL), rules::allowed),
    row("rules: end of a call after its answer", at_most(2.1, TURN), rules::answered),
    row("history: call, 10,000 unchanged files, added", at_most(0.05, TURN), |it| {
        history::added(it, 0)
    }),
    row("history: call, 1 of 10,000 files changed, added", at_most(0.5, TURN), |it| {
        history::added(it, 1)
    }),
    row("history: call, 10 of 10,000 files changed, added", at_most(3.0, TURN), |it| {
        history::added(it, 10)
    }),
    row("agent's messages, to parsing", at_most(1.45, BATCH), messages::against_parsing),
    row(
        "agent's messages to an editor, to rewriting",
        at_most(1.63, BATCH),
        messages::relayed_against_rewriting,
    ),
    row("a frame through the bridge, to a pipe round trip", at_most(2.6, TURN), frames::update),
    row("two frames through the bridge: a request", at_most(3.8, TURN), frames::request),
    row("cargo build, 50 dependencies", at_most(1.0, BATCH), builds::locally),
    row("containers: true, to docker exec", at_most(0.025, BATCH), containers::against_exec),
    row("containers: true", Reported("docker exec is the comparison"), containers::against_native),
    row("containers: 64 at once", at_least(0.67, BATCH), containers::at_once),
    row(
        "containers: session of 5, to docker run",
        at_most(0.95, BATCH),
        containers::start_of_session,
    ),
    row("python: exec, to docker exec", at_most(0.0183, BATCH), |it| sandbox::calls(it, 1)),
    row("python: 64 at once, to docker exec", at_most(0.0044, BATCH), |it| sandbox::calls(it, 64)),
    row("containers: cargo build, 50 dependencies", at_most(1.0, BATCH), builds::in_container),
    row("network: connect and 1 byte, added", at_most(0.13, TURN), network::connects),
    row("network: bytes received", at_least(1.8, LOOPBACK), network::received),
    row("network: bytes sent", at_least(1.74, LOOPBACK), network::sent),
    row("network: launcher's CPU for 1 GiB", at_most(0.56, BATCH), network::cpu_per_gib),
    row(
        "network: 1,000 connections at once",
        Reported("the kernel's queues are most of it"),
        network::at_once,
    ),
    row("network: launcher with 1,000 connections", at_most(13.7, HEAP), network::memory),
];

/// Arguments: the name, the bound, the measurement.
const fn row(name: &'static str, bound: Bound, measure: fn(&Bench<'_>) -> Result<Measured>) -> Row {
    Row { name, bound, measure }
}

/// At most what was seen and a margin, a part of it.
const fn at_most(seen: f64, margin: f64) -> Bound {
    Bound::AtMost { seen, margin: seen * margin }
}

/// At least what was seen without a margin.
const fn at_least(seen: f64, margin: f64) -> Bound {
    Bound::AtLeast { seen, margin: seen * margin }
}

// Margins, from runs on one machine that shares its two cores.

/// Sizes, which a run repeats.
const SIZE: f64 = 0.05;
/// Heaps, which depend on the order of frees.
const HEAP: f64 = 0.15;
/// The p10 of many calls.
const CALL: f64 = 0.1;
/// Batches that fill both cores, and what an engine does.
const BATCH: f64 = 0.25;
/// Parts of a millisecond that wait for a turn of another process.
const TURN: f64 = 0.5;
/// Bulk over the loopback, whose own rate differs by as much between runs. At least 1 GB/s remains.
const LOOPBACK: f64 = 0.4;

const fn nap(millis: u64) -> Tool {
    Tool::Nap(Duration::from_millis(millis))
}

fn instructions(bench: &Bench<'_>) -> Result<Measured> {
    let count = bench.shim_instructions()?;
    Ok(count.map_or_else(|| Absent("no valgrind".to_owned()), |count| Instructions(count / 1e3)))
}

fn from_parent(bench: &Bench<'_>, parent: Parent) -> Result<Measured> {
    let pairs = bench.calls_from(parent)?;
    Ok(pairs.map_or_else(|| Absent(format!("no {}", parent.program())), Slowdown))
}
