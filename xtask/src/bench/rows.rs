//! The benchmark's rows, in order, with their bounds.

use anyhow::Result;

use super::call::{Tool, Transport};
use super::containers;
use super::frames;
use super::mailbox;
use super::measure::Bench;
use super::messages;
use super::parents::Parent;
use super::report::Bound::{self, AtLeast, AtMost, Reported};
use super::report::Measured::{self, Absent, Mib, Slowdown, Throughput};

/// A row of the table.
pub(super) struct Row {
    /// The name that `--only` searches.
    pub(super) name: &'static str,
    pub(super) bound: Bound,
    pub(super) measure: fn(&Bench<'_>) -> Result<Measured>,
}

/// All rows. Those of the proxy's memory depend on the rows before them.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "shim size",
        bound: AtMost { musl: 1.2, glibc: 2.0 },
        measure: |bench| bench.shim_size().map(Mib),
    },
    Row {
        name: "proxy at rest, before",
        bound: AtMost { musl: 4.0, glibc: 4.0 },
        measure: |bench| bench.proxy_memory().map(Mib),
    },
    Row {
        name: "true, passed",
        bound: AtMost { musl: 1.6, glibc: 2.2 },
        measure: |bench| bench.calls(Tool::True, Transport::Passed).map(Slowdown),
    },
    Row {
        name: "true, relayed",
        bound: Reported,
        measure: |bench| bench.calls(Tool::True, Transport::Relayed).map(Slowdown),
    },
    Row {
        name: "true, version 2",
        bound: AtMost { musl: 2.0, glibc: 2.6 },
        measure: |bench| bench.calls(Tool::True, Transport::Version2).map(Slowdown),
    },
    Row {
        name: "true, from node spawnSync",
        bound: Reported,
        measure: |bench| from_parent(bench, Parent::NodeSpawnSync),
    },
    Row {
        name: "true, from node spawn",
        bound: Reported,
        measure: |bench| from_parent(bench, Parent::NodeSpawn),
    },
    Row {
        name: "true, from python subprocess",
        bound: Reported,
        measure: |bench| from_parent(bench, Parent::Python),
    },
    Row {
        name: "10 ms, passed",
        bound: AtMost { musl: 1.05, glibc: 1.05 },
        measure: |bench| bench.calls(Tool::Nap, Transport::Passed).map(Slowdown),
    },
    Row {
        name: "64 at once, passed",
        bound: AtLeast { musl: 0.65, glibc: 0.45 },
        measure: |bench| bench.bursts(Transport::Passed).map(Throughput),
    },
    Row {
        name: "64 at once, version 2",
        bound: Reported,
        measure: |bench| bench.bursts(Transport::Version2).map(Throughput),
    },
    Row {
        name: "CPU of all parties",
        bound: AtMost { musl: 2.0, glibc: 2.6 },
        measure: |bench| bench.cpu().map(Slowdown),
    },
    Row {
        name: "Ctrl-C, to native true",
        bound: AtMost { musl: 5.0, glibc: 5.0 },
        measure: |bench| bench.interrupts().map(Slowdown),
    },
    Row {
        name: "output, passed",
        bound: AtMost { musl: 1.1, glibc: 1.1 },
        measure: |bench| bench.outputs(Transport::Passed).map(Slowdown),
    },
    Row {
        name: "output, relayed",
        bound: Reported,
        measure: |bench| bench.outputs(Transport::Relayed).map(Slowdown),
    },
    Row {
        name: "output, version 2",
        bound: AtMost { musl: 2.5, glibc: 2.5 },
        measure: |bench| bench.outputs(Transport::Version2).map(Slowdown),
    },
    Row {
        name: "proxy at rest, after",
        bound: AtMost { musl: 4.0, glibc: 4.0 },
        measure: |bench| bench.proxy_memory().map(Mib),
    },
    Row {
        name: "proxy peak, 256 MiB v2",
        bound: AtMost { musl: 16.0, glibc: 16.0 },
        measure: |bench| bench.proxy_peak_v2().map(Mib),
    },
    Row {
        name: "proxy peak, 256 MiB v1",
        bound: AtMost { musl: 16.0, glibc: 16.0 },
        measure: |bench| bench.proxy_peak_v1().map(Mib),
    },
    Row {
        name: "mailbox: true, by the binary",
        bound: AtMost { musl: 10.0, glibc: 10.0 },
        measure: mailbox::binary,
    },
    Row {
        name: "mailbox: true, by the script, to bash -c true",
        bound: AtMost { musl: 15.0, glibc: 15.0 },
        measure: mailbox::script,
    },
    Row {
        name: "mailbox: 256 MiB, to cp",
        bound: AtMost { musl: 3.0, glibc: 3.0 },
        measure: mailbox::output,
    },
    Row {
        name: "agent's messages, to parsing",
        bound: AtMost { musl: 2.0, glibc: 2.0 },
        measure: messages::against_parsing,
    },
    Row {
        name: "agent's messages to an editor, to rewriting",
        bound: AtMost { musl: 2.0, glibc: 2.0 },
        measure: messages::relayed_against_rewriting,
    },
    Row {
        name: "a frame through the bridge, to a pipe round trip",
        bound: AtMost { musl: 5.0, glibc: 5.0 },
        measure: frames::update,
    },
    Row {
        name: "two frames through the bridge: a request",
        bound: AtMost { musl: 10.0, glibc: 10.0 },
        measure: frames::request,
    },
    Row {
        name: "containers: true, to docker exec",
        bound: AtMost { musl: 0.025, glibc: 0.025 },
        measure: containers::against_exec,
    },
    Row { name: "containers: true", bound: Reported, measure: containers::against_native },
    Row {
        name: "containers: 64 at once",
        bound: AtLeast { musl: 0.65, glibc: 0.45 },
        measure: containers::at_once,
    },
    Row {
        name: "containers: session of 5, to docker run",
        bound: AtMost { musl: 1.15, glibc: 1.15 },
        measure: containers::start_of_session,
    },
];

fn from_parent(bench: &Bench<'_>, parent: Parent) -> Result<Measured> {
    let pairs = bench.calls_from(parent)?;
    Ok(pairs.map_or_else(|| Absent(format!("no {}", parent.program())), Slowdown))
}
