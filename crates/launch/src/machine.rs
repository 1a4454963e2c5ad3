//! Checks of the machine: installed versions, kernel features, limits.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use aifo_host::{ShimBinary, ShimBinaryError};
use aifo_process::{Enforcement, current_limits, enforcement, landlock_version};
use aifo_sidecar::namespace_obstacle;
use aifo_types::Finding;

use crate::confine::ConfinementMode;
use crate::user_limits::used_up_limits;

/// The input of the checks.
#[derive(Debug)]
pub struct CheckedMachine<'a> {
    /// The shim of its sessions.
    pub shim: &'a Result<ShimBinary, ShimBinaryError>,
    /// Their workspace.
    pub workspace: &'a Path,
    /// The confinement of their local tools.
    pub confinement: ConfinementMode,
}

impl CheckedMachine<'_> {
    /// Returns one finding or more for each check.
    pub fn findings(&self) -> Vec<Finding> {
        let checks = [
            versions(self.shim),
            kernel(),
            landlock(),
            namespace(self),
            security_modules(),
            tiocsti(),
            open_files(),
            user_limits(),
            terminal(),
        ];
        checks.concat()
    }
}

fn versions(shim: &Result<ShimBinary, ShimBinaryError>) -> Vec<Finding> {
    let version = env!("CARGO_PKG_VERSION");
    vec![match shim {
        Ok(shim) => {
            let text = format!("aifo-coder and aifo-shim are {version}: {}", shim.path().display());
            Finding::ok("versions", text)
        }
        Err(error) => Finding::failure("versions", error, "install both from the same build"),
    }]
}

fn kernel() -> Vec<Finding> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    vec![Finding::ok("kernel", format!("Linux {release}"))]
}

fn landlock() -> Vec<Finding> {
    let version = landlock_version();
    let fix = "for local tools use a kernel of 6.12 or later with \
               landlock among its security modules, or sidecars in containers";
    vec![match enforcement() {
        Enforcement::WritesAndSignals => {
            let held = "local tools are confined in writes and signals";
            Finding::ok("landlock", format!("version {version}: {held}"))
        }
        Enforcement::Writes => {
            let held = "local tools are confined in writes, but can signal your processes";
            Finding::warn("landlock", format!("version {version}: {held}"), fix)
        }
        Enforcement::Nothing => {
            let text = match version {
                0 => "none: local tools can write all that you can".to_owned(),
                _ => {
                    format!("version {version} is too old: local tools can write all that you can")
                }
            };
            Finding::warn("landlock", text, fix)
        }
    }]
}

/// Returns whether local tools can run in a namespace.
fn namespace(machine: &CheckedMachine<'_>) -> Vec<Finding> {
    // Another check reports an absent runner.
    let Ok(shim) = machine.shim else { return Vec::new() };
    let obstacle = namespace_obstacle(&shim.program(), machine.workspace);
    let is_chosen = machine.confinement == ConfinementMode::Namespace;
    vec![judge_namespace(obstacle, is_chosen)]
}

fn judge_namespace(obstacle: Option<String>, is_chosen: bool) -> Finding {
    const KEYS: &str = "~/.ssh, ~/.aws, ~/.gnupg, ~/.config/gcloud or ~/.kube";
    match (obstacle, is_chosen) {
        (None, true) => Finding::ok("namespace", format!("local tools cannot read {KEYS}")),
        (None, false) => {
            let text =
                "possible, not chosen: with confine = \"namespace\" local tools could not read";
            Finding::ok("namespace", format!("{text} {KEYS}"))
        }
        (Some(reason), is_chosen) => {
            let (reason, fix) =
                reason.split_once("\nhint: ").unwrap_or((&reason, "use containers"));
            match is_chosen {
                true => Finding::fail("namespace", reason, fix),
                false => Finding::ok("namespace", format!("not possible: {reason}; {fix}")),
            }
        }
    }
}

