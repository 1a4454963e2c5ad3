//! What becomes of a tool's 0, 1 and 2.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::Pty;
use aifo_wire::{Start, StartError, StartErrorCause, Stdio, Stream};

use crate::stream_pipe::StreamPipe;
use crate::tool_launcher::start_error;

/// The tool's ends, and ours.
#[derive(Debug)]
pub(crate) struct ToolStdio {
    fds_: [ToolFd; 3],
    /// The tool's side of its pseudo terminal.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) pipes: Vec<StreamPipe>,
}

#[derive(Debug)]
enum ToolFd {
    Null,
    Open(OwnedFd),
    Terminal,
    Closed,
    /// As the one before.
    Same,
}

/// The stream of each standard descriptor.
const STREAMS: [Stream; 3] = [Stream::Stdin, Stream::Stdout, Stream::Stderr];

impl ToolStdio {
    /// Makes pipes and a pseudo terminal as the invocation says, and takes what was passed. Errors: the
    /// system has none, or there is no client whose bytes a pipe could carry.
    pub(crate) fn new(start: &Start, passed: Vec<OwnedFd>) -> Result<Self, StartError> {
        let invocation = &start.invocation;
        let failed = |reason: String| start_error(StartErrorCause::Failed, reason);
        let relays = [Stdio::Relayed, Stdio::Terminal];
        if start.client.is_none() && invocation.stdio.iter().any(|it| relays.contains(it)) {
            return Err(failed("nobody is there to relay to".to_owned()));
        }
        let mut stdio = ToolStdio {
            fds_: [ToolFd::Null, ToolFd::Null, ToolFd::Null],
            terminal: None,
            pipes: Vec::new(),
        };
        if let Some(terminal) = &invocation.terminal {
            let pty = Pty::open(terminal.size, &terminal.modes)
                .map_err(|error| failed(format!("cannot make a terminal: {error}")))?;
            let pipe = StreamPipe::terminal(pty.master)
                .map_err(|errno| failed(format!("cannot make a terminal: {}", errno.desc())))?;
            stdio.terminal = Some(pty.slave);
            stdio.pipes.push(pipe);
        }
        let mut passed = passed.into_iter();
        for ((fd_, stream), what) in stdio.fds_.iter_mut().zip(STREAMS).zip(invocation.stdio) {
            *fd_ = match what {
                Stdio::Null => ToolFd::Null,
                Stdio::Terminal => ToolFd::Terminal,
                Stdio::Closed => ToolFd::Closed,
                Stdio::Same => ToolFd::Same,
                Stdio::Passed => match passed.next() {
                    Some(fd) => ToolFd::Open(fd),
                    None => return Err(failed("a descriptor is missing".to_owned())),
                },
                Stdio::Relayed => {
                    let made = match stream {
                        Stream::Stdin => StreamPipe::stdin(),
                        stream => StreamPipe::output(stream),
                    };
                    let (pipe, tool_end) = made
                        .map_err(|errno| failed(format!("cannot make a pipe: {}", errno.desc())))?;
                    stdio.pipes.push(pipe);
                    ToolFd::Open(tool_end)
                }
            };
        }
        Ok(stdio)
    }

    /// What the tool is to get; `None` is closed.
    pub(crate) fn fds<'a>(&'a self, null: BorrowedFd<'a>) -> [Option<BorrowedFd<'a>>; 3] {
        let fd = |fd_: &'a ToolFd| match fd_ {
            ToolFd::Null => Some(null),
            ToolFd::Open(fd) => Some(fd.as_fd()),
            ToolFd::Terminal => self.terminal.as_ref().map(AsFd::as_fd),
            ToolFd::Closed | ToolFd::Same => None,
        };
        let [stdin, stdout, stderr] = &self.fds_;
        let merged = if let ToolFd::Same = stderr { stdout } else { stderr };
        [fd(stdin), fd(stdout), fd(merged)]
    }
}
