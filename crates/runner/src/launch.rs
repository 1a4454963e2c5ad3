//! From a `Start` frame to a running tool.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{
    Group, Lookup, Mark, ResourceLimit, Spawn, SpawnError, current_limits, find_in_path, variable,
};
use aifo_types::env;
use aifo_wire::{
    Environment, Invocation, OutsideDirectory, SoftLimit, Start, StartError, StartErrorCause, Stdio,
};
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::channel::Channel;
use crate::directory::Roots;
use crate::lane::Lane;
use crate::monitor;
use crate::project::Project;
use crate::stdio::ToolStdio;

/// What every tool of this sidecar gets.
#[derive(Debug)]
pub(crate) struct Toolbox {
    /// The kind of this sidecar, by which it knows what of a project's own concerns it.
    kind: String,
    roots: Roots,
    path: OsString,
    environment: Vec<CString>,
    /// What tools get if their callers say nothing, and what we have ourselves.
    limits: Vec<ResourceLimit>,
    own_limits: Vec<ResourceLimit>,
}

/// A tool that has just been started.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The tool, or the monitor above it, which has yet to say whether the tool runs.
    pub(crate) pid: Pid,
    /// The monitor's connection, where the tool has a terminal.
    pub(crate) monitor: Option<Channel>,
    /// Our ends of its streams.
    pub(crate) lanes: Vec<Lane>,
    /// What 0, 1 and 2 have become.
    pub(crate) stdio: [Stdio; 3],
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
    pub(crate) fn new(kind: String, roots: Roots, limits: Vec<ResourceLimit>) -> Self {
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let ours = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            // PWD is told per call, and OLDPWD is nobody's.
            !ours && name != "PWD" && name != "OLDPWD"
        });
        Toolbox {
            kind,
            roots,
            path: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            environment: inherited.filter_map(|(name, value)| variable(&name, &value)).collect(),
            limits,
            own_limits: current_limits(),
        }
    }

    /// Finds the file to execute. Errors: it is not there, or may not be executed.
    fn find(&self, start: &Start, cwd: &Path) -> Result<Found, StartError> {
        if let Some(path) = &start.program {
            let program = PathBuf::from(OsStr::from_bytes(path));
            return Ok(Found {
                program,
                argv: start.invocation.argv.clone(),
                project: Project::default(),
            });
        }
        let name =
            String::from_utf8_lossy(start.invocation.argv.first().map_or(&b""[..], Vec::as_slice));
        let workspace = self.roots.workspace_around(cwd);
        let project = Project::around(&self.kind, &name, cwd, workspace);
        let path = project.path(&self.path);
        let mut argv = start.invocation.argv.clone();
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
            variable("PWD".as_ref(), working_directory(start, cwd)),
        ];
        let given = &start.invocation.environment;
        let mut changed: Vec<_> =
            given.iter().filter_map(|variable| CString::new(variable.as_slice()).ok()).collect();
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
        own.into_iter().flatten().chain(kept).chain(changed.iter().cloned()).collect()
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

    /// Starts a tool on the descriptors that its invocation passes, and on `null` where it has none, or
    /// says why nothing ran.
    pub(crate) fn launch(
        &self,
        start: &Start,
        passed: Vec<OwnedFd>,
        null: BorrowedFd<'_>,
    ) -> Result<Launched, StartError> {
        let invocation = &start.invocation;
        let cwd = self
            .roots
            .open(invocation.cwd.as_deref(), start.outside_directory)
            .map_err(|reason| refuse(StartErrorCause::Cwd, reason))?;
        let Found { program, argv, project } = self.find(start, &cwd.path)?;
        let stdio = ToolStdio::new(start, passed)?;
        let argv = argv.iter().map(|arg| c_string(arg));
        let spawn = Spawn {
            program: c_string(program.as_os_str().as_bytes())?,
            argv: argv.collect::<Result<Vec<_>, _>>()?,
            env: self.environment(start, &cwd.path, &project),
            cwd: Some(cwd.fd.as_fd()),
            stdio: stdio.fds(null),
            group: Group::New,
            limits: self.limits(invocation),
            umask: invocation.umask.map(u32::from),
            nice: invocation.nice,
            ignored: invocation.ignored,
        };
        let (pid, monitor) = match &stdio.terminal {
            None => {
                let pid = spawn.spawn().map_err(|error| spawn_refusal(&program, &error))?;
                (pid, None)
            }
            Some(terminal) => {
                let (pid, monitor) = monitor::start(&start.id, &spawn, terminal.as_fd())
                    .map_err(|error| refuse(StartErrorCause::Failed, error.to_string()))?;
                (pid, Some(monitor))
            }
        };
        Ok(Launched { pid, monitor, lanes: stdio.lanes, stdio: invocation.stdio })
    }

    /// The limits of a tool that are not our own: those of every tool, and over them the caller's,
    /// each held to our hard one.
    fn limits(&self, invocation: &Invocation) -> Vec<ResourceLimit> {
        let wanted = self.limits.iter().map(|limit| {
            let soft = invocation.limits.iter().find(|wanted| wanted.resource == limit.resource);
            let soft = soft.map_or(limit.soft, |wanted: &SoftLimit| limit.hard.min(wanted.soft));
            ResourceLimit { soft, ..*limit }
        });
        wanted.filter(|limit| !self.own_limits.contains(limit)).collect()
    }
}

/// What PWD says: a client of version 3 sends its own, which may lead through links.
fn working_directory<'a>(start: &'a Start, real: &'a Path) -> &'a OsStr {
    match &start.invocation.cwd {
        Some(cwd)
            if start.has_client_session()
                && start.outside_directory == OutsideDirectory::Refuse =>
        {
            OsStr::from_bytes(cwd)
        }
        _ => real.as_os_str(),
    }
}

/// Names under which a tool may be installed, should its own be absent: many systems have only a
/// `python3`. The tool still sees the name that was typed.
const STAND_INS: [(&str, &str); 1] = [("python", "python3")];

/// What a C library assumes when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn refuse(cause: StartErrorCause, message: String) -> StartError {
    StartError { cause, message }
}

/// The words a shell would use, and the cause its exit code follows from.
pub(crate) fn spawn_refusal(program: &Path, error: &SpawnError) -> StartError {
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
        other => (StartErrorCause::Failed, reason_of(other)),
    };
    refuse(cause, format!("cannot execute '{program}': {reason}"))
}

/// Why there is no process.
pub(crate) fn reason_of(error: &SpawnError) -> String {
    match error {
        SpawnError::TooManyProcesses => {
            format!("{error}; end some, or raise that of the sidecar with --pids")
        }
        error => error.to_string(),
    }
}

pub(crate) fn c_string(text: &[u8]) -> Result<CString, StartError> {
    CString::new(text)
        .map_err(|error| refuse(StartErrorCause::Failed, SpawnError::from(error).to_string()))
}
