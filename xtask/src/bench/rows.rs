//! The benchmark's rows, in order, with their bounds.

use std::time::Duration;

use anyhow::Result;

use super::builds;
use super::call::Tool;
use super::call::Transport::{Passed, Relayed, Version2};
use super::containers;
use super::frames;
use super::in_place;
use super::mailbox;
use super::measure::{Bench, Party};
use super::messages;
use super::network;
use super::parents::Parent;
use super::report::Bound::{self, Reported};
use super::report::Measured::{self, Absent, Instructions, Mib, Slowdown, Throughput};
use super::rules;

/// A row of the table.
pub(super) struct Row {
    /// The name that `--only` searches.
    pub(super) name: &'static str,
    pub(super) bound: Bound,
    pub(super) measure: fn(&Bench<'_>) -> Result<Measured>,
}

/// All rows. Those of the proxy's memory depend on the rows before them.
pub(super) const ROWS: &[Row] = &[
    row("shim size", at_most(1.2, 1.8), |it| it.shim_size().map(Mib)),
    row("proxy at rest, before", at_most(1.5, 1.5), |it| it.proxy_memory().map(Mib)),
    row("true, passed", at_most(1.6, 1.8), |it| it.calls(Tool::True, Passed).map(Slowdown)),
    row("true, relayed", Reported, |it| it.calls(Tool::True, Relayed).map(Slowdown)),
    row("true, version 2", at_most(2.0, 2.6), |it| it.calls(Tool::True, Version2).map(Slowdown)),
    row("true, shim's instructions", Reported, instructions),
    row("true, from node spawnSync", Reported, |it| from_parent(it, Parent::NodeSpawnSync)),
    row("true, from node spawn", Reported, |it| from_parent(it, Parent::NodeSpawn)),
    row("true, from python subprocess", Reported, |it| from_parent(it, Parent::Python)),
    row("perl -e 1, passed", Reported, |it| it.calls(Tool::Perl, Passed).map(Slowdown)),
    row("gcc --version, passed", Reported, |it| it.calls(Tool::Gcc, Passed).map(Slowdown)),
    row("2 ms, passed", at_most(1.2, 1.5), |it| it.calls(nap(2), Passed).map(Slowdown)),
    row("10 ms, passed", at_most(1.05, 1.05), |it| it.calls(nap(10), Passed).map(Slowdown)),
    row("true, with rules to without", at_most(1.1, 1.1), in_place::with_rules),
    row("git status in place, added", at_most(1.0, 1.0), in_place::added),
    row("8 at once, passed", Reported, |it| it.bursts(8, Passed).map(Throughput)),
    row("64 at once, passed", at_least(0.65, 0.45), |it| it.bursts(64, Passed).map(Throughput)),
    row("512 at once, passed", Reported, |it| it.bursts(512, Passed).map(Throughput)),
    row("64 at once, version 2", Reported, |it| it.bursts(64, Version2).map(Throughput)),
    row("CPU of all parties", at_most(2.0, 2.6), |it| it.cpu(Party::All).map(Slowdown)),
    row("CPU of the shim", Reported, |it| it.cpu(Party::Shim).map(Slowdown)),
    row("CPU of the proxy", Reported, |it| it.cpu(Party::Proxy).map(Slowdown)),
    row("CPU of guard and runner", Reported, |it| it.cpu(Party::Runner).map(Slowdown)),
    row("Ctrl-C, to native true", at_most(5.0, 5.0), |it| it.interrupts().map(Slowdown)),
    row("output, passed", at_most(1.1, 1.1), |it| it.outputs(Passed).map(Slowdown)),
    row("output, relayed", Reported, |it| it.outputs(Relayed).map(Slowdown)),
    row("output, version 2", at_most(2.5, 2.5), |it| it.outputs(Version2).map(Slowdown)),
    row("proxy at rest, after", at_most(1.5, 1.5), |it| it.proxy_memory().map(Mib)),
    row("proxy peak, 256 MiB v2", at_most(16.0, 16.0), |it| it.proxy_peak_v2().map(Mib)),
    row("proxy peak, 256 MiB v1", at_most(16.0, 16.0), |it| it.proxy_peak_v1().map(Mib)),
    row("mailbox: true, by the script, to bash -c true", at_most(15.0, 15.0), mailbox::script),
    row("mailbox: 256 MiB, to cp", at_most(3.0, 3.0), mailbox::output),
    row("rules: true, to a session without", at_most(1.1, 1.1), rules::allowed),
    row("rules: end of a call after its answer", at_most(5.0, 5.0), rules::answered),
    row("agent's messages, to parsing", at_most(2.0, 2.0), messages::against_parsing),
    row(
        "agent's messages to an editor, to rewriting",
        at_most(2.0, 2.0),
        messages::relayed_against_rewriting,
    ),
    row("a frame through the bridge, to a pipe round trip", at_most(5.0, 5.0), frames::update),
    row("two frames through the bridge: a request", at_most(10.0, 10.0), frames::request),
    row("cargo build, 50 dependencies", at_most(1.03, 1.03), builds::locally),
    row("containers: true, to docker exec", at_most(0.025, 0.025), containers::against_exec),
    row("containers: true", Reported, containers::against_native),
    row("containers: 64 at once", at_least(0.65, 0.45), containers::at_once),
    row(
        "containers: session of 5, to docker run",
        at_most(1.15, 1.15),
        containers::start_of_session,
    ),
    row("containers: cargo build, 50 dependencies", at_most(1.03, 1.03), builds::in_container),
    row("network: connect and 1 byte, added", at_most(0.2, 0.2), network::connects),
    row("network: bytes received", at_least(0.9, 0.9), network::received),
    row("network: bytes sent", at_least(0.9, 0.9), network::sent),
    row("network: 1,000 connections at once", Reported, network::at_once),
    row("network: launcher with 1,000 connections", at_most(16.0, 16.0), network::memory),
];

/// Arguments: the name, the bound, the measurement.
const fn row(name: &'static str, bound: Bound, measure: fn(&Bench<'_>) -> Result<Measured>) -> Row {
    Row { name, bound, measure }
}

const fn at_most(musl: f64, glibc: f64) -> Bound {
    Bound::AtMost { musl, glibc }
}

const fn at_least(musl: f64, glibc: f64) -> Bound {
    Bound::AtLeast { musl, glibc }
}

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
