//! Runs a program in place once the proxy has judged the call (`spec/shim.md#in-place`).
//!
//! The question is asked before the C library starts, if the call is a plain one. Signals, descriptors and
//! environment are unchanged when the program starts: nothing is caught, and the connection is
//! close-on-exec.

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_policy::is_judged_variable;
use aifo_process::kernel::{self, Fd};
use aifo_types::{
    Endpoint, ExecRequest, FileId, Inherited, Stdio, ToolName, env, exit, replaced_while_waiting,
};
use aifo_wire::{JudgeCall, Limits, ResponseEvent, ResponseReader, RunPermission, is_run_in_place};
use nix::errno::Errno;
use nix::libc;

use crate::connection::{self, SendOutcome};
use crate::failure::{ErrorResponse, not_executed, report_not_started};
use crate::settings::{ProxyAddress, Settings};
use crate::shim_exit::ShimExit;
use crate::variables::Variables;
use crate::{log, no_network};

/// A call by a link to `aifo-in-place`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlaceCall<'a> {
    /// `argv[0]` and the arguments.
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) environment: &'a [&'static [u8]],
    /// The link, as the kernel executed it.
    pub(crate) link: &'a [u8],
}

/// A question that was sent.
#[derive(Debug)]
pub(crate) struct SentQuestion {
    socket: Fd,
    /// The bytes that the connection has received.
    received: Vec<u8>,
}

/// The result of a search in PATH.
#[derive(Debug, PartialEq, Eq)]
enum Program {
    Found(Vec<u8>),
    NotExecutable(Vec<u8>),
    Absent,
}

/// The link whose links are tools that run in place.
const IN_PLACE: &[u8] = b"aifo-in-place";
const SHIM: &[u8] = b"aifo-shim";

/// The C library's PATH if there is none.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";

/// Returns whether the program was executed by a link to `aifo-in-place`.
pub(crate) fn is_in_place(executed: &[u8]) -> bool {
    kernel::read_link(executed).is_ok_and(|target| base_name(&target) == IN_PLACE)
}

/// Asks before the C library starts, and runs the program if it may run at once. Returns the question if
/// there is another answer, and `None` if none was sent.
pub(crate) fn begin(call: &InPlaceCall<'_>) -> Option<SentQuestion> {
    let variables = Variables::of(call.environment);
    // Otherwise a file is read.
    variables.text(env::URL)?;
    variables.text(env::TOKEN)?;
    let settings = Settings::from_variables(call.tool(), &variables);
    let proxy = settings.proxy.as_ref().ok()?;
    let Endpoint::Unix(path) = &proxy.endpoint else { return None };
    if settings.verbose || !call.has_own_name() {
        return None;
    }
    let Program::Found(program) = call.find() else { return None };
    let request = call.question(&settings, proxy).ok()?;
    let socket = kernel::connect_unix(path.as_os_str().as_bytes()).ok()?;
    if !matches!(connection::send_request(&socket, &request), SendOutcome::Complete) {
        return None;
    }
    let mut buffer = [0; 512];
    // The next read finds a failure again.
    let count = kernel::read(socket.as_fd(), &mut buffer).unwrap_or_default();
    let received = buffer.get(..count).unwrap_or_default().to_vec();
    if is_run_in_place(&received) {
        // A failure is reported after the usual start, which tries again.
        let _ = call.execute(&program);
    }
    Some(SentQuestion { socket, received })
}

/// Asks, or reads the answer to a question that was sent, and runs the program.
pub(crate) fn run(call: &InPlaceCall<'_>, sent: Option<SentQuestion>) -> ShimExit {
    let name = String::from_utf8_lossy(call.tool());
    if !call.has_own_name() {
        let first = String::from_utf8_lossy(call.args.first().copied().unwrap_or_default());
        return report_not_started(format_args!(
            "'{name}' is called as '{first}', so it cannot be judged\nhint: call it by its own name"
        ));
    }
    let program = match call.find() {
        Program::Found(program) => program,
        Program::NotExecutable(file) => return not_executed(&file, Errno::EACCES),
        Program::Absent => {
            log::line(format_args!("'{name}' is not found in PATH"));
            return ShimExit::Code(exit::NOT_FOUND);
        }
    };
    let settings = Settings::read(call.tool(), None);
    let proxy = match &settings.proxy {
        Ok(proxy) => proxy,
        Err(why) => return report_not_started(why),
    };
    if settings.verbose {
        let program = String::from_utf8_lossy(&program);
        log::verbose(format_args!("in-place: tool={name} program={program}"));
    }
    let sent = match sent.map_or_else(|| call.ask(&settings, proxy), Ok) {
        Ok(sent) => sent,
        Err(why) => return report_not_started(why),
    };
    match await_answer(sent, proxy) {
        Err(refused) => return refused,
        Ok(RunPermission::InPlace) => {}
        Ok(RunPermission::WithoutNetwork) => {
            if let Err(refused) = no_network::enter(&name) {
                return refused;
            }
        }
    }
    not_executed(&program, call.execute(&program))
}

