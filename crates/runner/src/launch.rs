//! From a `Start` frame to a running tool.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use aifo_process::{Group, Lookup, Mark, OpenFilesLimit, Spawn, SpawnError, find_in_path};
use aifo_types::env;
use aifo_wire::{Start, StartError, StartErrorCause};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, pipe2};

use crate::directory::Roots;

/// What every tool of this sidecar gets.
#[derive(Debug)]
pub(crate) struct Toolbox {
    pub(crate) roots: Roots,
    path: OsString,
    environment: Vec<CString>,
    open_files: OpenFilesLimit,
    null: File,
}

/// A tool that has just been started.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    /// The read end of the pipe that is its stdout and its stderr; reads do not block.
    pub(crate) output: OwnedFd,
}

impl Toolbox {
    /// Takes our own environment as the tools', but for what is ours alone.
    pub(crate) fn new(roots: Roots, open_files: OpenFilesLimit) -> std::io::Result<Self> {
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let ours = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            // PWD is told per call, and OLDPWD is nobody's.
            !ours && name != "PWD" && name != "OLDPWD"
        });
        Ok(Toolbox {
            roots,
            path: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            environment: inherited.filter_map(|(name, value)| variable(&name, &value)).collect(),
            open_files,
            null: File::options().read(true).write(true).open("/dev/null")?,
        })
    }

    fn find(&self, name: &str) -> Lookup {
        let stand_in = STAND_INS.iter().find(|(absent, _)| *absent == name);
        match (find_in_path(name, &self.path), stand_in) {
            (Lookup::Absent, Some((_, stand_in))) => find_in_path(stand_in, &self.path),
            (found, _) => found,
        }
    }

    /// Starts a tool, or says why nothing ran.
    pub(crate) fn launch(&self, start: &Start) -> Result<Launched, StartError> {
        let cwd = self
            .roots
            .open(start.cwd.as_deref(), start.elsewhere)
            .map_err(|reason| refuse(StartErrorCause::Cwd, reason))?;
        let name = String::from_utf8_lossy(start.argv.first().map_or(&b""[..], Vec::as_slice));
        let program = match self.find(&name) {
            Lookup::Found(program) => program,
            Lookup::NotExecutable(file) => {
                let reason = format!("cannot execute '{}': permission denied", file.display());
                return Err(refuse(StartErrorCause::NotExecutable, reason));
            }
            Lookup::Absent => {
                let reason = format!("tool '{name}' is not in the sidecar's PATH");
                return Err(refuse(StartErrorCause::Absent, reason));
            }
        };

        let failed = |what: &str, errno: Errno| {
            refuse(StartErrorCause::Failed, format!("cannot {what}: {}", errno.desc()))
        };
        let (output, tool_end) =
            pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed("make a pipe", errno))?;
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|errno| failed("make a pipe", errno))?;

        let own = [
            CString::new(Mark::of(&start.id).as_str()).ok(),
            variable(OsStr::new("PWD"), cwd.path.as_os_str()),
        ];
        let spawn = Spawn {
            program: c_string(program.as_os_str())?,
            argv: start
                .argv
                .iter()
                .map(|arg| c_string(OsStr::from_bytes(arg)))
                .collect::<Result<Vec<_>, _>>()?,
            env: own.into_iter().flatten().chain(self.environment.iter().cloned()).collect(),
            cwd: Some(cwd.fd.as_fd()),
            stdio: [self.null.as_fd(), tool_end.as_fd(), tool_end.as_fd()],
            group: Group::New,
            open_files: Some(self.open_files),
        };
        let pid = spawn.spawn().map_err(|error| spawn_refusal(&program, &error))?;
        Ok(Launched { pid, output })
    }
}

/// Names under which a tool may be installed, should its own be absent: many systems have only a
/// `python3`. The tool still sees the name that was typed.
const STAND_INS: [(&str, &str); 1] = [("python", "python3")];

/// What a C library assumes when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn refuse(cause: StartErrorCause, message: String) -> StartError {
    StartError { cause, message }
}

/// The words a shell would use, and the cause its exit code follows from.
fn spawn_refusal(program: &Path, error: &SpawnError) -> StartError {
    let program = program.display();
    let (cause, reason) = match error {
        // The file was there a moment ago: what is missing is the interpreter it names.
        SpawnError::Exec(Errno::ENOENT) => {
            (StartErrorCause::NotFound, "its interpreter was not found".to_owned())
        }
        SpawnError::Exec(Errno::E2BIG) => {
            (StartErrorCause::NotExecutable, "argument list too long".to_owned())
        }
        SpawnError::Exec(errno) => (StartErrorCause::NotExecutable, errno.desc().to_lowercase()),
        other => (StartErrorCause::Failed, other.to_string()),
    };
    refuse(cause, format!("cannot execute '{program}': {reason}"))
}

fn c_string(text: &OsStr) -> Result<CString, StartError> {
    CString::new(text.as_bytes())
        .map_err(|error| refuse(StartErrorCause::Failed, SpawnError::from(error).to_string()))
}

fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut text = name.to_os_string().into_vec();
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    CString::new(text).ok()
}
