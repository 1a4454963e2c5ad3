//! Processes of a pod that copy its workspace: `_workspace ACTION` (`spec/kubernetes.md#upload`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use aifo_host::{EndSignals, user_command};
use aifo_process::{CaughtSignals, SignalSet};
use aifo_sync::{
    Git, ObjectId, PushFailure, PushState, Remote, ResultRequest, SyncError, has_result,
    push_result, receive_result, receive_upload, references_digest, send_changes, send_result,
    session_start,
};
use aifo_terminal::console;
use aifo_types::{Signal, env};
use anyhow::bail;

use crate::CREDENTIAL_HELPER;

/// The first argument.
pub(crate) const WORKSPACE_IN_POD: &str = "_workspace";
/// The process of the init container `upload`: `wait`.
pub(crate) const WAIT: &str = "wait";
/// Receives an upload from stdin.
pub(crate) const RECEIVE: &str = "receive";
/// Reads a snapshot from stdin, and writes the changes since then to stdout.
pub(crate) const CHANGES: &str = "changes";
/// Writes the result branch to stdout. With a further word [`ENDED`], it is pushed before, if it has to be.
pub(crate) const RESULT: &str = "result";
/// Prints a line that changes with `HEAD` and the references; it is empty without a repository.
pub(crate) const REFERENCES: &str = "references";
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

/// The same for a clone without a result: a client reads that there is none.
const NO_RESULT_WITHIN: Duration = Duration::from_secs(60);

/// The workspace is the working directory of all containers.
const WORKSPACE: &str = ".";
/// Marks a complete upload, in the temporary directory of the init container.
const UPLOADED: &str = "aifo-uploaded";
/// Marks the end of the session, in the temporary directory of the container `aifo`.
const SESSION_ENDED: &str = "aifo-ended";

/// The commits that the repository had before the agent started, in the temporary directory of `aifo`.
const START: &str = "aifo-session-start";
/// Whether the result was pushed, in the same directory.
const PUSH: &str = "aifo-push";

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
        RESULT => {
            if line.get(1).is_some_and(|word| word == ENDED) {
                push_once()?;
            }
            with_request(|request| {
                send_result(request, BufWriter::new(client()?)).map_err(Into::into)
            })?;
        }
        REFERENCES => {
            let digest = references_digest(workspace)?.unwrap_or_default();
            client()?.write_all(format!("{digest}\n").as_bytes())?;
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
    let mut client = client()?;
    client.write_all(format!("{RECEIVED} {count}\n").as_bytes())?;
    // Until the end of this process: with a closed stdout, a container runtime closes its stdin.
    if stdin.read(&mut [0])? > 0 {
        fs::write(marker(UPLOADED), "")?;
    }
    Ok(())
}

/// Records the commits of the workspace repository, before the agent starts. Returns false if another process has.
pub fn record_start() -> anyhow::Result<bool> {
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    if ![env::POD_GIT, env::POD_UPLOAD].iter().any(is_set) || marker(START).exists() {
        return Ok(false);
    }
    let start = session_start(Path::new(WORKSPACE));
    let text: String = start.iter().map(|id| format!("{id}\n")).collect();
    fs::write(marker(START), text)?;
    Ok(true)
}

/// Pushes the result, unless a process has, and returns the report; `None` without `--git-push` or a result.
pub(crate) fn push_once() -> anyhow::Result<Option<String>> {
    let Ok(url) = std::env::var(env::POD_PUSH) else { return Ok(None) };
    // Waits for another process that pushes.
    let lock = File::create(marker("aifo-push.lock"))?;
    lock.lock()?;
    if !marker(PUSH).exists() {
        let (word, text) = match with_request(|request| push(request, &url)) {
            Ok(true) => ("pushed", url),
            Ok(false) => ("none", String::new()),
            Err(error) => ("failed", push_error(&error)),
        };
        fs::write(marker(PUSH), format!("{word} {text}"))?;
    }
    let session = std::env::var(env::POD_SESSION).unwrap_or_default();
    Ok(match push_state() {
        PushState::None => None,
        PushState::Pushed(url) => Some(format!("pushed aifo/{session} to {url}")),
        PushState::Failed(why) => Some(format!("cannot push aifo/{session}: {why}")),
    })
}