fn security_modules() -> Vec<Finding> {
    let active = read("/sys/kernel/security/lsm");
    let text = match &active {
        Some(modules) => modules.replace(',', ", "),
        None => "the kernel does not report its active modules".to_owned(),
    };
    if read("/sys/fs/selinux/enforce").as_deref() == Some("1") {
        let fix = "if a container cannot reach the workspace, label it: \
                   chcon -Rt container_file_t DIR";
        return vec![Finding::warn("security", format!("{text}; SELinux enforces"), fix)];
    }
    vec![Finding::ok("security", text)]
}

/// Returns whether a process can inject input into its terminal (`TIOCSTI`).
fn tiocsti() -> Vec<Finding> {
    vec![judge_tiocsti(read("/proc/sys/dev/tty/legacy_tiocsti").as_deref())]
}

fn judge_tiocsti(setting: Option<&str>) -> Finding {
    let fix =
        "run: sysctl -w dev.tty.legacy_tiocsti=0; keys typed ahead of a tool's end are lost then";
    match setting {
        Some("0") => Finding::ok("tiocsti", "processes cannot inject terminal input"),
        Some(_) => Finding::warn("tiocsti", "a process can inject input into its terminal", fix),
        None => Finding::warn(
            "tiocsti",
            "a process can inject input into its terminal, and this kernel cannot prevent it",
            "use a kernel of 6.2 or later",
        ),
    }
}

fn open_files() -> Vec<Finding> {
    let limit = current_limits().into_iter().find(|limit| limit.resource == OPEN_FILES);
    vec![match limit {
        Some(limit) => judge_open_files(limit.soft, limit.hard),
        None => Finding::warn("open files", "limit unknown", "check: ulimit -Hn"),
    }]
}

/// `RLIMIT_NOFILE`
const OPEN_FILES: u8 = 7;
/// A streamed call takes about ten at the proxy, and up to 512 run at once.
const ENOUGH_FILES: u64 = 4096;

fn judge_open_files(soft: u64, hard: u64) -> Finding {
    let text = format!("{soft}, and a session may raise it to {hard}");
    match hard {
        ENOUGH_FILES.. => Finding::ok("open files", text),
        _ => Finding::warn(
            "open files",
            format!("{text}: too few for many calls at once"),
            format!("raise the hard limit to {ENOUGH_FILES} or more: LimitNOFILE, limits.conf"),
        ),
    }
}

/// Returns whether this user's limits that its containers share are used up.
fn user_limits() -> Vec<Finding> {
    vec![match used_up_limits().as_slice() {
        [] => Finding::ok(
            "user limits",
            "containers share this user's inotify instances and descriptors in flight; both are free",
        ),
        used => Finding::warn(
            "user limits",
            format!("used up: {}; aifo polls and relays instead", used.join(", ")),
            "end the container or program of this user that holds them",
        ),
    }]
}

fn terminal() -> Vec<Finding> {
    let is = [
        ("stdin", std::io::stdin().is_terminal()),
        ("stdout", std::io::stdout().is_terminal()),
        ("stderr", std::io::stderr().is_terminal()),
    ];
    let names: Vec<_> =
        is.iter().filter(|(_, terminal)| *terminal).map(|(name, _)| *name).collect();
    let text = match names[..] {
        [] => "no standard stream is a terminal, so tools get none".to_owned(),
        _ => format!("{}: tools get a terminal of their own", names.join(", ")),
    };
    vec![Finding::ok("terminal", text)]
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn judgements() {
        let status = |setting| judge_tiocsti(setting).status;
        assert_eq!(status(Some("0")), Status::Ok);
        assert_eq!(status(Some("1")), Status::Warn);
        assert_eq!(status(None), Status::Warn);
        let obstacle = || Some("cannot create: why\nhint: do this".to_owned());
        assert_eq!(judge_namespace(None, true).status, Status::Ok);
        assert_eq!(judge_namespace(obstacle(), false).status, Status::Ok);
        assert_eq!(judge_namespace(obstacle(), true).status, Status::Fail);
        assert_eq!(judge_open_files(1024, 4096).status, Status::Ok);
        assert_eq!(judge_open_files(1024, 1024).status, Status::Warn);
    }
}
