//! Reads the stderr of an engine's command.

use std::io;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::sync::watch;

use crate::progress::Progress;

/// The stderr of an engine's command: the progress of a pull, errors, and the runner's stderr.
pub(super) struct EngineStderr {
    stderr: Option<BufReader<ChildStderr>>,
    /// The incomplete last line.
    line: Vec<u8>,
    /// The last complete lines, at most [`MAX_LINES`].
    lines: Vec<String>,
    phase: Phase,
    progress: Option<Progress>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It pulls the image, which can take minutes.
    Pulling,
    /// It creates the container, or the container runs.
    Creating,
}

/// Lines kept for error messages.
const MAX_LINES: usize = 32;

impl EngineStderr {
    pub(super) fn new(stderr: Option<ChildStderr>, progress: Option<&Progress>) -> Self {
        let (line, lines) = (Vec::new(), Vec::new());
        let (stderr, progress) = (stderr.map(BufReader::new), progress.cloned());
        EngineStderr { stderr, line, lines, phase: Phase::Creating, progress }
    }

    /// Returns the last line with an error.
    pub(super) fn error_line(&self) -> Option<String> {
        aifo_engine::error_line(&self.lines.join("\n"))
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    pub(super) fn stop_progress(&mut self) {
        self.progress = None;
    }

    /// Reads until the command has ended, and returns its exit code; `None` after a signal.
    pub(super) async fn wait(&mut self, child: &mut Child) -> io::Result<Option<i32>> {
        while self.read_line().await? {}
        Ok(child.wait().await?.code())
    }

    /// As [`EngineStderr::wait`], but kills a command that is pulling when the start is cancelled.
    pub(super) async fn wait_unless_cancelled(
        &mut self,
        child: &mut Child,
        cancelled: &mut watch::Receiver<bool>,
    ) -> io::Result<Option<i32>> {
        loop {
            let is_pulling = self.phase == Phase::Pulling;
            tokio::select! {
                more = self.read_line() => if !more? { break },
                _ = cancelled.wait_for(|cancelled| *cancelled), if is_pulling => {
                    // The pull ends with the command. Another process may keep stderr open.
                    child.start_kill()?;
                    break;
                }
            }
        }
        Ok(child.wait().await?.code())
    }

    /// Reads a line; `false` at the end.
    async fn read_line(&mut self) -> io::Result<bool> {
        let Some(stderr) = &mut self.stderr else { return Ok(false) };
        if stderr.read_until(b'\n', &mut self.line).await? == 0 {
            return Ok(false);
        }
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        tracing::debug!("{line}");
        if let Some(progress) = &self.progress {
            progress.line(&line);
        }
        // The first is docker's, the second podman's.
        let starts = |prefixes: [&str; 2]| prefixes.iter().any(|prefix| line.starts_with(prefix));
        if starts(["Unable to find image", "Trying to pull"]) {
            self.phase = Phase::Pulling;
        } else if starts(["Status: ", "Writing manifest"]) {
            self.phase = Phase::Creating;
        }
        self.lines.push(line);
        if self.lines.len() > MAX_LINES {
            self.lines.remove(0);
        }
        Ok(true)
    }
}
