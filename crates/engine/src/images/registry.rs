//! Bases from a container registry, by digest.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::images::host::{Host, read};
use crate::{error_line, is_registry_answer};

/// How long a registry may take until it answers. The pull itself may take longer.
const ANSWER: Duration = Duration::from_secs(5);

/// The official image of a Debian release, without tag or digest.
const REPOSITORY: &str = "docker.io/library/debian";

/// Returns the name of a release's image in the lock file.
pub(crate) fn locked_name(release: &str) -> String {
    format!("debian:{release}-slim")
}

/// Returns the image with this digest. Pulls it if the engine lacks it. Errors: the registry does not
/// answer in time, or the pull fails, with the reason.
pub(crate) fn with_digest(host: &Host, digest: &str) -> Result<String, String> {
    let image = format!("{REPOSITORY}@{digest}");
    let mut inspect = host.command(["image", "inspect", "--format", "{{.Id}}", &image]);
    if read("", &mut inspect).is_err() {
        pull(host, &image, ANSWER)?;
    }
    Ok(image)
}

/// Pulls the newest image of a release and returns its digest.
pub(crate) fn newest_digest(host: &Host, release: &str) -> Result<String, String> {
    let image = format!("{REPOSITORY}:{release}-slim");
    pull(host, &image, ANSWER)?;
    let format = "{{range .RepoDigests}}{{println .}}{{end}}";
    let mut inspect = host.command(["image", "inspect", "--format", format, &image]);
    let digests = read(&image, &mut inspect).map_err(|error| error.to_string())?;
    let mut digests = digests.lines().filter_map(|line| line.split_once('@'));
    let digest = digests.find(|(name, _)| name.ends_with("debian"));
    digest.map(|(_, digest)| digest.to_owned()).ok_or_else(|| "it has no digest".to_owned())
}

/// Pulls an image; kills the engine program if the registry does not answer within `limit`.
fn pull(host: &Host, image: &str, limit: Duration) -> Result<(), String> {
    let mut command = host.command(["pull", image]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (sender, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        forward(stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        forward(stderr, sender);
    }
    let deadline = Instant::now() + limit;
    let mut text = String::new();
    let mut has_answered = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match has_answered {
            true => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => lines.recv_timeout(left),
        };
        match line {
            Ok(line) => {
                has_answered |= is_registry_answer(&line);
                text = text + &line + "\n";
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the registry did not answer within {} s", limit.as_secs()));
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(error_line(&text).unwrap_or_else(|| status.to_string())),
    }
}

fn forward(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flavor;
    use crate::images::script::script;

    /// Pulls with an engine that is a script.
    fn with_script(body: &str) -> (Result<(), String>, Duration) {
        let scratch = tempfile::tempdir().unwrap();
        let engine = script(scratch.path(), "engine", body);
        let host = Host { flavor: Flavor::Docker, engine, mmdebstrap: None };
        let start = Instant::now();
        (pull(&host, "x", Duration::from_secs(1)), start.elapsed())
    }

    #[test]
    fn a_silent_registry_is_given_up() {
        let (pulled, took) = with_script("echo 'Trying to pull x...'; exec sleep 60");
        assert_eq!(pulled.unwrap_err(), "the registry did not answer within 1 s");
        assert!(took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn a_pull_may_take_longer_than_the_answer() {
        let script = "echo 'x: Pulling from library/debian'; sleep 2; echo done";
        let (pulled, took) = with_script(script);
        assert_eq!(pulled, Ok(()));
        assert!(took >= Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn an_error_is_returned() {
        let (pulled, _) =
            with_script("echo 'Error response from daemon: no such host' >&2; exit 1");
        assert_eq!(pulled.unwrap_err(), "no such host");
    }
}
