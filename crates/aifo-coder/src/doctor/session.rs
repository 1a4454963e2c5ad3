//! What a session would find on this machine: its configuration, its place, its predecessors.

use std::path::Path;

use aifo_launch::{killed_sessions, runtime_directory};

use super::Scene;
use super::report::Finding;

pub(super) fn config(scene: &Scene) -> Vec<Finding> {
    if let Some(mistake) = &scene.mistake {
        return vec![Finding::failure("config", mistake, "see: aifo-coder config check")];
    }
    let kinds = scene.config.toolchains.value.words();
    if kinds.is_empty() {
        let fix = "name a toolchain with --toolchain, or in the configuration file";
        let text = "no toolchain fits the files of the workspace, so every tool would be refused";
        return vec![Finding::warn("config", text, fix)];
    }
    vec![Finding::ok("config", format!("a session here would have {}", kinds.join(", ")))]
}

pub(super) fn runtime_folder(_scene: &Scene) -> Vec<Finding> {
    vec![judge_place(&runtime_directory())]
}

/// What a session puts after its place to get the address of its socket.
const SOCKET: &str = "/aifo-0123456789abcdef/front/exec.sock";
/// Of a unix socket's path (`sun_path`, with its last zero).
const MAX_ADDRESS: usize = 107;

fn judge_place(place: &Path) -> Finding {
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

pub(super) fn killed(_scene: &Scene) -> Vec<Finding> {
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
        assert_eq!(judge_place(Path::new("/run/user/1000")).status, Status::Ok);
        let long = format!("/{}", "x".repeat(80));
        assert_eq!(judge_place(Path::new(&long)).status, Status::Warn);
    }
}
