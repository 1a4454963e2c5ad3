//! The process between the runner and a tool that has a terminal.
//!
//! A tool that led the terminal's session itself would be an orphaned process group, which the kernel
//! does not stop: Ctrl-Z would do nothing. So the monitor leads the session, and the tool is a group of
//! its own in the foreground. The monitor says how it was stopped and how it ended, and signals it:
//! nobody but a process's parent can do that without ever hitting another one of the same number
//! (`spec/terminal.md`).

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_process::{
    ChildEvent, Group, Mark, Reaped, Spawn, Waiting, reap, receive_with_fds, send_with_fds,
    signal_group_number,
};
use aifo_types::{ExecId, Signal};
use aifo_wire::{
    Environment, Exit, Frame, Invocation, OutsideDirectory, Reports, Start, StartError, Stdio,
    Usage,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, getpgrp, tcsetpgrp};

use crate::channel::Channel;
use crate::launch::{c_string, reason_of, spawn_refusal};

/// Starts a monitor on `terminal` and tells it what to start: our end of its connection, on which it
/// says what comes of it. What the tool inherits, the monitor inherits first.
pub(crate) fn start(
    id: &ExecId,
    tool: &Spawn<'_>,
    terminal: BorrowedFd<'_>,
) -> io::Result<(Pid, Channel)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    let bytes = |text: &CString| text.as_bytes().to_vec();
    let open =
        |fd: &Option<BorrowedFd<'_>>| if fd.is_some() { Stdio::Passed } else { Stdio::Closed };
    let invocation = Invocation {
        argv: tool.argv.iter().map(bytes).collect(),
        environment: tool.env.iter().map(bytes).collect(),
        ignored: tool.ignored,
        stdio: [open(&tool.stdio[0]), open(&tool.stdio[1]), open(&tool.stdio[2])],
        ..Invocation::plain(Vec::new(), None)
    };
    let start = Start {
        serial: 0,
        id: id.clone(),
        outside_directory: OutsideDirectory::Refuse,
        program: Some(bytes(&tool.program)),
        environment: Environment::All,
        client: None,
        reports: Reports::StartAndExit,
        invocation,
    };
    let monitor = Spawn {
        program: CString::new("/proc/self/exe")?,
        argv: vec![CString::new("aifo-runner")?, CString::new("monitor")?],
        // Nothing but the mark: whatever ends the exec ends its monitor.
        env: vec![CString::new(Mark::of(id).as_str())?],
        stdio: [Some(theirs.as_fd()), Some(null.as_fd()), Some(null.as_fd())],
        group: Group::Terminal(terminal),
        cwd: tool.cwd,
        limits: tool.limits.clone(),
        umask: tool.umask,
        nice: tool.nice,
        ignored: 0,
    };
    let pid = monitor.spawn().map_err(|error| io::Error::other(reason_of(&error)))?;
    drop(theirs);
    let fds: Vec<_> = tool.stdio.iter().flatten().copied().collect();
    let mut bytes = Vec::new();
    Frame::Start(Box::new(start)).encode(&mut bytes);
    // The monitor reads at once, as a rule; nobody who stops it is to stop us.
    let sent = send_with_fds(ours.as_fd(), &bytes, &fds, Waiting::Refuse)?;
    let mut channel = Channel::new(ours);
    channel.send_encoded(bytes.get(sent..).unwrap_or_default())?;
    Ok((pid, channel))
}

