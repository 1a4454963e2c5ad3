//! Processes of the container `aifo` of a pod (`spec/kubernetes.md#the-terminal`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use aifo_host::{HeldDirectory, HeldSession, HeldState};
use aifo_process::{CaughtSignals, SignalSet, signal_selected};
use aifo_terminal::{END_FILE, Held, Holder, SOCKET, connect};
use aifo_types::{Ending, Signal, env};
use anyhow::{Context, bail};

pub(crate) mod clone;
pub(crate) mod command;
pub(crate) mod workspace;

use self::clone::CLONE;
use self::command::COMMAND;
use self::workspace::WORKSPACE_IN_POD;
pub use self::workspace::{record_start, wait_in_rendered_pod};

/// The first argument of the first process of the container `aifo`: `_pod SECS [SIZE COMMAND ARGS..]`.
pub(crate) const HOLD_IN_POD: &str = "_pod";
/// The first argument of the process that sends a signal to a client's command: `_signal NUMBER`.
pub(crate) const SIGNAL: &str = "_signal";
/// The first argument of the process that connects a client with the holder.
pub(crate) const RELAY: &str = "_relay";

/// The time for clients to receive the end, through the API server.
const END_CONFIRMED_WITHIN: Duration = Duration::from_secs(10);
/// How long an end waits for a client. Then the container ends with the agent's exit code.
const END_KEPT: Duration = Duration::from_secs(60 * 60);
/// The time for the holder to listen, after the start of the container.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// Holds the terminal of the pod's session (`_pod SECS SIZE COMMAND ARGS`), or waits for clients' commands
/// (`_pod SECS`). SECS is the time for the first client; with a terminal, 0 means no limit.
pub(crate) fn hold(line: &[OsString]) -> anyhow::Result<ExitCode> {
    let [secs, rest @ ..] = line else { bail!("incomplete command line") };
    let secs: u64 = secs.to_string_lossy().parse().context("invalid number of seconds")?;
    record_start()?;
    let [size, command, args @ ..] = rest else {
        let signal = wait_for_commands(Duration::from_secs(secs))?;
        workspace::wait_for_fetch(signal)?;
        let ending = signal.map_or(Ending::Exited(0), Ending::Signaled);
        return Ok(ExitCode::from(ending.exit_code()));
    };
    let id = session()?;
    let directory =
        HeldDirectory::create(&id, command).context("cannot create the holder's directory")?;
    let held = Held {
        size: size.to_string_lossy().parse()?,
        first_client_within: (secs > 0).then(|| Duration::from_secs(secs)),
        end_confirmed_within: Some(END_CONFIRMED_WITHIN),
        ..Held::session(directory.path(), &id, args)?
    };
    let ending = Holder::start(held).context("cannot hold a terminal")?.run()?;
    // Also if no client comes.
    workspace::push_once()?;
    let signal = wait_for_reader(directory.path())?;
    workspace::wait_for_fetch(signal)?;
    directory.close();
    Ok(ExitCode::from(ending.exit_code()))
}