/// Waits for the answer. Errors: the program does not run.
fn await_answer(sent: SentQuestion, proxy: &ProxyAddress) -> Result<RunPermission, ShimExit> {
    let endpoint = &proxy.endpoint;
    let mut reader = ResponseReader::new(Limits::default());
    reader.receive(&sent.received);
    let mut error_response: Option<ErrorResponse> = None;
    loop {
        if let Some(error_response) = &mut error_response {
            if error_response.read_body(&mut reader) {
                return Err(error_response.report());
            }
        } else {
            match reader.next_event() {
                Ok(ResponseEvent::Approval(call)) => {
                    log::waits_for_approval(&call);
                    continue;
                }
                Ok(ResponseEvent::Head(head)) => match head.status {
                    204 if !is_here(head.directory, endpoint) => {
                        let why = replaced_while_waiting(Path::new("."));
                        return Err(report_not_started(why));
                    }
                    204 => match head.run {
                        Some(permission) => return Ok(permission),
                        None => {
                            return Err(report_not_started(format_args!(
                                "the proxy at {endpoint} answered in an unknown way; nothing ran\n\
                                 hint: install aifo-coder and aifo-shim from the same build"
                            )));
                        }
                    },
                    404 | 426 => {
                        return Err(report_not_started(format_args!(
                            "the proxy at {endpoint} does not judge calls that run in place\n\
                             hint: install aifo-coder and aifo-shim from the same build"
                        )));
                    }
                    400.. => {
                        error_response = Some(ErrorResponse::new(head));
                        continue;
                    }
                    status => {
                        return Err(report_not_started(format_args!(
                            "the proxy answered with status {status}; nothing ran"
                        )));
                    }
                },
                Ok(_) => {}
                Err(error) => {
                    return Err(report_not_started(format_args!(
                        "the proxy at {endpoint} sent no verdict ({error}); nothing ran"
                    )));
                }
            }
        }
        match connection::receive(sent.socket.as_fd(), reader.buffer().spare(READ)) {
            // A reset ends the response, too.
            Ok(0) | Err(_) => reader.receive_eof(),
            Ok(count) => reader.buffer().commit(count),
        }
    }
}

/// Returns whether this is the directory that a user was asked about. A proxy on another kernel has other numbers.
fn is_here(directory: Option<FileId>, endpoint: &Endpoint) -> bool {
    let Some(FileId { device, inode }) = directory else { return true };
    matches!(endpoint, Endpoint::Tcp { .. }) || identity(b".") == Some((device, inode))
}

/// Bytes of a response.
const READ: usize = 4 * 1024;

impl InPlaceCall<'_> {
    /// Returns the name of the link.
    fn tool(&self) -> &[u8] {
        base_name(self.link)
    }

    /// Returns whether `argv[0]` has the link's name. Another one could make the program another tool.
    fn has_own_name(&self) -> bool {
        self.args.first().is_some_and(|first| base_name(first) == self.tool())
    }

    fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        let variables = self.environment.iter();
        variables.filter_map(|it| it.strip_prefix(name)?.strip_prefix(b"=")).next()
    }

    /// Finds the program in PATH: behind the directory of this shim, and past all shims.
    fn find(&self) -> Program {
        let path = self.variable(b"PATH").unwrap_or(USUAL_PATH);
        find(self.tool(), path, identity(self.link))
    }

    /// Returns the request. Errors: the tool has no valid name.
    fn question(&self, settings: &Settings, proxy: &ProxyAddress) -> Result<Vec<u8>, String> {
        let cwd = kernel::current_directory().ok().filter(|cwd| cwd.starts_with(b"/"));
        // Without links, unlike PWD. A directory that is gone is outside the workspace.
        let cwd = cwd.unwrap_or_else(|| b"/".to_vec());
        let variables = self.environment.iter();
        let judged = variables.filter(|variable| is_judged_variable(variable));
        let request = ExecRequest {
            id: settings.exec_id()?,
            tool: ToolName::parse(self.tool()).map_err(|invalid| invalid.to_string())?,
            program: None,
            args: self.args.iter().skip(1).map(|arg| arg.to_vec()).collect(),
            cwd: Some(cwd),
            inherited: Inherited {
                environment: judged.map(|variable| variable.to_vec()).collect(),
                stdio: [Stdio::Null; 3],
                ..Inherited::default()
            },
            no_network: None,
            cwd_id: None,
        };
        let mut bytes = Vec::new();
        let ProxyAddress { endpoint, token } = proxy;
        JudgeCall { endpoint, token, request: &request }.encode(&mut bytes);
        Ok(bytes)
    }

    fn ask(&self, settings: &Settings, proxy: &ProxyAddress) -> Result<SentQuestion, String> {
        let request = self.question(settings, proxy)?;
        let endpoint = &proxy.endpoint;
        let name = String::from_utf8_lossy(self.tool());
        let unreachable = |why: &dyn std::fmt::Display| {
            format!(
                "cannot reach the proxy at {endpoint}: {why}\n\
                 hint: '{name}' runs only while the session that judges it does; start a new session"
            )
        };
        let socket = connection::open(endpoint).map_err(|error| unreachable(&error))?;
        match connection::send_request(&socket, &request) {
            SendOutcome::Nothing => Err(unreachable(&"it closed the connection")),
            // The proxy may have sent an error.
            SendOutcome::Complete | SendOutcome::Partial => {
                Ok(SentQuestion { socket, received: Vec::new() })
            }
        }
    }

    /// Executes the program in this process. Returns only on failure.
    fn execute(&self, program: &[u8]) -> Errno {
        let mut args = self.args.to_vec();
        // A path in `argv[0]` is the shim's; some programs find their files by it.
        if let Some(first) = args.first_mut().filter(|first| first.contains(&b'/')) {
            *first = program;
        }
        match kernel::execute(program, &args, self.environment) {
            // A script without an interpreter, which callers pass to a shell.
            Errno::ENOEXEC => {
                let rest = args.get(1..).unwrap_or_default();
                let args = [&[b"sh".as_slice(), program][..], rest].concat();
                kernel::execute(b"/bin/sh", &args, self.environment)
            }
            errno => errno,
        }
    }
}

