//! The client of a mailbox: runs a command of the host (`spec/mailbox.md#the-binary-client`).

mod file_tail;
mod request;
mod stdin_spooler;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aifo_mailbox::{
    Arguments, CallerInfo, ClientInfo, CommandName, Directory, client_info_file, limits,
};
use aifo_process::{SignalSet, ignore_broken_pipes, ignored_signals, kernel};
use aifo_types::{Signal, exit};

use crate::mailbox::request::Request;
use crate::shim_exit::ShimExit;
use crate::signals::Signals;

/// A mailbox and the command by whose name this process was started.
pub(crate) struct MailboxCommand {
    directory: PathBuf,
    command: CommandName,
}

impl MailboxCommand {
    /// Returns whether the program at this path is a mailbox's command.
    pub(crate) fn is_at(executed: &Path) -> bool {
        let info = executed.to_str().map(client_info_file);
        info.is_some_and(|info| kernel::exists(info.as_bytes()))
    }

    /// Returns the mailbox if this process was started from one. Every call of a shim tests this,
    /// with one system call.
    pub(crate) fn detect() -> Option<Self> {
        let path = aifo_process::executed_path().filter(|path| Self::is_at(path))?;
        let command = CommandName::parse(path.file_name()?.as_bytes()).ok()?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some(MailboxCommand { directory: directory.unwrap_or(Path::new(".")).to_owned(), command })
    }
}

/// Runs the command on the host and ends as it does. `closed` are the standard descriptors that the
/// parent left closed.
pub(crate) fn run(mailbox: &MailboxCommand, args: &[OsString], closed: [bool; 3]) -> ShimExit {
    let ignored = SignalSet::from_bits(ignored_signals());
    ignore_broken_pipes();
    // Catch signals before the request exists: from then on they belong to the command. A signal
    // that cannot be forwarded terminates this process, which ends the command.
    let signals = match Signals::catch(uncaught_signals(ignored)) {
        Ok(signals) => signals,
        Err(errno) => return fail(&format!("cannot catch signals: {}", errno.desc())),
    };
    match Request::place(mailbox, args, closed) {
        Ok(request) => request.run(signals, deadline()),
        Err(why) => {
            let directory = mailbox.directory.display();
            fail(&format!("cannot place a request in '{directory}': {why}"))
        }
    }
}

/// Returns the signals to leave uncaught.
fn uncaught_signals(ignored: SignalSet) -> SignalSet {
    let mut uncaught = SignalSet::all();
    let forwarded = (1..=64).filter(|number| Signal::from_number(*number).is_some());
    forwarded.filter(|number| !ignored.contains(*number)).for_each(|it| uncaught.remove(it));
    uncaught
}

/// Prints an error. The exit status of the command is unknown.
fn fail(why: &str) -> ShimExit {
    print_error(why);
    ShimExit::Code(exit::UNKNOWN)
}

/// Prints one line to stderr, in the script's format.
fn print_error(text: &str) {
    use std::io::Write;
    // A failed write to stderr cannot be reported.
    let _ = writeln!(std::io::stderr().lock(), "{}", aifo_types::escape_text(text));
}

/// Returns when to stop waiting; `None` is never.
fn deadline() -> Option<Instant> {
    let secs = std::env::var(TIMEOUT).ok().and_then(|secs| secs.parse().ok());
    let secs = secs.unwrap_or(limits::ORPHAN_AGE.as_secs());
    Some(secs).filter(|secs| *secs > 0).map(|secs| Instant::now() + Duration::from_secs(secs))
}

/// Seconds to wait for the command; 0 waits without a limit.
const TIMEOUT: &str = "PROXY_TIMEOUT";

/// Returns the caller's directory and the variables that are forwarded.
fn caller_info(mailbox: &MailboxCommand, directory: &Directory) -> CallerInfo {
    let name = client_info_file(mailbox.command.as_str());
    let info = directory.read(&name, limits::SMALL).ok();
    let info = info
        .and_then(|info| ClientInfo::parse(&String::from_utf8_lossy(&info)))
        .unwrap_or_default();
    let workspace = match &info.workspace {
        Some(path) => mailbox.directory.join(path).canonicalize().ok(),
        None => Some(PathBuf::from(&info.host)),
    };
    let variable = |name: &String| {
        let mut variable = name.clone().into_bytes();
        variable.push(b'=');
        variable.extend(std::env::var_os(name)?.into_vec());
        Some(variable)
    };
    CallerInfo {
        cwd: std::env::current_dir().ok().map(|cwd| cwd.into_os_string().into_vec()),
        workspace: workspace.map(|path| path.into_os_string().into_vec()),
        variables: info.variables.iter().filter_map(variable).collect(),
    }
}

fn arguments(args: &[OsString]) -> Arguments {
    Arguments(args.iter().map(|arg| arg.clone().into_vec()).collect())
}
