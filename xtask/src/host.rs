//! Facts from /proc and git: the machine, the sources, and a process's memory.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::shell;

/// The machine of a measurement.
pub(crate) fn machine() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "cpu": field(&cpuinfo, "model name").unwrap_or("unknown"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": kernel.trim(),
    })
}

/// The measured sources: the commit, and whether the tree has changes.
pub(crate) fn sources() -> Value {
    let git =
        |args: &[&str]| shell::read(Command::new("git").args(args).current_dir(shell::root())).ok();
    json!({
        "commit": git(&["rev-parse", "HEAD"]),
        "dirty": git(&["status", "--porcelain"]).map(|changes| !changes.is_empty()),
        "rustc": shell::read(Command::new("rustc").arg("-V").current_dir(shell::root())).ok(),
    })
}

/// The short commit id, with a `+` if the tree has changes.
pub(crate) fn short_commit() -> Option<String> {
    let git =
        |args: &[&str]| shell::read(Command::new("git").args(args).current_dir(shell::root())).ok();
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    Some(format!("{commit}{}", if changed { "+" } else { "" }))
}

/// A memory value of a process in MiB: `RssAnon` is its own, `VmHWM` is the peak.
pub(crate) fn memory(pid: u32, name: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let value = field(&status, name).with_context(|| format!("{path} has no {name}"))?;
    let kib: f64 = value.trim_end_matches(" kB").parse().context("a size in kB")?;
    Ok(kib / 1024.0)
}

/// Returns whether this process ignores SIGINT, as a shell starts its background jobs; so would all that it
/// starts.
pub(crate) fn ignores_interrupts() -> Result<bool> {
    const SIGINT_BIT: u64 = 1 << 1;
    let status = fs::read_to_string("/proc/self/status")?;
    let ignored = field(&status, "SigIgn").context("/proc/self/status has no SigIgn")?;
    Ok(u64::from_str_radix(ignored, 16)? & SIGINT_BIT != 0)
}

/// Resets a process's `VmHWM`. Where the kernel cannot, the peak covers its whole life, which only
/// makes the check stricter.
pub(crate) fn reset_peak(pid: u32) {
    _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(value).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files() {
        let text = "VmHWM:\t    5120 kB\nmodel name\t: Some CPU @ 2:1\n";
        assert_eq!(field(text, "VmHWM"), Some("5120 kB"));
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2:1"));
        assert_eq!(field(text, "Vm"), None);
    }

    #[test]
    fn our_own_memory() {
        let held = memory(std::process::id(), "VmRSS").unwrap();
        assert!(held > 0.5 && held <= memory(std::process::id(), "VmHWM").unwrap());
    }
}
