//! Standard descriptors of a tool.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::Pty;
use aifo_types::Stdio;
use aifo_wire::{Start, StartError, StartErrorCause, Stream};

use crate::start_failure::start_error;
use crate::stream_pipe::StreamPipe;

/// The tool's standard descriptors, and the runner's ends of relayed streams.
#[derive(Debug)]
pub(crate) struct ToolStdio {
    entries: [ToolFd; 3],
    /// The slave of the tool's pseudo terminal.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) pipes: Vec<StreamPipe>,
}

#[derive(Debug)]
enum ToolFd {
    Null,
    Open(OwnedFd),
    Terminal,
    Closed,
    /// The same as stdout.
    Same,
}

/// The stream of each standard descriptor.
const STREAMS: [Stream; 3] = [Stream::Stdin, Stream::Stdout, Stream::Stderr];

impl ToolStdio {
    /// Makes the pipes and the pseudo terminal that the request declares, and takes the passed
    /// descriptors. Errors: the system has no resources left, or streams are to be relayed without
    /// a client.
    pub(crate) fn new(start: &Start, passed: Vec<OwnedFd>) -> Result<Self, StartError> {
        let inherited = &start.request.inherited;
        let failed = |reason: String| start_error(StartErrorCause::Failed, reason);
        let relays = [Stdio::Relayed, Stdio::Terminal];
        if start.client.is_none() && inherited.stdio.iter().any(|it| relays.contains(it)) {
            return Err(failed("no client connection".to_owned()));
        }
        let mut stdio = ToolStdio {
            entries: [ToolFd::Null, ToolFd::Null, ToolFd::Null],
            terminal: None,
            pipes: Vec::new(),
        };
        if let Some(terminal) = &inherited.terminal {
            let pty = Pty::open(terminal.size, &terminal.modes)
                .map_err(|error| failed(format!("cannot open a pseudo terminal: {error}")))?;
            let pipe = StreamPipe::terminal(pty.master).map_err(|errno| {
                failed(format!("cannot open a pseudo terminal: {}", errno.desc()))
            })?;
            stdio.terminal = Some(pty.slave);
            stdio.pipes.push(pipe);
        }
        let mut passed = passed.into_iter();
        for ((entry, stream), declared) in
            stdio.entries.iter_mut().zip(STREAMS).zip(inherited.stdio)
        {
            *entry = match declared {
                Stdio::Null => ToolFd::Null,
                Stdio::Terminal => ToolFd::Terminal,
                Stdio::Closed => ToolFd::Closed,
                Stdio::Same => ToolFd::Same,
                Stdio::Passed => match passed.next() {
                    Some(fd) => ToolFd::Open(fd),
                    None => return Err(failed("a declared descriptor was not passed".to_owned())),
                },
                Stdio::Relayed => {
                    let made = match stream {
                        Stream::Stdin => StreamPipe::stdin(),
                        stream => StreamPipe::output(stream),
                    };
                    let (pipe, tool_end) = made.map_err(|errno| {
                        failed(format!("cannot create a pipe: {}", errno.desc()))
                    })?;
                    stdio.pipes.push(pipe);
                    ToolFd::Open(tool_end)
                }
            };
        }
        Ok(stdio)
    }

    /// Returns the tool descriptors; `None` is closed.
    pub(crate) fn fds<'a>(&'a self, null: BorrowedFd<'a>) -> [Option<BorrowedFd<'a>>; 3] {
        let fd = |entry: &'a ToolFd| match entry {
            ToolFd::Null => Some(null),
            ToolFd::Open(fd) => Some(fd.as_fd()),
            ToolFd::Terminal => self.terminal.as_ref().map(AsFd::as_fd),
            ToolFd::Closed | ToolFd::Same => None,
        };
        let [stdin, stdout, stderr] = &self.entries;
        let merged = if let ToolFd::Same = stderr { stdout } else { stderr };
        [fd(stdin), fd(stdout), fd(merged)]
    }
}
