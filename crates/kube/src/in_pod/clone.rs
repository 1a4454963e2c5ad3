//! The process of the init container `clone`: runs git, and repeats it while the network does not work yet
//! (`spec/kubernetes.md#the-workspace`).

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aifo_process::{CaughtSignals, SignalSet};
use aifo_terminal::console::{self, EscapedStderr};
use aifo_types::{Ending, Signal};
use anyhow::Context;

/// The first argument; the command line of git follows.
pub(crate) const CLONE: &str = "_clone";

/// The time after the start of the container for which git is run again. Network policies take effect some
/// seconds after it.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// The pause before git is run again.
const PAUSE: Duration = Duration::from_secs(1);
/// The interval at which the end of git and signals are polled.
const TICK: Duration = Duration::from_millis(20);

/// Parts of git's errors, in lower case, of a network that does not work.
const UNREACHABLE: [&str; 9] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "failed to connect",
    "couldn't connect to server",
    "connection refused",
    "connection timed out",
    "connection reset",
    "network is unreachable",
    "no route to host",
];

/// Runs git, and returns its exit code. git removes the files of a clone that fails.
pub(crate) fn process(line: &[OsString]) -> anyhow::Result<ExitCode> {
    let [program, args @ ..] = line else { anyhow::bail!("incomplete command line") };
    // The first process of a container ignores the signals that it does not catch.
    let set = SignalSet::from_iter([Signal::Term, Signal::Int, Signal::Hup]);
    let signals = CaughtSignals::new(set)?;
    let deadline = Instant::now() + RETRY_TIME;
    let mut is_first = true;
    loop {
        let mut git = Command::new(program);
        git.args(args).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut git = git.spawn().context("cannot run git")?;
        let stderr = git.stderr.take().context("cannot run git")?;
        let errors = thread::spawn(move || copy_errors(stderr, EscapedStderr));
        let code = match wait(&mut git, &signals)? {
            Ok(status) => u8::try_from(status.code().unwrap_or(1)).unwrap_or(1),
            Err(signal) => return Ok(ExitCode::from(Ending::Signaled(signal).exit_code())),
        };
        let is_retried =
            code != 0 && errors.join().unwrap_or_default() && Instant::now() + PAUSE < deadline;
        if !is_retried {
            return Ok(ExitCode::from(code));
        }
        if std::mem::take(&mut is_first) {
            let secs = RETRY_TIME.as_secs();
            console::say(format_args!("the pod's network does not work yet, trying for {secs} s"));
        }
        thread::sleep(PAUSE);
    }
}

/// Waits for the end of git. A signal kills it; `Err` has its number.
fn wait(git: &mut Child, signals: &CaughtSignals) -> io::Result<Result<ExitStatus, u8>> {
    loop {
        if let Some(status) = git.try_wait()? {
            return Ok(Ok(status));
        }
        if let Some(signal) = signals.next() {
            git.kill()?;
            git.wait()?;
            return Ok(Err(signal.number));
        }
        thread::sleep(TICK);
    }
}

/// Copies git's stderr. Returns whether a line reports that the network does not work.
fn copy_errors(from: impl Read, mut to: impl Write) -> bool {
    let mut reader = BufReader::new(from);
    let (mut line, mut found) = (Vec::new(), false);
    while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        // Without a stderr the lines are lost.
        let _ = to.write_all(&line);
        let text = String::from_utf8_lossy(&line).to_lowercase();
        found |= UNREACHABLE.iter().any(|part| text.contains(part));
        line.clear();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_errors_are_recognized() {
        for (text, expected) in [
            ("fatal: unable to access 'u': Could not resolve host: git.example\n", true),
            (
                "Cloning into '/workspace'...\nfatal: unable to access 'u': Failed to connect to g port 443 after 2 ms: Couldn't connect to server\n",
                true,
            ),
            ("ssh: connect to host g port 22: Connection refused\n", true),
            ("fatal: Authentication failed for 'u'\n", false),
            ("fatal: Remote branch x not found in upstream origin\n", false),
        ] {
            let mut copied = Vec::new();
            assert_eq!(copy_errors(text.as_bytes(), &mut copied), expected, "{text}");
            assert_eq!(copied, text.as_bytes());
        }
    }
}
