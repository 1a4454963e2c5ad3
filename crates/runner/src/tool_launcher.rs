//! Starts the tool of a `Start` frame.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_decide::ProjectTools;
use aifo_process::{
    ExecTag, Group, Lookup, ResourceLimit, Spawn, Starting, current_limits, find_in_path,
    is_executable, variable,
};
use aifo_types::{ExecRequest, SoftLimit, Stdio, env};
use aifo_wire::{Environment, OutsideDirectory, Program, Start, StartError, StartErrorCause};
use nix::unistd::Pid;

use crate::frame_socket::FrameSocket;
use crate::monitor;
use crate::program_path::check_program;
use crate::start_failure::{c_string, spawn_start_error, start_error};
use crate::stream_pipe::StreamPipe;
use crate::tool_stdio::ToolStdio;
use crate::user::User;
use crate::working_directory::Roots;

/// Settings common to all tools of this sidecar.
#[derive(Debug)]
pub(crate) struct ToolLauncher {
    /// The sidecar's kind, which selects the project's own tools.
    kind: String,
    roots: Roots,
    /// The variable of exec tags.
    tag: String,
    path: OsString,
    environment: Vec<CString>,
    /// The default limits of tools, and those of the runner itself.
    limits: Vec<ResourceLimit>,
    own_limits: Vec<ResourceLimit>,
}

#[derive(Debug)]
pub(crate) struct LaunchedTool {
    /// The tool, or its monitor.
    pub(crate) pid: Pid,
    pub(crate) tag: ExecTag,
    /// The tool's execve, if it may still fail.
    pub(crate) starting: Option<StartingTool>,
    /// The connection to the monitor, if the tool has a terminal. The monitor reports the tool's
    /// start.
    pub(crate) monitor: Option<FrameSocket>,
    pub(crate) pipes: Vec<StreamPipe>,
    /// The types of 0, 1 and 2.
    pub(crate) stdio: [Stdio; 3],
}

/// Whether a start waits for the tool's execve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execve {
    Now,
    Later,
}

/// A tool whose execve may still be under way.
#[derive(Debug)]
pub(crate) struct StartingTool {
    program: PathBuf,
    process: Starting,
}

impl StartingTool {
    /// Waits until execve has returned. Errors: nothing ran.
    pub(crate) fn wait(self) -> Result<(), StartError> {
        let StartingTool { program, process } = self;
        process.wait().map_err(|error| spawn_start_error(&program, &error))
    }
}

struct ResolvedTool {
    program: PathBuf,
    /// As requested, or changed for a fallback.
    argv: Vec<Vec<u8>>,
    project: ProjectTools,
}

impl ToolLauncher {
    /// Takes the environment of this process as the tools', without the reserved variables.
    pub(crate) fn new(kind: String, roots: Roots, tag: String, limits: Vec<ResourceLimit>) -> Self {
        let inherited = std::env::vars_os().filter(|(name, _)| {
            let is_reserved = name.as_bytes().starts_with(env::PREFIX.as_bytes());
            // PWD is set per call, and OLDPWD has no meaning in a new process.
            !is_reserved && name != "PWD" && name != "OLDPWD"
        });
        ToolLauncher {
            kind,
            roots,
            tag,
            path: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            environment: inherited.filter_map(|(name, value)| variable(&name, &value)).collect(),
            limits,
            own_limits: current_limits(),
        }
    }

    /// Finds the program. Errors: it does not exist or is not executable.
    fn find(&self, start: &Start, cwd: &Path) -> Result<ResolvedTool, StartError> {
        let request = &start.request;
        let of_no_project = |program| {
            Ok(ResolvedTool { program, argv: argv(request), project: ProjectTools::default() })
        };
        match &start.program {
            Program::Tool => {}
            Program::File(path) => return of_no_project(PathBuf::from(OsStr::from_bytes(path))),
            Program::AsCalled => return of_no_project(self.find_as_called(request, cwd)?),
        }
        let by_path = request.program.as_ref().map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let name = request.tool.as_str();
        let workspace = self.roots.workspace_root_of(cwd);
        let activated = caller_variable(request, VIRTUAL_ENV).map(Path::new);
        let project = ProjectTools::find(
            (&self.kind, name),
            (activated, by_path.as_deref()),
            (cwd, workspace),
            // In the sidecar: links and interpreters may resolve differently outside of it.
            (Path::is_file, is_executable),
        );
        if let Some(program) = by_path {
            check_program(&program, &self.kind)?;
            return Ok(ResolvedTool { program, argv: argv(request), project });
        }
        let path = self.path_of(&project);
        let mut argv = argv(&start.request);
        let mut lookup = find_in_path(name.as_ref(), &path);
        let mut substitutes = project.substitutes.iter();
        while lookup == Lookup::Absent
            && let Some(substitute) = substitutes.next()
        {
            lookup = find_in_path(substitute.program.as_ref(), &path);
            if !substitute.words.is_empty() {
                argv.splice(..1, substitute.words.iter().map(|word| word.as_bytes().to_vec()));
            }
        }
        match lookup {
            Lookup::Found(program) => Ok(ResolvedTool { program, argv, project }),
            Lookup::NotExecutable(file) => Err(not_executable(&file)),
            Lookup::Absent => {
                let reason = format!("tool '{name}' is not in the sidecar's PATH");
                Err(start_error(StartErrorCause::Absent, reason))
            }
        }
    }

