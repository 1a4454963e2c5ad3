//! `run --keep`, `attach` and `detach`: sessions that outlive their terminal (`spec/attach.md`).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use aifo_config::{UsageError, detach_keys};
use aifo_host::{
    HeldDirectory, HeldSession, HeldState, SessionLog, held_sessions, running_sessions,
    sessions_meant, short,
};
use aifo_kube::client::{self, Cluster};
use aifo_terminal::{
    ClientEnd, Connection, Held, Holder, PROGRAM, console, disconnect_clients, show_held,
};
use aifo_types::exit;
use anyhow::{Context, bail};

use crate::choice::{self, Row};
use crate::{cli, logout};

/// The first argument of a process that holds a terminal.
const HOLD: &str = "_hold";

/// Runs a holder, if the command line is one's.
pub(crate) fn process(first: &OsStr, rest: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    (first == HOLD).then(|| hold(rest).map(|()| ExitCode::SUCCESS))
}

/// Holds a session terminal: `_hold ID COMMAND ARGS`, with the first client as stdin, if any. The
/// end of stderr reports the start.
fn hold(line: &[OsString]) -> anyhow::Result<()> {
    let [id, command, args @ ..] = line else { bail!("incomplete command line") };
    let id = id.to_string_lossy();
    let stdin = aifo_process::take_fd(0)?;
    let is_client = UnixStream::from(stdin.try_clone()?).peer_addr().is_ok();
    let first = is_client.then(|| UnixStream::from(stdin));
    let directory =
        HeldDirectory::create(&id, command).context("cannot create the holder's directory")?;
    let held = Held { first, ..Held::session(directory.path(), &id, args)? };
    let holder = Holder::start(held).context("cannot hold a terminal")?;
    drop(aifo_process::take_fd(2)?);
    holder.run()?;
    directory.close();
    Ok(())
}

/// Whether `run` starts a held session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// With this terminal as its first client.
    Attached,
    /// Without a client.
    Detached,
}

