//! What a session would find on this machine: its configuration, its place, its predecessors.

use std::path::Path;

use aifo_launch::{CheckedWorkspace, killed_sessions, runtime_directory};

use super::CheckContext;
use super::report::Finding;

pub(super) fn config(context: &CheckContext) -> Vec<Finding> {
    if let Some(mistake) = &context.mistake {
        return vec![Finding::failure("config", mistake, "see: aifo-coder config check")];
    }
    let kinds = context.config.toolchains.value.words();
    if kinds.is_empty() {
        let fix = "name a toolchain with --toolchain, or in the configuration file";
        let text = "no toolchain fits the files of the workspace, so every tool would be refused";
        return vec![Finding::warn("config", text, fix)];
    }
    vec![Finding::ok("config", format!("a session here would have {}", kinds.join(", ")))]
}

/// Whether an agent may be given the workspace.
pub(super) fn workspace(context: &CheckContext) -> Vec<Finding> {
    vec![match CheckedWorkspace::new(&context.workspace) {
        Ok(workspace) => Finding::ok("workspace", format!("{}", workspace.path().display())),
        Err(error) => Finding::failure("workspace", &error, "name another with --workspace"),
    }]
}

/// The programs of this machine that sessions would start, and those that they would not.
pub(super) fn programs(context: &CheckContext) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ["docker", "podman", "git"] {
        let (trusted, refused) = context.programs.search(name);
        let check = format!("program {name}");
        findings.extend(refused.into_iter().map(|(file, why)| {
            let text = format!("'{}' is never started: {why}", file.display());
            Finding::warn(&check, text, "take its directory out of PATH")
        }));
        findings.extend(trusted.map(|file| Finding::ok(&check, file.display().to_string())));
    }
    findings
}

pub(super) fn runtime_dir(_scene: &CheckContext) -> Vec<Finding> {
    vec![judge_runtime_dir(&runtime_directory())]
}

/// What a session puts after its place to get the address of its socket.
const SOCKET: &str = "/aifo-0123456789abcdef/front/exec.sock";
/// Of a unix socket's path (`sun_path`, with its last zero).
const MAX_ADDRESS: usize = 107;

fn judge_runtime_dir(place: &Path) -> Finding {
    let length = place.as_os_str().len() + SOCKET.len();
    let text = format!("{}, so a socket's path has {length} bytes", place.display());
    match length {
        0..=MAX_ADDRESS => Finding::ok("runtime folder", text),
        _ => Finding::warn(
            "runtime folder",
            format!("{text}: too long for clients other than ours"),
            "set XDG_RUNTIME_DIR, or TMPDIR, to a shorter path",
        ),
    }
}

pub(super) fn killed(_scene: &CheckContext) -> Vec<Finding> {
    let killed = killed_sessions();
    vec![match killed[..] {
        [] => Finding::ok("killed sessions", "none has left anything here"),
        _ => Finding::warn(
            "killed sessions",
            format!("{} left something", killed.join(", ")),
            "aifo-coder cleanup",
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Status;

    #[test]
    fn long_places_are_told() {
        assert_eq!(judge_runtime_dir(Path::new("/run/user/1000")).status, Status::Ok);
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(judge_runtime_dir(Path::new(&long)).status, Status::Warn);
    }
}
