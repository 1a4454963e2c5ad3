//! Being a command of the host, where only a directory is shared (`spec/mailbox.md#the-binary-client`).

mod feed;
mod request;
mod tap;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aifo_mailbox::{
    Arguments, CallerInfo, ClientInfo, CommandName, Directory, client_info_file, limits,
};
use aifo_process::{SignalSet, ignore_broken_pipes, ignored_signals};
use aifo_types::{Signal, exit};
use nix::unistd::{AccessFlags, access};

use crate::ending::ShimEnd;
use crate::mailbox::request::Request;
use crate::signals::Signals;

/// A mailbox, and the command in it that this process is.
pub(crate) struct Place {
    folder: PathBuf,
    command: CommandName,
}

impl Place {
    /// Where this process was started, if that is a mailbox: beside the command lies what its clients
    /// are to know. Every shim passes here, so it costs one system call.
    pub(crate) fn ours() -> Option<Self> {
        let path = aifo_process::executed_path()?;
        let info = client_info_file(path.to_str()?);
        access(info.as_str(), AccessFlags::F_OK).ok()?;
        let command = CommandName::parse(path.file_name()?.as_bytes()).ok()?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some(Place { folder: folder.unwrap_or(Path::new(".")).to_owned(), command })
    }
}

/// Has the command run on the host, and ends as it does. `closed` are the standard descriptors that our
/// parent left closed.
pub(crate) fn run(place: &Place, args: &[OsString], closed: [bool; 3]) -> ShimEnd {
    let ignored = SignalSet::from_bits(ignored_signals());
    ignore_broken_pipes();
    // Before anything is placed: from then on a signal is the command's. What cannot cross ends us as
    // ever, and so the command.
    let signals = match Signals::catch(left_alone(ignored)) {
        Ok(signals) => signals,
        Err(errno) => return fail(&format!("cannot catch signals: {}", errno.desc())),
    };
    match Request::place(place, args, closed) {
        Ok(request) => request.follow(signals, deadline()),
        Err(why) => {
            let folder = place.folder.display();
            fail(&format!("cannot place a request in '{folder}': {why}"))
        }
    }
}

/// The signals that are not caught.
fn left_alone(ignored: SignalSet) -> SignalSet {
    let mut left_alone = SignalSet::all();
    let crossing = (1..=64).filter(|number| Signal::from_number(*number).is_some());
    crossing.filter(|number| !ignored.contains(*number)).for_each(|it| left_alone.remove(it));
    left_alone
}

/// Says why nothing is known of the command, and that is the end of it.
fn fail(why: &str) -> ShimEnd {
    say(why);
    ShimEnd::Code(exit::UNKNOWN)
}

/// A line on stderr, as the script says it.
fn say(text: &str) {
    use std::io::Write;
    // Nobody is left to be told that stderr is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// When we give up waiting; `None` is never.
fn deadline() -> Option<Instant> {
    let secs = std::env::var(TIMEOUT).ok().and_then(|secs| secs.parse().ok());
    let secs = secs.unwrap_or(limits::ORPHAN_AGE.as_secs());
    Some(secs).filter(|secs| *secs > 0).map(|secs| Instant::now() + Duration::from_secs(secs))
}

/// Seconds that a client waits for its command; 0 is for ever.
const TIMEOUT: &str = "PROXY_TIMEOUT";

/// Where we are, and what of our environment passes.
fn call(place: &Place, directory: &Directory) -> CallerInfo {
    let name = client_info_file(place.command.as_str());
    let info = directory.read(&name, limits::SMALL).ok();
    let info = info
        .and_then(|info| ClientInfo::parse(&String::from_utf8_lossy(&info)))
        .unwrap_or_default();
    let workspace = match &info.workspace {
        Some(way) => place.folder.join(way).canonicalize().ok(),
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

/// The arguments as they are placed.
fn arguments(args: &[OsString]) -> Arguments {
    Arguments(args.iter().map(|arg| arg.clone().into_vec()).collect())
}