/// Device and inode number of a file.
type Identity = (u64, u64);

fn identity(path: &[u8]) -> Option<Identity> {
    kernel::stat(path).ok().map(|status| (status.st_dev, status.st_ino))
}

/// Searches `path` behind the first directory in which `name` is this very program, `own`, or in all of it
/// if there is none. Shims of any session are skipped, so two of them never execute each other.
fn find(name: &[u8], path: &[u8], own: Option<Identity>) -> Program {
    let file = |directory: &&[u8]| -> Cow<'_, [u8]> {
        match directory.is_empty() {
            // The current directory.
            true => Cow::Owned(name.to_vec()),
            false => Cow::Owned([directory, &b"/"[..], name].concat()),
        }
    };
    let directories: Vec<&[u8]> = path.split(|byte| *byte == b':').collect();
    let is_own = |file: &[u8]| own.is_some() && identity(file) == own;
    let before = directories.iter().position(|directory| is_own(&file(directory)));
    let rest = directories.get(before.map_or(0, |at| at + 1)..).unwrap_or_default();
    let mut not_executable = Program::Absent;
    for file in rest.iter().map(file) {
        let Ok(status) = kernel::stat(&file) else { continue };
        let is_file = status.st_mode & libc::S_IFMT == libc::S_IFREG;
        let is_shim = || {
            own == Some((status.st_dev, status.st_ino))
                || kernel::read_link(&file)
                    .is_ok_and(|target| [IN_PLACE, SHIM].contains(&base_name(&target)))
        };
        if !is_file || is_shim() {
            continue;
        }
        if kernel::may_execute(&file) {
            return Program::Found(file.into_owned());
        }
        if not_executable == Program::Absent {
            not_executable = Program::NotExecutable(file.into_owned());
        }
    }
    not_executable
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Directories `a` to `d`, with a shim of this session in `a` and one of another session in `c`.
    fn tree() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
        for name in ["a", "b", "c", "d"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        for name in ["a/aifo-shim", "c/aifo-shim", "b/git", "d/git", "d/plain", "b/odd"] {
            fs::write(base.join(name), "").unwrap();
            let mode = if name == "d/plain" { 0o644 } else { 0o755 };
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in ["a", "c"] {
            symlink("aifo-shim", base.join(name).join("aifo-in-place")).unwrap();
            symlink("aifo-in-place", base.join(name).join("git")).unwrap();
        }
        symlink("aifo-in-place", base.join("a/odd")).unwrap();
        scratch
    }

    #[test]
    fn the_program_is_behind_the_shim_and_no_shim() {
        let scratch = tree();
        let base = scratch.path().to_str().unwrap();
        let own = identity(format!("{base}/a/git").as_bytes());
        let check = |name: &str, path: &str, expected: &str| {
            let path: Vec<_> = path.split(':').map(|one| format!("{base}/{one}")).collect();
            let found = match find(name.as_bytes(), path.join(":").as_bytes(), own) {
                Program::Found(file) => String::from_utf8(file).unwrap(),
                Program::NotExecutable(file) => {
                    String::from_utf8(file).unwrap() + " not executable"
                }
                Program::Absent => "absent".to_owned(),
            };
            assert_eq!(found.replace(base, ""), expected, "{name} in {path:?}");
        };
        check("git", "a:b:d", "/b/git");
        check("git", "b:a:d", "/d/git");
        check("git", "b:d", "/b/git");
        check("git", "a:c:d", "/d/git");
        check("git", "c:a:c:a:d", "/d/git");
        check("git", "d:a:c", "absent");
        check("plain", "a:d", "/d/plain not executable");
        check("none", "a:b:c:d", "absent");
        assert!(is_in_place(format!("{base}/c/git").as_bytes()));
        assert!(!is_in_place(format!("{base}/c/aifo-in-place").as_bytes()));
        assert!(!is_in_place(format!("{base}/b/git").as_bytes()));
    }
}