    /// Finds the program of a call that no proxy has judged. One with a slash is executed by that path, as a
    /// script sees it.
    fn find_as_called(&self, request: &ExecRequest, cwd: &Path) -> Result<PathBuf, StartError> {
        let name = OsStr::from_bytes(request.argv().next().unwrap_or_default());
        let program = PathBuf::from(name);
        if name.as_bytes().contains(&b'/') {
            let found = cwd.join(&program).symlink_metadata().map_err(|error| {
                let reason = format!("cannot execute '{}': {error}", program.display());
                start_error(StartErrorCause::NotFound, reason)
            });
            return found.map(|_| program);
        }
        match find_in_path(name, caller_variable(request, "PATH").unwrap_or(&self.path)) {
            Lookup::Found(program) => Ok(program),
            Lookup::NotExecutable(file) => Err(not_executable(&file)),
            Lookup::Absent => {
                let reason = format!("'{}' is not in PATH", program.display());
                Err(start_error(StartErrorCause::Absent, reason))
            }
        }
    }

    /// Returns a call PATH.
    fn path_of(&self, project: &ProjectTools) -> OsString {
        let first = project.first_in_path.as_ref().map(|first| first.as_os_str());
        let parts: Vec<_> = first.into_iter().chain([self.path.as_os_str()]).collect();
        parts.join(OsStr::new(":"))
    }

    /// Builds a call environment, starting with its exec tag. Errors: a variable holds a NUL byte.
    fn environment(
        &self,
        start: &Start,
        (tag, user): (&ExecTag, Option<&User>),
        cwd: &Path,
        project: &ProjectTools,
    ) -> Result<Vec<CString>, StartError> {
        let own = [
            CString::new(tag.as_str()).ok(),
            variable("PWD".as_ref(), working_directory(start, cwd)),
        ];
        let given = start.request.inherited.environment.iter();
        let mut changed =
            given.map(|variable| c_string(variable)).collect::<Result<Vec<_>, _>>()?;
        if let Some(user) = user
            && caller_variable(&start.request, "HOME").is_none()
        {
            changed.extend(variable("HOME".as_ref(), OsStr::from_bytes(&user.home)));
        }
        if project.first_in_path.is_some() {
            changed.extend(variable("PATH".as_ref(), &self.path_of(project)));
        }
        if let Some(venv) = &project.virtual_env {
            changed.retain(|it| !it.as_bytes().starts_with(b"VIRTUAL_ENV="));
            changed.extend(variable(VIRTUAL_ENV.as_ref(), venv.as_os_str()));
        }
        let replaced: Vec<_> = changed.iter().map(name).collect();
        let kept = self.inherited(&start.environment);
        let kept = kept.filter(|variable| !replaced.contains(&name(variable))).cloned();
        Ok(own.into_iter().flatten().chain(kept).chain(changed.iter().cloned()).collect())
    }

    fn inherited(&self, wanted: &Environment) -> impl Iterator<Item = &CString> {
        let is_wanted = |variable: &&CString| match wanted {
            Environment::All => true,
            Environment::Only(names) => {
                let name = name(variable);
                names.iter().any(|wanted| match wanted.strip_suffix(b"*") {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == wanted.as_slice(),
                })
            }
        };
        self.environment.iter().filter(is_wanted)
    }

