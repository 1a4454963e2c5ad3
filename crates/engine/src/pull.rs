//! Pulls of images, bounded as long as no registry answers.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::messages::error_line;

impl Engine {
    /// Pulls an image and passes each line of the engine output to `progress`. Stops if no registry
    /// answers within `limit`; after the answer the pull may take longer. Ctrl-C at the terminal ends
    /// it, too. Errors: the reason, in one line.
    pub async fn pull(
        &self,
        image: &str,
        limit: Duration,
        mut progress: impl FnMut(&str),
    ) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let mut command =
            tokio::process::Command::from(self.command().args(["pull", image]).prepare());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let (sender, mut lines) = mpsc::unbounded_channel();
        if let Some(stdout) = child.stdout.take() {
            forward(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            forward(stderr, sender);
        }
        let mut text = String::new();
        let mut has_answered = false;
        let deadline = tokio::time::sleep(limit);
        tokio::pin!(deadline);
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = &mut deadline, if !has_answered => {
                    let secs = limit.as_secs();
                    return Err(format!("the registry did not answer within {secs} s"));
                }
            };
            let Some(line) = line else { break };
            has_answered |= is_registry_answer(&line);
            progress(&line);
            text = text + &line + "\n";
        }
        let status = child.wait().await.map_err(failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(error_line(&text).unwrap_or_else(|| status.to_string())),
        }
    }
}

/// The label with the versions of the toolchain in an image, with spaces between them.
pub const VERSIONS_LABEL: &str = "dev.aifo.versions";

/// Returns whether a line of a pull follows a registry's answer: podman prints a line before it
/// connects.
pub fn is_registry_answer(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("Trying to pull")
}

fn forward(stream: impl AsyncRead + Send + Unpin + 'static, to: mpsc::UnboundedSender<String>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;
    use crate::facts::Facts;
    use crate::flavor::Flavor;
    use crate::program::Program;

    /// Pulls with an engine that is a script; returns the lines of progress.
    async fn with_script(name: &str, script: &str) -> (Result<(), String>, Vec<String>) {
        let directory = std::env::temp_dir().join(format!("aifo-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("engine");
        // Written here, it could not be executed while a fork of another test holds the descriptor.
        let write = "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let mut writer = std::process::Command::new("/bin/sh");
        assert!(
            writer.args(["-c", write, "sh"]).arg(&file).arg(script).status().unwrap().success()
        );
        let facts = Facts::parse(Flavor::Docker, b"{}").unwrap();
        let program = Program { file, path: "/usr/bin:/bin".into() };
        let engine = Engine::with(Flavor::Docker, program, facts);
        let mut lines = Vec::new();
        let limit = Duration::from_secs(1);
        let pulled = engine.pull("x", limit, |line| lines.push(line.to_owned())).await;
        fs::remove_dir_all(&directory).unwrap();
        (pulled, lines)
    }

    #[tokio::test]
    async fn a_silent_registry_is_given_up() {
        let start = Instant::now();
        let script = "echo 'Trying to pull x...'; exec sleep 60";
        let (pulled, lines) = with_script("pull-silent", script).await;
        assert_eq!(pulled.unwrap_err(), "the registry did not answer within 1 s");
        assert_eq!(lines, ["Trying to pull x..."]);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_pull_may_take_longer_than_the_answer() {
        let script = "echo 'x: Pulling from library/node'; sleep 2; echo done >&2";
        let (pulled, lines) = with_script("pull-slow", script).await;
        assert_eq!(pulled, Ok(()));
        assert_eq!(lines, ["x: Pulling from library/node", "done"]);
    }

    #[tokio::test]
    async fn an_error_is_returned() {
        let script = "echo 'Error response from daemon: no such host' >&2; exit 1";
        let (pulled, _) = with_script("pull-error", script).await;
        assert_eq!(pulled.unwrap_err(), "no such host");
    }
}
