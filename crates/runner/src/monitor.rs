//! The monitor: the process between the runner and a tool that has a terminal.
//!
//! A tool that led the terminal's session would be an orphaned process group, which the kernel does
//! not stop on Ctrl-Z. So the monitor leads the session, and the tool is its foreground process
//! group. The monitor reports how the tool was stopped and how it ended, and signals it: only the
//! parent of a process cannot hit a reused pid (`spec/terminal.md`).

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_process::{ChildEvent, ExecTag, Group, Reaped, Spawn, reap, signal_group_number};
use aifo_types::{ExecId, ExecRequest, Inherited, Signal, Stdio, ToolName};
use aifo_wire::{Exit, Frame, Program, ResourceUsage, Start, StartError};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getpgrp, tcsetpgrp};

use crate::frame_socket::FrameSocket;
use crate::start_failure::{c_string, spawn_error_text, spawn_start_error};

/// The descriptor of a monitor's connection.
pub const MONITOR_FD: i32 = 3;

/// Starts a monitor on `terminal`, and sends it the tool to start. Returns the monitor's pid and
/// the connection on which it reports. The tool inherits descriptors, limits, umask, nice value and
/// directory from it: descriptors that are sent could be refused.
pub(crate) fn start(
    id: &ExecId,
    tag: &ExecTag,
    tool: Spawn<'_>,
    terminal: BorrowedFd<'_>,
) -> io::Result<(Pid, FrameSocket)> {
    let (runner_end, monitor_end) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    let bytes = |text: &CString| text.as_bytes().to_vec();
    let open =
        |fd: &Option<BorrowedFd<'_>>| if fd.is_some() { Stdio::Passed } else { Stdio::Closed };
    let mut argv = tool.argv.iter();
    let first = argv.next().map(|name| name.as_bytes()).unwrap_or_default();
    let name = first.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = ToolName::parse(name).map_err(io::Error::other)?;
    let request = ExecRequest {
        program: first.starts_with(b"/").then(|| first.to_vec()),
        args: argv.map(bytes).collect(),
        inherited: Inherited {
            environment: tool.env.iter().map(bytes).collect(),
            ignored: tool.ignored,
            stdio: [open(&tool.stdio[0]), open(&tool.stdio[1]), open(&tool.stdio[2])],
            ..Inherited::default()
        },
        // The monitor itself is not restricted.
        no_network: tool.no_network.then(String::new),
        ..ExecRequest::new(id.clone(), name)
    };
    let mut start = Start::new(request);
    start.program = Program::File(bytes(&tool.program));
    let program = CString::new("/proc/self/exe")?;
    let argv = vec![CString::new("aifo-runner")?, CString::new("monitor")?];
    // The exec tag alone, so that killing the exec kills its monitor.
    let env = vec![CString::new(tag.as_str())?];
    let monitor = Spawn {
        stdio: tool.stdio,
        further: Some(monitor_end.as_fd()),
        group: Group::Terminal(terminal),
        cwd: tool.cwd,
        limits: tool.limits,
        umask: tool.umask,
        nice: tool.nice,
        credentials: tool.credentials,
        ..Spawn::new(program, argv, env)
    };
    let pid = monitor.spawn().map_err(|error| io::Error::other(spawn_error_text(&error)))?;
    drop(monitor_end);
    let mut channel = FrameSocket::new(runner_end);
    channel.send(&Frame::Start(Box::new(start)))?;
    Ok((pid, channel))
}

