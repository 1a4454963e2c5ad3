//! Processes of a pod that copy its workspace: `_workspace ACTION` (`spec/kubernetes.md#upload`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use aifo_process::{CaughtSignals, SignalSet};
use aifo_sync::{receive_upload, send_changes};
use aifo_types::{Signal, env};
use anyhow::bail;

/// The first argument.
pub(crate) const WORKSPACE_IN_POD: &str = "_workspace";
/// The process of the init container `upload`: `wait`.
pub(crate) const WAIT: &str = "wait";
/// Receives an upload from stdin.
pub(crate) const RECEIVE: &str = "receive";
/// Reads a snapshot from stdin, and writes the changes since then to stdout.
pub(crate) const CHANGES: &str = "changes";
/// Prints whether the session has ended.
pub(crate) const STATE: &str = "state";
/// The line of `receive` before the client confirms.
pub(crate) const RECEIVED: &str = "received";
/// The line of `state` after the session's end.
pub(crate) const ENDED: &str = "ended";

/// The time for an upload.
const UPLOAD_WITHIN: Duration = Duration::from_secs(600);
/// How long the files of a session that has ended wait for a fetch.
const FETCH_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// The workspace is the working directory of all containers.
const WORKSPACE: &str = ".";
/// Marks a complete upload, in the temporary directory of the init container.
const UPLOADED: &str = "aifo-uploaded";
/// Marks the end of the session, in the temporary directory of the container `aifo`.
const SESSION_ENDED: &str = "aifo-ended";

fn marker(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

pub(crate) fn process(line: &[OsString]) -> anyhow::Result<ExitCode> {
    let action = line.first().and_then(|word| word.to_str()).unwrap_or_default();
    let workspace = Path::new(WORKSPACE);
    match action {
        WAIT => return wait(),
        RECEIVE => receive(workspace)?,
        CHANGES => {
            let request = BufReader::new(io::stdin().lock());
            send_changes(workspace, request, BufWriter::new(client()?))?;
        }
        STATE => {
            let is_ended = marker(SESSION_ENDED).exists();
            let state = if is_ended { ENDED } else { "runs" };
            client()?.write_all(format!("{state}\n").as_bytes())?;
        }
        _ => bail!("unknown action '{action}' of '{WORKSPACE_IN_POD}'"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the pipe to the client.
fn client() -> anyhow::Result<File> {
    Ok(File::from(aifo_process::take_fd(1)?))
}

/// Waits until the upload is complete.
fn wait() -> anyhow::Result<ExitCode> {
    let signals = ends()?;
    let deadline = Instant::now() + UPLOAD_WITHIN;
    while !marker(UPLOADED).exists() {
        if signals.next().is_some() {
            return Ok(ExitCode::FAILURE);
        }
        if Instant::now() >= deadline {
            bail!("no client has uploaded the workspace within {} s", UPLOAD_WITHIN.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}

/// Receives the files. The container ends with the marker, and this process with it, so the client has to read
/// the result first.
fn receive(workspace: &Path) -> anyhow::Result<()> {
    let mut stdin = BufReader::new(io::stdin().lock());
    let count = receive_upload(workspace, &mut stdin)?;
    // Open until the confirmation: containerd closes stdin at the end of stdout.
    let mut client = client()?;
    client.write_all(format!("{RECEIVED} {count}\n").as_bytes())?;
    if stdin.read(&mut [0])? > 0 {
        fs::write(marker(UPLOADED), "")?;
    }
    drop(client);
    Ok(())
}

/// Waits until the client deletes the pod, as it does after a fetch, if the workspace was uploaded.
pub(crate) fn wait_for_fetch() -> anyhow::Result<()> {
    if std::env::var_os(env::POD_UPLOAD).is_none() {
        return Ok(());
    }
    let signals = ends()?;
    fs::write(marker(SESSION_ENDED), "")?;
    let deadline = Instant::now() + FETCH_WITHIN;
    while Instant::now() < deadline && signals.next().is_none() {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Catches the signals that end the pod: the first process of a container ignores others.
fn ends() -> io::Result<CaughtSignals> {
    let mut set = SignalSet::default();
    for signal in [Signal::Term, Signal::Int] {
        set.insert(signal.number());
    }
    Ok(CaughtSignals::new(set)?)
}