    /// Starts a tool on the descriptors that the request passes, and on `null` where there is
    /// none. With [`Execve::Later`] and without a monitor, its execve may still fail. Errors: nothing
    /// ran.
    pub(crate) fn launch(
        &self,
        start: &Start,
        passed: Vec<OwnedFd>,
        null: BorrowedFd<'_>,
        execve: Execve,
    ) -> Result<LaunchedTool, StartError> {
        let request = &start.request;
        let inherited = &request.inherited;
        let cwd = self
            .roots
            .open(request.cwd.as_deref(), start.outside_directory, request.cwd_id)
            .map_err(|reason| start_error(StartErrorCause::Cwd, reason))?;
        let user = start.user.as_deref().map(user_of_call).transpose()?;
        let tag = ExecTag::from_variable(format!("{}={}", self.tag, request.id));
        let ResolvedTool { program, argv, project } = self.find(start, &cwd.path)?;
        let stdio = ToolStdio::new(start, passed)?;
        let argv = argv.iter().map(|arg| c_string(arg));
        let spawn = Spawn {
            program: c_string(program.as_os_str().as_bytes())?,
            argv: argv.collect::<Result<Vec<_>, _>>()?,
            env: self.environment(start, (&tag, user.as_ref()), &cwd.path, &project)?,
            cwd: Some(cwd.fd.as_fd()),
            stdio: stdio.fds(null),
            group: Group::New,
            limits: self.limits(&inherited.limits),
            umask: inherited.umask.map(u32::from),
            nice: inherited.nice,
            ignored: inherited.ignored,
            no_network: request.no_network.is_some(),
            credentials: user.filter(User::is_other).map(|user| user.credentials),
            further: None,
        };
        let failed = |error| spawn_start_error(&program, &error);
        let (pid, starting, monitor) = match &stdio.terminal {
            None if execve == Execve::Now => (spawn.spawn().map_err(failed)?, None, None),
            None => {
                let process = spawn.start().map_err(failed)?;
                (process.pid(), Some(StartingTool { program, process }), None)
            }
            Some(terminal) => {
                let (pid, monitor) = monitor::start(&request.id, &tag, spawn, terminal.as_fd())
                    .map_err(|error| start_error(StartErrorCause::Failed, error.to_string()))?;
                (pid, None, Some(monitor))
            }
        };
        let (pipes, stdio) = (stdio.pipes, inherited.stdio);
        Ok(LaunchedTool { pid, tag, starting, monitor, pipes, stdio })
    }

    /// Returns the limits to set for a tool: the defaults, overridden by the caller's soft limits,
    /// each capped at the hard limit; without those that equal the runner's own.
    fn limits(&self, soft_limits: &[SoftLimit]) -> Vec<ResourceLimit> {
        let wanted = self.limits.iter().map(|limit| {
            let soft = soft_limits.iter().find(|wanted| wanted.resource == limit.resource);
            let soft = soft.map_or(limit.soft, |wanted: &SoftLimit| limit.hard.min(wanted.soft));
            ResourceLimit { soft, ..*limit }
        });
        wanted.filter(|limit| !self.own_limits.contains(limit)).collect()
    }
}

/// Looks up the user of a call. Errors: there is none of that name, or this runner may not become it.
fn user_of_call(wanted: &[u8]) -> Result<User, StartError> {
    let failed = |reason| start_error(StartErrorCause::User, reason);
    let user = User::look_up(wanted).map_err(failed)?;
    match user.may_be_taken() {
        true => Ok(user),
        false => Err(failed("only a runner of root starts programs of other users".to_owned())),
    }
}

fn not_executable(file: &Path) -> StartError {
    let reason = format!("cannot execute '{}': permission denied", file.display());
    start_error(StartErrorCause::NotExecutable, reason)
}

/// Names the active virtual environment.
const VIRTUAL_ENV: &str = "VIRTUAL_ENV";

/// Returns the value of a variable that the caller passes.
fn caller_variable<'a>(request: &'a ExecRequest, name: &str) -> Option<&'a OsStr> {
    let value = |variable: &'a Vec<u8>| {
        variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(OsStr::from_bytes)
    };
    request.inherited.environment.iter().find_map(value)
}

fn argv(request: &ExecRequest) -> Vec<Vec<u8>> {
    request.argv().map(<[u8]>::to_vec).collect()
}

/// The value of PWD. A client of version 3 sends its own, which may contain symbolic links.
fn working_directory<'a>(start: &'a Start, real: &'a Path) -> &'a OsStr {
    match &start.request.cwd {
        Some(cwd)
            if start.has_client_session()
                && start.outside_directory == OutsideDirectory::Refuse =>
        {
            OsStr::from_bytes(cwd)
        }
        _ => real.as_os_str(),
    }
}

/// The name of a variable `NAME=value`.
fn name(variable: &CString) -> &[u8] {
    variable.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// The C library's default for an unset PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
