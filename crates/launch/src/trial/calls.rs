//! The calls of a trial session and their measurements.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aifo_process::{Lookup, find_in_path};
use aifo_types::Finding;

use crate::session::Session;

/// The tools that are called.
pub(super) const TOOLS: [&str; 4] = ["true", "readlink", "touch", "cat"];

/// Calls tools of a session, from a separate thread.
pub(super) struct Calls {
    shim: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    workspace: PathBuf,
    /// The expected limit on processes.
    pids: Option<u32>,
}

/// The measurements. `None` if the sidecar lacks the tool for it.
#[derive(Debug, Default)]
pub struct Measured {
    pub(super) cost: Option<Cost>,
    pub(super) descriptors: Option<Descriptors>,
    pub(super) owner: Option<Owner>,
    pub(super) limits: Option<Limits>,
}

/// The time of a call of `true`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    proxied: Duration,
    /// `None` if this machine has no `true`.
    native: Option<Duration>,
}

/// A tool's stdout when its caller's is a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptors {
    /// The same pipe.
    Passed,
    /// Another pipe, whose bytes are copied to the caller's.
    Relayed,
    /// No output arrived.
    Lost,
}

/// The owner of a file that a tool created in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Caller,
    Other {
        uid: u32,
        gid: u32,
    },
    /// The file was not created.
    Missing,
}

/// Selects whether the limit on processes is enforced for the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    InForce,
    Absent,
}

/// Calls per measurement, of which the median is taken.
const ROUNDS: usize = 31;

impl Calls {
    pub(super) fn of(session: &Session, shim: &Path, workspace: &Path, pids: Option<u32>) -> Self {
        Calls {
            shim: shim.to_owned(),
            variables: session.variables(),
            workspace: workspace.to_owned(),
            pids,
        }
    }

    pub(super) fn measure(&self) -> Measured {
        let Some(cost) = self.cost() else { return Measured::default() };
        Measured {
            cost: Some(cost),
            descriptors: self.descriptors(),
            owner: self.owner(),
            limits: self.limits(),
        }
    }

    fn call(&self, tool: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.shim);
        command.arg0(tool).args(args).env_clear().envs(self.variables.iter().cloned());
        command.current_dir(&self.workspace);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn cost(&self) -> Option<Cost> {
        let proxied = median(|| self.call("true", &[]))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let native = match find_in_path("true".as_ref(), &path) {
            Lookup::Found(program) => median(|| Command::new(&program)),
            Lookup::NotExecutable(_) | Lookup::Absent => None,
        };
        Some(Cost { proxied, native })
    }

    fn descriptors(&self) -> Option<Descriptors> {
        let (mut reader, writer) = io::pipe().ok()?;
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let pipe = format!("pipe:[{}]", fs::metadata(path).ok()?.ino());
        let mut command = self.call("readlink", &["/proc/self/fd/1"]);
        let mut child = command.stdout(writer).spawn().ok()?;
        // The command holds the writing end, which would keep the pipe open.
        drop(command);
        let mut output_text = String::new();
        let read = reader.read_to_string(&mut output_text);
        child.wait().ok().filter(|status| status.success())?;
        Some(match output_text.trim_end() {
            output_text if output_text == pipe => Descriptors::Passed,
            "" => Descriptors::Lost,
            _ if read.is_err() => Descriptors::Lost,
            _ => Descriptors::Relayed,
        })
    }

    fn owner(&self) -> Option<Owner> {
        let name = format!(".aifo-doctor-{}", std::process::id());
        let status = self.call("touch", &[&name]).status().ok()?;
        let path = self.workspace.join(&name);
        let found = path.symlink_metadata();
        let _ = fs::remove_file(&path);
        let ours = fs::metadata("/proc/self").ok()?;
        match found {
            Ok(made) if made.uid() == ours.uid() && made.gid() == ours.gid() => Some(Owner::Caller),
            Ok(made) => Some(Owner::Other { uid: made.uid(), gid: made.gid() }),
            // 86: the sidecar has no such tool.
            Err(_) if status.code() == Some(i32::from(aifo_types::exit::NOTHING_RAN)) => None,
            Err(_) => Some(Owner::Missing),
        }
    }

    fn limits(&self) -> Option<Limits> {
        let expected = self.pids?.to_string();
        // cgroup version 2, then version 1.
        let files = ["/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"];
        let output = self.call("cat", &files).stdout(Stdio::piped()).output().ok()?;
        let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output_text.lines().next() {
            None => None,
            Some(_) if output_text.lines().any(|line| line == expected) => Some(Limits::InForce),
            Some(_) => Some(Limits::Absent),
        }
    }
}

