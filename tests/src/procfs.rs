//! Process information from `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The pids of all processes with an exec tag, `AIFO_EXEC=<id>`.
///
/// Zombies have no environment and do not count.
pub fn tagged_processes(exec_id: &str) -> Vec<i32> {
    let mark = format!("AIFO_EXEC={exec_id}");
    pids().filter(|&pid| environment(pid).contains(&mark)).collect()
}

/// The environment at the start of a process, as `NAME=value`; empty if it is gone.
pub fn environment(pid: i32) -> Vec<String> {
    zero_terminated(pid, "environ")
}

/// The arguments of a process; empty if it is gone.
pub fn argv(pid: i32) -> Vec<String> {
    zero_terminated(pid, "cmdline")
}

/// The processes that use a directory, with their command lines: it is named in arguments or
/// environment, or mounted in their container.
pub fn processes_using(dir: &Path) -> Vec<(i32, String)> {
    let dir = dir.to_string_lossy().into_owned();
    let names = |text: &str| names_path(text, &dir);
    let is_about = |&pid: &i32| {
        let words = argv(pid).into_iter().chain(environment(pid)).any(|word| names(&word));
        let mounts = || fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        words || names(&mounts())
    };
    let line = |pid: i32| (pid, argv(pid).join(" "));
    pids().filter(|&pid| is_alive(pid)).filter(is_about).map(line).collect()
}

/// Returns whether a text holds a path or one below it. `/tmp/a-3` is not in `/tmp/a-32`.
fn names_path(text: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
    text.match_indices(path).any(|(at, _)| ends(&text[at + path.len()..]))
}

/// The direct children of a process, with zombies.
pub fn children(pid: i32) -> Vec<i32> {
    pids().filter(|&child| stat(child).is_some_and(|(_, parent)| parent == pid)).collect()
}

/// All descendants of a process.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children(parent));
        next += 1;
    }
    found
}

/// Returns whether a process exists and is no zombie.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Returns whether a process is stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'T')
}

/// Returns whether a process has ended and is not reaped.
pub fn is_zombie(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'Z')
}

/// The number of open descriptors of a process.
#[track_caller]
pub fn fd_count(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count()
}

/// A line of `/proc/PID/status`: `Threads`, `VmHWM`, `RssAnon`, `SigBlk` ..
#[track_caller]
pub fn status_field(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("/proc/{pid}/status has no {name}")).trim().to_owned()
}

/// As [`status_kib`]; `None` if the process has ended.
pub fn status_kib_if_alive(pid: i32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// A line of `/proc/PID/status` in KiB.
#[track_caller]
pub fn status_kib(pid: i32, name: &str) -> u64 {
    let value = status_field(pid, name);
    let number = value.strip_suffix(" kB").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{name} is '{value}', not a size"))
}

/// The processor time of a process so far, in its own code and in the kernel.
#[track_caller]
pub fn processor_time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    // utime and stime are fields 14 and 15, in ticks of 10 ms; the first one here is field 3.
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>());
    Duration::from_millis(ticks.map(|ticks| ticks.expect("a number") * 10).sum())
}

/// The soft and hard limit on open files of a process.
#[track_caller]
pub fn open_files(pid: i32) -> (u64, u64) {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("the process is there");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line.expect("the line exists").split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(soft)), Some(Ok(hard))) => (soft, hard),
        _ => panic!("invalid limits: {limits}"),
    }
}

/// Sends a signal to a process; ignores that it is gone.
pub fn send_signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// The guard and runner of a local sidecar, or a container runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// The child of `aifo-coder`, a subreaper that ends its descendants. In a container this is the
    /// runner, which is process 1.
    pub guard: i32,
    /// The child of the guard; it spawns the tools.
    pub runner: i32,
}

impl Sidecar {
    /// The sidecars of a proxy.
    pub fn of(coder: i32) -> Vec<Sidecar> {
        let runners = |pid| children(pid).into_iter().filter(|&child| is_runner(child));
        let sidecar = |guard| runners(guard).next().map(|runner| Sidecar { guard, runner });
        runners(coder).filter_map(sidecar).collect()
    }

    /// The sidecars in containers with this directory mounted.
    pub fn in_containers(workspace: &Path) -> Vec<Sidecar> {
        let first = |pid: &i32| numbers(*pid).last() == Some(&1);
        let runners = in_containers(workspace).filter(|&pid| is_runner(pid)).filter(first);
        runners.map(|runner| Sidecar { guard: runner, runner }).collect()
    }
}

/// The process in a container with this directory mounted that has this pid in its own namespace;
/// panics if there are several.
#[track_caller]
pub(crate) fn numbered_in_containers(workspace: &Path, number: i32) -> Option<i32> {
    let own = |pid: &i32| numbers(*pid).last() == Some(&number);
    let found: Vec<i32> = in_containers(workspace).filter(own).collect();
    assert!(found.len() <= 1, "several processes have the pid {number}: {found:?}");
    found.first().copied()
}

/// The processes in containers with this directory mounted.
pub(crate) fn in_containers(workspace: &Path) -> impl Iterator<Item = i32> {
    let mounted = move |pid: &i32| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .any(|at| Path::new(at) == workspace)
    };
    pids().filter(|&pid| numbers(pid).len() > 1).filter(mounted)
}

/// The pids of a process, from this namespace to its own; none if it is gone.
fn numbers(pid: i32) -> Vec<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn is_runner(pid: i32) -> bool {
    let name = argv(pid).into_iter().next().unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|name| name == "aifo-runner")
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn zero_terminated(pid: i32, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let parts = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold any character, so the last one ends it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