/// Starts the tool that `Start` on `control` names, as the foreground group of our terminal, and
/// looks after it until it has ended and the runner has heard of it.
pub fn monitor(control: OwnedFd) -> io::Result<()> {
    // What is typed is for the tool, and so is a hang-up: nothing interrupts us.
    SigSet::all().thread_block()?;
    let children = SigSet::from_iter([Number::SIGCHLD]);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut control = Channel::new(control);
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let (start, fds) = receive_start(&mut control)?;
    let tool = match start_tool(&start, fds, terminal.as_fd()) {
        Ok(tool) => tool,
        Err(error) => return control.send(&Frame::StartError { serial: 0, error }),
    };
    let pid = u32::try_from(tool.as_raw()).unwrap_or_default();
    control.send(&Frame::Started { serial: 0, pid, stdio: start.invocation.stdio })?;
    let mut resumed = 0;
    loop {
        let mut watched = [
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Emptied first: a child that ends from here on wakes us again.
        while children.read_signal()?.is_some() {}
        while let Some(event) = reap() {
            match event {
                ChildEvent::Stopped { pid, signal } if pid == tool => {
                    control.send(&Frame::Stopped { signal, resumed })?;
                }
                ChildEvent::Ended(reaped) if reaped.pid == tool => {
                    return finish(control, terminal.as_fd(), &reaped);
                }
                ChildEvent::Stopped { .. } | ChildEvent::Ended(_) => {}
            }
        }
        let open = control.fill()?;
        while let Some(Frame::Signal { number }) = control.next_frame().map_err(io::Error::other)? {
            if number == Signal::Cont.number() {
                resumed += 1;
            }
            signal_group_number(tool, number);
        }
        if !open {
            // Without a runner its guard ends the tool, or whoever ended the runner did.
            return Ok(());
        }
    }
}

/// Tells the ending, and stays leader of the session until all that was printed has been read.
fn finish(mut control: Channel, terminal: BorrowedFd<'_>, reaped: &Reaped) -> io::Result<()> {
    // With us the session ends, and the kernel hangs up on its foreground group: that is not to be
    // one in which the tool left something running. It may be gone already.
    let _ = tcsetpgrp(terminal, getpgrp());
    let usage = Usage {
        user: reaped.user,
        system: reaped.system,
        max_rss_kib: reaped.max_rss_kib,
        ..Usage::default()
    };
    let exit = Exit { ending: reaped.ending, cancelled: None, limit: None, taken: 0, usage };
    control.send(&Frame::Exit { serial: 0, exit })?;
    loop {
        let mut watched = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !control.fill()? {
            return Ok(());
        }
        while let Ok(Some(_)) = control.next_frame() {}
    }
}

/// Waits for the one `Start`, and what comes with it.
fn receive_start(control: &mut Channel) -> io::Result<(Start, Vec<OwnedFd>)> {
    let mut fds = Vec::new();
    let mut bytes = [0; 16 * 1024];
    loop {
        match control.next_frame().map_err(io::Error::other)? {
            Some(Frame::Start(start)) => return Ok((*start, fds)),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
        match poll(&mut [PollFd::new(control.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        match receive_with_fds(control.as_fd(), &mut bytes, 3) {
            Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => {
                fds.extend(received.fds);
                control.receive(&bytes[..received.bytes]);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn start_tool(
    start: &Start,
    fds: Vec<OwnedFd>,
    terminal: BorrowedFd<'_>,
) -> Result<Pid, StartError> {
    let invocation = &start.invocation;
    let strings = |all: &[Vec<u8>]| all.iter().map(|text| c_string(text)).collect::<Result<_, _>>();
    let program = start.program.as_deref().unwrap_or_default();
    let mut fds = fds.iter();
    let stdio = invocation.stdio.map(|what| match what {
        Stdio::Passed => fds.next().map(AsFd::as_fd),
        _ => None,
    });
    let spawn = Spawn {
        program: c_string(program)?,
        argv: strings(&invocation.argv)?,
        env: strings(&invocation.environment)?,
        cwd: None,
        stdio,
        group: Group::Foreground(terminal),
        // The rest is ours, and so the tool's.
        limits: Vec::new(),
        umask: None,
        nice: None,
        ignored: invocation.ignored,
    };
    let path = Path::new(OsStr::from_bytes(program));
    spawn.spawn().map_err(|error| spawn_refusal(path, &error))
}