/// Returns the median time of [`ROUNDS`] runs; `None` if one fails.
fn median(mut command: impl FnMut() -> Command) -> Option<Duration> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let status = command().status().ok()?;
        times.push(start.elapsed());
        if !status.success() {
            return None;
        }
    }
    times.sort_unstable();
    times.get(ROUNDS / 2).copied()
}

impl Measured {
    /// Returns the findings for this backend.
    /// Returns whether the time of a call was measured.
    pub fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// Returns the findings about a backend with this name.
    pub fn findings(&self, backend: &str) -> Vec<Finding> {
        let check = |what: &str| format!("{backend} {what}");
        let unknown = |what: &str| {
            let fix = "try an image with the usual tools";
            Finding::warn(check(what), "not measured: the sidecar lacks the tool for it", fix)
        };
        let mut findings = vec![
            match self.cost {
                Some(cost) => cost.judge(check("call")),
                None => unknown("call"),
            },
            match self.descriptors {
                Some(descriptors) => descriptors.judge(check("descriptors")),
                None => unknown("descriptors"),
            },
            match self.owner {
                Some(owner) => owner.judge(check("files")),
                None => unknown("files"),
            },
        ];
        findings.extend(self.limits.map(|limits| limits.judge(check("limits"))));
        findings
    }
}

/// Slower calls have a cause that can be fixed.
const MAX_RATIO: f64 = 10.0;

impl Cost {
    fn judge(self, check: String) -> Finding {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let Cost { proxied, native } = self;
        let Some(native) = native else {
            return Finding::ok(
                check,
                format!("{:.2} ms for a tool that does nothing", ms(proxied)),
            );
        };
        let times = ms(proxied) / ms(native).max(0.001);
        let text =
            format!("{:.2} ms for a tool that does nothing, {times:.1} x native", ms(proxied));
        if times <= MAX_RATIO {
            return Finding::ok(check, text);
        }
        let fix = "check the machine's load, and use a release build";
        Finding::warn(check, text, fix)
    }
}

impl Descriptors {
    fn judge(self, check: String) -> Finding {
        match self {
            Descriptors::Passed => Finding::ok(check, "tools write to the caller's pipe directly"),
            Descriptors::Relayed => Finding::warn(
                check,
                "tool output is relayed instead of written to the caller's pipe",
                "let the proxy listen on a unix socket, and run the engine on this machine",
            ),
            Descriptors::Lost => Finding::fail(
                check,
                "tool output did not arrive",
                "run 'aifo-coder exec -v -- TOOL' to trace a call",
            ),
        }
    }
}

impl Owner {
    fn judge(self, check: String) -> Finding {
        match self {
            Owner::Caller => {
                Finding::ok(check, "files that tools create in the workspace are yours")
            }
            Owner::Other { uid, gid } => Finding::fail(
                check,
                format!("files that tools create in the workspace belong to {uid}:{gid}"),
                "check the engine's user mapping and the mount of the workspace",
            ),
            Owner::Missing => Finding::fail(
                check,
                "tools cannot create files in the workspace",
                "check its permissions; with SELinux, label it: chcon -Rt container_file_t DIR",
            ),
        }
    }
}

impl Limits {
    fn judge(self, check: String) -> Finding {
        match self {
            Limits::InForce => Finding::ok(check, "the limit on processes is enforced"),
            Limits::Absent => Finding::warn(
                check,
                "the limit on processes is not enforced",
                "give the engine the cgroup controllers: pids, memory, cpu",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn costs_in_time_and_relative_to_native() {
        let cost = |proxied, native: Option<u64>| Cost {
            proxied: Duration::from_micros(proxied),
            native: native.map(Duration::from_micros),
        };
        let both = cost(1500, Some(500)).judge("local call".to_owned());
        assert_eq!(both.text, "1.50 ms for a tool that does nothing, 3.0 x native");
        assert_eq!(both.status, Status::Ok);
        assert_eq!(cost(9000, Some(500)).judge(String::new()).status, Status::Warn);
        let alone = cost(9000, None).judge(String::new());
        assert_eq!(alone.text, "9.00 ms for a tool that does nothing");
    }

    #[test]
    fn missing_measurements_are_reported() {
        let statuses = |measured: Measured| -> Vec<Status> {
            measured.findings("docker").into_iter().map(|finding| finding.status).collect()
        };
        assert_eq!(statuses(Measured::default()), [Status::Warn; 3]);
        let broken = Measured {
            cost: None,
            descriptors: Some(Descriptors::Lost),
            owner: Some(Owner::Other { uid: 0, gid: 0 }),
            limits: Some(Limits::InForce),
        };
        assert_eq!(statuses(broken), [Status::Warn, Status::Fail, Status::Fail, Status::Ok]);
    }
}