/// Receives the result as a client does, and pushes it. Returns false if there is none.
fn push(request: &ResultRequest<'_>, url: &str) -> anyhow::Result<bool> {
    let scratch = tempfile::Builder::new().prefix("aifo-push-").tempdir()?;
    let mut stream = tempfile::tempfile()?;
    send_result(request, BufWriter::new(&mut stream))?;
    stream.rewind()?;
    let repository = scratch.path().join("result.git");
    let result = receive_result(request.git, &repository, request.session, BufReader::new(stream))?;
    if result.branches.is_empty() {
        return Ok(false);
    }
    let is_of_git = |name: &str| GIT_VARIABLES.iter().any(|known| known.eq_ignore_ascii_case(name));
    let variables: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_of_git(name))
        .collect();
    let has_login = std::env::var_os(env::GIT_PASSWORD).is_some();
    let credential_helper = has_login.then_some(CREDENTIAL_HELPER);
    push_result(
        request.git,
        &repository,
        &result,
        Remote { url, credential_helper, variables: &variables },
    )?;
    Ok(true)
}

/// Variables that git gets for a push, in any case: the login, and those of HTTP.
const GIT_VARIABLES: [&str; 8] = [
    env::GIT_USERNAME,
    env::GIT_PASSWORD,
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "GIT_SSL_CAINFO",
];

fn push_error(error: &anyhow::Error) -> String {
    match error.downcast_ref::<SyncError>() {
        Some(error @ SyncError::Git { action, .. }) if action == "push" => {
            let (cause, hint) = PushFailure::of(error).explanation();
            format!("{cause}: {error}; hint: {hint}")
        }
        _ => error.to_string(),
    }
}

fn push_state() -> PushState {
    let text = fs::read_to_string(marker(PUSH)).unwrap_or_default();
    match text.split_once(' ') {
        Some(("pushed", url)) => PushState::Pushed(url.to_owned()),
        Some(("failed", why)) => PushState::Failed(why.to_owned()),
        _ => PushState::None,
    }
}

/// Calls `work` with the request for this workspace's result.
fn with_request<T>(
    work: impl FnOnce(&ResultRequest<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let start = fs::read_to_string(marker(START)).unwrap_or_default();
    let start: Vec<_> = start.lines().filter_map(|line| ObjectId::parse(line.as_bytes())).collect();
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    work(&ResultRequest {
        git: &Git::new("git", path).in_pod(),
        workspace: &Path::new(WORKSPACE).canonicalize()?,
        scratch: &std::env::temp_dir(),
        session: &std::env::var(env::POD_SESSION).unwrap_or_default(),
        start: &start,
        // The files of an upload come back by the fetch of its changes.
        commits_files: std::env::var_os(env::POD_UPLOAD).is_none(),
        push: push_state(),
    })
}

/// Pushes the result of a session that has ended, if the session pushes, and marks the end. Returns how long its workspace
/// waits for a fetch; `None` if it was neither uploaded nor cloned.
fn end_session() -> anyhow::Result<Option<Duration>> {
    let is_clone = std::env::var_os(env::POD_GIT).is_some();
    if !is_clone && std::env::var_os(env::POD_UPLOAD).is_none() {
        return Ok(None);
    }
    // A repository that cannot be read waits too, so that the user can inspect it.
    let waits = match push_once()? {
        Some(report) => {
            console::say(report);
            matches!(push_state(), PushState::Failed(_))
        }
        None => !is_clone || with_request(|request| Ok(has_result(request)?)).unwrap_or(true),
    };
    fs::write(marker(SESSION_ENDED), "")?;
    Ok(Some(if waits { FETCH_WITHIN } else { NO_RESULT_WITHIN }))
}

/// Waits until the client deletes the pod, as it does after a fetch, if the workspace was uploaded or cloned. After a
/// `signal` that ends the pod it only pushes.
pub(crate) fn wait_for_fetch(signal: Option<u8>) -> anyhow::Result<()> {
    let signals = ends()?;
    let within = end_session()?.filter(|_| signal.is_none());
    let Some(within) = within else { return Ok(()) };
    let deadline = Instant::now() + within;
    while Instant::now() < deadline && signals.next().is_none() {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Waits for a fetch, in the first process of a rendered pod.
pub async fn wait_in_rendered_pod() -> anyhow::Result<()> {
    let mut signals = EndSignals::listen()?;
    let Some(within) = end_session()? else { return Ok(()) };
    if within == FETCH_WITHIN {
        let (hours, fetch) = (within.as_secs() / 3600, user_command("kube fetch"));
        console::say(format_args!(
            "the pod waits up to {hours} h for a fetch of its work: {fetch}"
        ));
    }
    tokio::select! {
        () = tokio::time::sleep(within) => {}
        _ = signals.recv() => {}
    }
    Ok(())
}

/// Catches the signals that end the pod: the first process of a container ignores others.
fn ends() -> io::Result<CaughtSignals> {
    Ok(CaughtSignals::new(SignalSet::from_iter([Signal::Term, Signal::Int]))?)
}