/// Starts the session of this command line under a holder.
pub(crate) fn start(keep: Keep, command_name: &OsStr) -> anyhow::Result<ExitCode> {
    if keep == Keep::Attached && !console::is_on_terminal() {
        let hint = "leave out --keep, or start without a terminal: --detach";
        return Err(UsageError(format!("stdin and stdout are no terminal\nhint: {hint}")).into());
    }
    let id = aifo_host::new_id()?;
    let (ours, holders) = UnixStream::pair()?;
    let first = match keep {
        Keep::Attached => Stdio::from(OwnedFd::from(holders)),
        Keep::Detached => Stdio::null(),
    };
    let mut holder = {
        // Dropped with its copy of the first client's connection.
        let mut command = Command::new(PROGRAM);
        command.arg0("aifo-coder").args([OsStr::new(HOLD), OsStr::new(&id), command_name]);
        command.args(std::env::args_os().skip(2));
        command.stdin(first).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().context("cannot start a holder")?
    };
    match keep {
        Keep::Attached => {
            let end = show_held(Connection::of_stream(ours)?, detach_keys())?;
            if end == ClientEnd::Lost {
                started(&mut holder)?;
            }
            after(end, &id)
        }
        Keep::Detached => {
            started(&mut holder)?;
            wait_until_running(&id)?;
            logout::warn();
            aifo_terminal::paint::print(&format!("{id}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Waits until the holder has started. Errors: why it has not.
fn started(holder: &mut Child) -> anyhow::Result<()> {
    let mut error = String::new();
    if let Some(mut stderr) = holder.stderr.take() {
        stderr.read_to_string(&mut error)?;
    }
    match error.trim() {
        "" => Ok(()),
        error => bail!("{}", error.strip_prefix("aifo-coder: ").unwrap_or(error)),
    }
}

/// Waits until the session runs. Errors: it has ended.
fn wait_until_running(id: &str) -> anyhow::Result<()> {
    while !running_sessions().iter().any(|session| session.id == id) {
        match HeldSession::find(id).map(|held| held.state) {
            Some(HeldState::Running(_)) => std::thread::sleep(Duration::from_millis(20)),
            _ => bail!(
                "the session ended before it ran\nhint: see why: aifo-coder attach {}",
                short(id)
            ),
        }
    }
    Ok(())
}

/// The name of the session with this id, else the beginning of the id.
fn name_of(id: &str) -> String {
    let running = running_sessions().into_iter().find(|session| session.id == id);
    let name = running.map(|session| session.name);
    let name = name.or_else(|| SessionLog::of_session(id).map(|log| log.name)).unwrap_or_default();
    if name.is_empty() { short(id).to_owned() } else { name }
}

/// Reports the end of a client.
fn after(end: ClientEnd, id: &str) -> anyhow::Result<ExitCode> {
    let name = name_of(id);
    match end {
        ClientEnd::Ended(ending) => return Ok(ExitCode::from(ending.exit_code())),
        ClientEnd::HungUp => {}
        ClientEnd::Left => {
            console::say(format_args!(
                "session {name} continues; return with: aifo-coder attach {name}"
            ));
            logout::warn();
        }
        ClientEnd::Disconnected => console::say(format_args!(
            "session {name} was detached; return with: aifo-coder attach {name}"
        )),
        ClientEnd::Lost => {
            return match HeldSession::find(id) {
                Some(held) if held.state != HeldState::Lost => show(&held),
                _ => lost(id),
            };
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lost(id: &str) -> anyhow::Result<ExitCode> {
    console::fail(&anyhow::anyhow!(
        "the holder of session {} was killed; the session's command was hung up\n\
         hint: remove what is left with: aifo-coder clean",
        name_of(id)
    ));
    Ok(ExitCode::from(exit::UNKNOWN))
}

/// Shows a held session, or its end.
fn show(held: &HeldSession) -> anyhow::Result<ExitCode> {
    let id = &held.record.id;
    match held.state {
        HeldState::Running(_) => {
            let connection = match Connection::open(&held.directory) {
                // It is ending, or was killed and still has its lock.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return match HeldSession::find(id) {
                        Some(held) if matches!(held.state, HeldState::Ended(_)) => show(&held),
                        _ => lost(id),
                    };
                }
                opened => opened.with_context(|| {
                    format!("cannot connect to the holder of session {}", name_of(id))
                })?,
            };
            let end = show_held(connection, detach_keys())?;
            match HeldSession::find(id) {
                // It ended while this client connected.
                Some(held)
                    if end == ClientEnd::Lost && matches!(held.state, HeldState::Ended(_)) =>
                {
                    show(&held)
                }
                _ => after(end, id),
            }
        }
        HeldState::Ended(_) => {
            let end = show_held(Connection::to_end(&held.directory)?, detach_keys())?;
            held.remove().context("cannot remove the holder's directory")?;
            after(end, id)
        }
        HeldState::Lost => {
            held.remove().context("cannot remove the holder's directory")?;
            lost(id)
        }
    }
}

pub(crate) async fn attach(flags: &cli::Attach) -> anyhow::Result<ExitCode> {
    if let Some(cluster) =
        Cluster::selected(&flags.of.cluster.flags(), flags.of.session.as_deref()).await?
    {
        return client::attach(&cluster, flags.of.session.as_deref()).await;
    }
    if !console::is_on_terminal() {
        let error = "stdin and stdout are no terminal\nhint: run it in a terminal";
        return Err(UsageError(error.to_owned()).into());
    }
    show(&chosen(flags.of.session.as_deref(), held_sessions())?)
}

pub(crate) async fn detach(flags: &cli::Detach) -> anyhow::Result<ExitCode> {
    if let Some(cluster) =
        Cluster::selected(&flags.of.cluster.flags(), flags.of.session.as_deref()).await?
    {
        return client::relay(&cluster, flags).await;
    }
    let running = |held: &HeldSession| matches!(held.state, HeldState::Running(_));
    let sessions = held_sessions().into_iter().filter(running).collect();
    let held = chosen(flags.of.session.as_deref(), sessions)?;
    let name = name_of(&held.record.id);
    disconnect_clients(&held.directory)
        .with_context(|| format!("cannot reach the holder of session {name}"))?;
    console::say(format_args!("session {name} continues; return with: aifo-coder attach {name}"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the held session that is meant.
fn chosen(given: Option<&str>, mut sessions: Vec<HeldSession>) -> anyhow::Result<HeldSession> {
    let running = running_sessions();
    let rows: Vec<_> = sessions.iter().map(|held| Row::of_held(held, &running)).collect();
    let first_meant = |rows: &[Row]| {
        let candidates: Vec<_> = rows.iter().map(|row| row.candidate.clone()).collect();
        sessions_meant(given, &choice::here(), &candidates).first().copied()
    };
    let others: Vec<_> = running.iter().map(Row::from).collect();
    if let (None, Some(other)) = (first_meant(&rows), first_meant(&others)) {
        bail!(
            "session {} has no holder, so only its own terminal shows it\n\
             hint: start sessions with: aifo-coder run --keep",
            others.get(other).map(Row::label).unwrap_or_default()
        );
    }
    Ok(sessions.swap_remove(choice::choose(given, "held session", &rows)?))
}
