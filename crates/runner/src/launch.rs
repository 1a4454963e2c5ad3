//! From a `Start` frame to a running tool.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{
    Group, Lookup, Mark, OpenFilesLimit, Spawn, SpawnError, find_in_path, variable,
};
use aifo_types::env;
use aifo_wire::{Environment, Start, StartError, StartErrorCause};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, pipe2};

use crate::directory::Roots;
use crate::project::Project;

/// What every tool of this sidecar gets.
#[derive(Debug)]
pub(crate) struct Toolbox {
    /// The kind of this sidecar, by which it knows what of a project's own concerns it.
    kind: String,
    roots: Roots,
    path: OsString,
    environment: Vec<CString>,
    open_files: OpenFilesLimit,
    null: File,
}

/// A tool that has just been started.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    /// The read end of the pipe that is its stdout and its stderr; reads do not block. `None` if it
    /// writes to what the proxy passed.
    pub(crate) output: Option<OwnedFd>,
}

/// What is to be executed.
struct Found {
    program: PathBuf,
    /// As asked for, unless something stands in for the tool.
    argv: Vec<Vec<u8>>,
    project: Project,
}

impl Toolbox {
    /// Takes our own environment as the tools', but for what is ours alone.
    pub(crate) fn new(
        kind: String,
        roots: Roots,
        open_files: OpenFilesLimit,
    ) -> std::io::Result<Self> {
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let ours = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            // PWD is told per call, and OLDPWD is nobody's.
            !ours && name != "PWD" && name != "OLDPWD"
        });
        Ok(Toolbox {
            kind,
            roots,
            path: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            environment: inherited.filter_map(|(name, value)| variable(&name, &value)).collect(),
            open_files,
            null: File::options().read(true).write(true).open("/dev/null")?,
        })
    }

    /// Finds the file to execute. Errors: it is not there, or may not be executed.
    fn find(&self, start: &Start, cwd: &Path) -> Result<Found, StartError> {
        if let Some(path) = &start.program {
            let program = PathBuf::from(OsStr::from_bytes(path));
            return Ok(Found { program, argv: start.argv.clone(), project: Project::default() });
        }
        let name = String::from_utf8_lossy(start.argv.first().map_or(&b""[..], Vec::as_slice));
        let project = Project::around(&self.kind, &name, cwd, self.roots.workspace());
        let path = project.path(&self.path);
        let mut argv = start.argv.clone();
        let mut found = find_in_path(&name, &path);
        if found == Lookup::Absent
            && let Some((_, stand_in)) = STAND_INS.iter().find(|(absent, _)| *absent == name)
        {
            found = find_in_path(stand_in, &path);
        }
        if found == Lookup::Absent
            && let Some((program, args)) = project.fallback
        {
            found = find_in_path(program, &path);
            let instead = std::iter::once(&program).chain(args);
            argv.splice(..1, instead.map(|word| word.as_bytes().to_vec()));
        }
        match found {
            Lookup::Found(program) => Ok(Found { program, argv, project }),
            Lookup::NotExecutable(file) => {
                let reason = format!("cannot execute '{}': permission denied", file.display());
                Err(refuse(StartErrorCause::NotExecutable, reason))
            }
            Lookup::Absent => {
                let reason = format!("tool '{name}' is not in the sidecar's PATH");
                Err(refuse(StartErrorCause::Absent, reason))
            }
        }
    }

    /// The environment of one call, its mark first.
    fn environment(&self, start: &Start, cwd: &Path, project: &Project) -> Vec<CString> {
        let own = [
            CString::new(Mark::of(&start.id).as_str()).ok(),
            variable("PWD".as_ref(), cwd.as_os_str()),
        ];
        let mut changed = Vec::new();
        if project.first_in_path.is_some() {
            changed.extend(variable("PATH".as_ref(), &project.path(&self.path)));
        }
        if let Some(venv) = &project.virtual_env {
            changed.extend(variable("VIRTUAL_ENV".as_ref(), venv.as_os_str()));
        }
        let name = |variable: &CString| {
            variable.as_bytes().split(|byte| *byte == b'=').next().map(<[u8]>::to_vec)
        };
        let replaced: Vec<_> = changed.iter().map(name).collect();
        let kept = self.inherited(&start.environment);
        let kept = kept.filter(|variable| !replaced.contains(&name(variable)));
        own.into_iter().flatten().chain(kept).chain(changed.clone()).collect()
    }

    /// What a tool gets of our environment.
    fn inherited(&self, wanted: &Environment) -> impl Iterator<Item = CString> {
        let is_wanted = |variable: &&CString| match wanted {
            Environment::All => true,
            Environment::Only(names) => {
                let name = variable.as_bytes().split(|byte| *byte == b'=').next();
                let name = name.unwrap_or_default();
                names.iter().any(|wanted| match wanted.strip_suffix(b"*") {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == wanted.as_slice(),
                })
            }
        };
        self.environment.iter().filter(is_wanted).cloned()
    }

    /// Starts a tool, or says why nothing ran.
    pub(crate) fn launch(
        &self,
        start: &Start,
        passed: Option<OwnedFd>,
    ) -> Result<Launched, StartError> {
        let cwd = self
            .roots
            .open(start.cwd.as_deref(), start.elsewhere)
            .map_err(|reason| refuse(StartErrorCause::Cwd, reason))?;
        let Found { program, argv, project } = self.find(start, &cwd.path)?;

        let (output, tool_end) = match passed {
            Some(passed) => (None, passed),
            None => output_pipe().map(|(ours, theirs)| (Some(ours), theirs)).map_err(|errno| {
                let reason = format!("cannot make a pipe: {}", errno.desc());
                refuse(StartErrorCause::Failed, reason)
            })?,
        };
        let spawn = Spawn {
            program: c_string(program.as_os_str())?,
            argv: argv
                .iter()
                .map(|arg| c_string(OsStr::from_bytes(arg)))
                .collect::<Result<Vec<_>, _>>()?,
            env: self.environment(start, &cwd.path, &project),
            cwd: Some(cwd.fd.as_fd()),
            stdio: [self.null.as_fd(), tool_end.as_fd(), tool_end.as_fd()],
            group: Group::New,
            open_files: Some(self.open_files),
        };
        let pid = spawn.spawn().map_err(|error| spawn_refusal(&program, &error))?;
        Ok(Launched { pid, output })
    }
}

/// A pipe whose reading end does not block us; the tool's end does block the tool.
fn output_pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((ours, theirs))
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