/// Waits while clients run commands in this container, the first of which has to start in time. Returns the signal
/// that ends the pod.
fn wait_for_commands(first_within: Duration) -> io::Result<Option<u8>> {
    let signals = CaughtSignals::new(end_signals())?;
    let mut deadline = Instant::now() + first_within;
    while Instant::now() < deadline {
        if let Some(signal) = signals.next() {
            return Ok(Some(signal.number));
        }
        while aifo_process::reap().is_some() {}
        if has_other_processes()? {
            deadline = Instant::now() + BETWEEN_COMMANDS;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(None)
}

/// The pause after a command, in which another one may start.
const BETWEEN_COMMANDS: Duration = Duration::from_secs(5);

/// Returns whether the container has another process.
fn has_other_processes() -> io::Result<bool> {
    let own = std::process::id().to_string();
    let is_process = |name: &str| name != own && name.bytes().all(|byte| byte.is_ascii_digit());
    let mut entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.any(|entry| entry.file_name().to_str().is_some_and(is_process)))
}

fn end_signals() -> SignalSet {
    SignalSet::from_iter([Signal::Term, Signal::Int, Signal::Hup])
}

fn session() -> anyhow::Result<String> {
    std::env::var(env::POD_SESSION).context("this process is not in a pod of a session")
}

/// Waits until a client has read the end, if none has. Returns the signal that ends the pod.
fn wait_for_reader(directory: &Path) -> io::Result<Option<u8>> {
    // The first process of a container ignores other signals. The end of the terminal sends HUP.
    let signals = CaughtSignals::new(end_signals())?;
    let deadline = Instant::now() + END_KEPT;
    while directory.join(END_FILE).exists() && Instant::now() < deadline {
        if let Some(signal) = signals.next().filter(|it| it.number != Signal::Hup.number()) {
            return Ok(Some(signal.number));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(None)
}

/// Copies frames between stdin, stdout and the holder.
pub(crate) fn relay() -> anyhow::Result<ExitCode> {
    let id = session()?;
    let deadline = Instant::now() + CONNECT_TIME;
    loop {
        let held = HeldSession::find(&id);
        let is_started = held.is_some();
        if let Some(held) = held {
            if matches!(held.state, HeldState::Running(_)) && held.directory.join(END_FILE).exists()
            {
                return end(&held.directory);
            }
            match connect(&held.directory) {
                Ok(stream) => return copy(&stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let path = held.directory.join(SOCKET);
                    return Err(error)
                        .with_context(|| format!("cannot connect to '{}'", path.display()));
                }
            }
        }
        if Instant::now() >= deadline {
            match is_started {
                true => bail!("the holder of session {id} does not answer"),
                false => bail!("session {id} has no holder"),
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends an end that no client has read, and removes it.
fn end(directory: &Path) -> anyhow::Result<ExitCode> {
    let file = directory.join(END_FILE);
    File::from(aifo_process::take_fd(1)?).write_all(&fs::read(&file)?)?;
    // The client disconnects when it has the end.
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    fs::remove_file(&file).context("cannot remove the end")?;
    Ok(ExitCode::SUCCESS)
}

fn copy(stream: &UnixStream) -> anyhow::Result<ExitCode> {
    let mut input = stream.try_clone()?;
    thread::spawn(move || {
        // The holder finds either end in its connection.
        let _ = io::copy(&mut io::stdin().lock(), &mut input);
        let _ = input.shutdown(Shutdown::Write);
    });
    let mut output = stream;
    let mut client = File::from(aifo_process::take_fd(1)?);
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = match output.read(&mut bytes) {
            Ok(0) => return Ok(ExitCode::SUCCESS),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        client.write_all(bytes.get(..count).unwrap_or_default())?;
    }
}

/// The commands of clients without a terminal that get signals.
const COMMANDS: [&[u8]; 3] = [b"run", b"prompt", b"acp"];

/// Sends a signal to the command that a client runs without a terminal. Errors: no such command runs.
fn signal(line: &[OsString]) -> anyhow::Result<ExitCode> {
    let number = line.first().and_then(|word| word.to_str()?.parse().ok());
    let signal = number.and_then(Signal::from_number).context("invalid signal number")?;
    let variable = format!("{}={}", env::POD_SESSION, session()?);
    let is_command = |arguments: &[&[u8]], variables: &[&[u8]]| {
        let command = arguments.get(2).is_some_and(|word| COMMANDS.contains(word));
        command
            && arguments.get(1) == Some(&COMMAND.as_bytes())
            && variables.contains(&variable.as_bytes())
    };
    if !signal_selected(is_command, signal) {
        bail!("no client command is running");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a pod process, if the command line is that of one.
pub fn process(first: &OsStr, rest: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    if first == HOLD_IN_POD {
        Some(hold(rest))
    } else if first == RELAY {
        Some(relay())
    } else if first == SIGNAL {
        Some(signal(rest))
    } else if first == CLONE {
        Some(clone::process(rest))
    } else if first == COMMAND {
        Some(command::process(rest))
    } else if first == WORKSPACE_IN_POD {
        Some(workspace::process(rest))
    } else {
        None
    }
}
