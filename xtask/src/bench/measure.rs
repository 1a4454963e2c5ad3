//! The measurements: native and proxied calls in turns.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};

use super::Depth;
use super::call::{Calls, Side, Tool, Transport, count, expect_bytes, expect_success};
use super::parents::Parent;
use super::stats::Pairs;
use super::{cpu, version1};
use crate::dist::Dist;
use crate::serve::{self, Serve};
use crate::{callgrind, host};

/// Unmeasured pairs that warm pages and caches.
pub(super) const WARM_UP: usize = 20;
/// The number of concurrent calls.
pub(super) const AT_ONCE: usize = 64;
/// Bytes of output while the proxy's memory is measured.
const TRANSFER: u64 = 256 << 20;

/// The processes whose CPU time is measured.
#[derive(Clone, Copy)]
pub(super) enum Party {
    /// Shim, proxy, guard, runner and tool together.
    All,
    Shim,
    Proxy,
    /// Guard and runner, without the tools.
    Runner,
}

/// A session and its tools.
pub(super) struct Bench<'a> {
    pub(super) dist: &'a Dist,
    pub(super) serve: &'a Serve,
    pub(super) calls: Calls,
    pub(super) workspace: PathBuf,
    pub(super) depth: Depth,
}

impl Bench<'_> {
    /// Time from spawn to exit, with all output read.
    pub(super) fn calls(&self, tool: Tool, transport: Transport) -> Result<Pairs> {
        let pass = |side| move || self.time_call(side, transport, tool);
        Pairs::measure(WARM_UP, pass(Side::Native), pass(Side::Proxied))?;
        Pairs::measure(self.depth.calls(), pass(Side::Native), pass(Side::Proxied))
    }

    /// The same for a tool that exits at once, called from another program; `None` if that is
    /// missing.
    pub(super) fn calls_from(&self, parent: Parent) -> Result<Option<Pairs>> {
        parent.measure(&self.calls, WARM_UP, self.depth.calls())
    }

    /// Time from the first spawn to the last exit of concurrent calls.
    pub(super) fn bursts(&self, at_once: usize, transport: Transport) -> Result<Pairs> {
        let pass = |side| move || self.time_burst(side, at_once, transport);
        Pairs::measure(self.depth.long(), pass(Side::Native), pass(Side::Proxied))
    }

    /// CPU time per call, from series: natively of the tool; proxied of these processes.
    pub(super) fn cpu(&self, party: Party) -> Result<Pairs> {
        let (series, calls) = self.depth.series();
        let (proxy, children) = (self.serve.pid(), || cpu::of_children(std::process::id()));
        let everyone = || {
            Ok(match party {
                Party::All => children()? + cpu::of_tree(proxy)?,
                Party::Shim => children()?,
                Party::Proxy => cpu::of_process(proxy)?,
                Party::Runner => cpu::of_descendants(proxy)?,
            })
        };
        let pass = |side, spent: &dyn Fn() -> Result<Duration>| {
            let before = spent()?;
            for _ in 0..calls {
                self.time_call(side, Transport::Passed, Tool::True)?;
            }
            Ok(spent()?.saturating_sub(before) / calls)
        };
        // Natively the idle session's CPU time does not count.
        Pairs::measure(series, || pass(Side::Native, &children), || pass(Side::Proxied, &everyone))
    }

    /// Time from SIGINT at the shim of a waiting tool to the shim's exit, relative to a native
    /// `true`.
    pub(super) fn interrupts(&self) -> Result<Pairs> {
        if host::ignores_interrupts()? {
            bail!("SIGINT is ignored, as in a job of the background: no call would be interrupted");
        }
        let native = || self.time_call(Side::Native, Transport::Passed, Tool::True);
        Pairs::measure(self.depth.long(), native, || self.time_interrupt())
    }

    /// Time from spawn to exit of a tool whose output is read from a pipe. Natively it is a plain
    /// pipe with the same writer, reader and sizes.
    pub(super) fn outputs(&self, transport: Transport) -> Result<Pairs> {
        let pass = |side| move || self.time_output(side, transport, self.depth.output());
        Pairs::measure(self.depth.long(), pass(Side::Native), pass(Side::Proxied))
    }

    /// The instructions of a shim, from its start to its exit; `None` without valgrind.
    pub(super) fn shim_instructions(&self) -> Result<Option<f64>> {
        let call = self.calls.command(Side::Proxied, Transport::Passed, Tool::True);
        callgrind::instructions(&call)
    }

    /// The shim size in MiB.
    pub(super) fn shim_size(&self) -> Result<f64> {
        Ok(std::fs::metadata(&self.dist.shim)?.len() as f64 / f64::from(1 << 20))
    }

    /// The proxy's anonymous memory, in MiB. Pages of its file are not its own.
    pub(super) fn proxy_memory(&self) -> Result<f64> {
        host::memory(self.serve.pid(), "RssAnon")
    }

    /// The proxy's peak memory during a version 2 transfer, in MiB.
    pub(super) fn proxy_peak_v2(&self) -> Result<f64> {
        self.proxy_peak(|| self.time_output(Side::Proxied, Transport::Version2, TRANSFER).map(drop))
    }

    /// The same during a version 1 transfer.
    pub(super) fn proxy_peak_v1(&self) -> Result<f64> {
        self.proxy_peak(|| version1::download(self.serve, &self.workspace, TRANSFER))
    }

    fn proxy_peak(&self, transfer: impl Fn() -> Result<()>) -> Result<f64> {
        host::reset_peak(self.serve.pid());
        transfer()?;
        host::memory(self.serve.pid(), "VmHWM")
    }

    fn time_call(&self, side: Side, transport: Transport, tool: Tool) -> Result<Duration> {
        let mut command = self.calls.command(side, transport, tool);
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        Ok(time)
    }

    fn time_burst(&self, side: Side, at_once: usize, transport: Transport) -> Result<Duration> {
        let start = Instant::now();
        let spawn = |_| Ok(self.calls.command(side, transport, Tool::True).spawn()?);
        let children = (0..at_once).map(spawn).collect::<Result<Vec<Child>>>()?;
        for child in children {
            expect_success(&child.wait_with_output()?)?;
        }
        Ok(start.elapsed())
    }

    fn time_output(&self, side: Side, transport: Transport, bytes: u64) -> Result<Duration> {
        let mut command = self.calls.command(side, transport, Tool::Output(bytes));
        let start = Instant::now();
        let mut child = command.spawn()?;
        let arrived = count(child.stdout.take().context("no stdout")?)?;
        let output = child.wait_with_output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        expect_bytes(bytes, arrived)?;
        Ok(time)
    }

    fn time_interrupt(&self) -> Result<Duration> {
        let mut child = self.calls.command(Side::Proxied, Transport::Passed, Tool::Wait).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let start = Instant::now();
        kill(serve::pid(&child), Signal::SIGINT)?;
        let status = child.wait()?;
        let time = start.elapsed();
        if line != "ready\n" || status.success() {
            bail!("an interrupted tool printed {line:?} and ended with {status}");
        }
        Ok(time)
    }
}