/// Starts the tool of the `Start` frame on `control` as foreground group of the controlling
/// terminal, and waits for its end. Returns once the runner has closed the connection.
pub fn monitor(control: OwnedFd) -> io::Result<()> {
    // Typed signals and hang-ups are for the tool; none may interrupt the monitor.
    SigSet::all().thread_block()?;
    let children = SigSet::from_iter([Number::SIGCHLD]);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut control = FrameSocket::new(control);
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let start = receive_start(&mut control)?;
    let started = start_tool(&start, terminal.as_fd());
    // The tool alone has its descriptors, so that their other ends see it close them.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null))?;
    let tool = match started {
        Ok(tool) => tool,
        Err(error) => return control.send(&Frame::StartError { serial: 0, error }),
    };
    let pid = u32::try_from(tool.as_raw()).unwrap_or_default();
    control.send(&Frame::Started { serial: 0, pid, stdio: start.request.inherited.stdio })?;
    let mut resumed = 0;
    loop {
        let mut polled = [
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Drained before reaping, so that a later SIGCHLD wakes the poll again.
        while children.read_signal()?.is_some() {}
        while let Some(event) = reap() {
            match event {
                ChildEvent::Stopped { pid, signal } if pid == tool => {
                    control.send(&Frame::Stopped { signal, resumed })?;
                }
                ChildEvent::Ended(reaped) if reaped.pid == tool => {
                    return report_exit(control, terminal.as_fd(), &reaped);
                }
                ChildEvent::Stopped { .. } | ChildEvent::Ended(_) => {}
            }
        }
        let open = control.fill()?;
        while let Some(Frame::Signal { number }) = control.next_frame().map_err(io::Error::other)? {
            if number == Signal::Cont.number() {
                resumed += 1;
            }
            // The client's place on its own terminal.
            let group = match i32::from(number) {
                libc::SIGTTIN => Some(getpgrp()),
                libc::SIGTTOU => Some(tool),
                _ => None,
            };
            match group {
                // The terminal may be closed already.
                Some(group) => drop(tcsetpgrp(terminal.as_fd(), group)),
                None => _ = signal_group_number(tool, number),
            }
        }
        if !open {
            // The runner was lost; the guard ends the tool.
            return Ok(());
        }
    }
}

/// Reports the tool's end, and stays session leader until the runner has read the terminal.
fn report_exit(
    mut control: FrameSocket,
    terminal: BorrowedFd<'_>,
    reaped: &Reaped,
) -> io::Result<()> {
    // The end of the session leader hangs up the foreground group, which must not contain
    // background processes of the tool. The terminal may be closed already.
    let _ = tcsetpgrp(terminal, getpgrp());
    let usage = ResourceUsage {
        user: reaped.user,
        system: reaped.system,
        max_rss_kib: reaped.max_rss_kib,
        ..ResourceUsage::default()
    };
    let exit = Exit { ending: reaped.ending, cancelled: None, note: None, taken: 0, usage };
    control.send(&Frame::Exit { serial: 0, exit })?;
    loop {
        let mut polled = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !control.fill()? {
            return Ok(());
        }
        while let Ok(Some(_)) = control.next_frame() {}
    }
}

/// Waits for `Start`.
fn receive_start(control: &mut FrameSocket) -> io::Result<Start> {
    loop {
        match control.next_frame().map_err(io::Error::other)? {
            Some(Frame::Start(start)) => return Ok(*start),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
        match poll(&mut [PollFd::new(control.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !control.fill()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn start_tool(start: &Start, terminal: BorrowedFd<'_>) -> Result<Pid, StartError> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let inherited = &start.request.inherited;
    let program = match &start.program {
        Program::File(path) => path.as_slice(),
        Program::Tool | Program::AsCalled => Default::default(),
    };
    let own = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let is_open = |declared: Stdio| declared == Stdio::Passed;
    let stdio = [0, 1, 2].map(|number| is_open(inherited.stdio[number]).then_some(own[number]));
    let variables = inherited.environment.iter().map(|variable| c_string(variable));
    let (argv, env) = (
        start.request.argv().map(c_string).collect::<Result<_, _>>()?,
        variables.collect::<Result<_, _>>()?,
    );
    // Limits, umask, nice value and directory are inherited from the monitor.
    let spawn = Spawn {
        stdio,
        group: Group::Foreground(terminal),
        ignored: inherited.ignored,
        no_network: start.request.no_network.is_some(),
        ..Spawn::new(c_string(program)?, argv, env)
    };
    let path = Path::new(OsStr::from_bytes(program));
    spawn.spawn().map_err(|error| spawn_start_error(path, &error))
}
