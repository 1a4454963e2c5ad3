//! What becomes of a tool's 0, 1 and 2.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_process::Pty;
use aifo_wire::{Start, StartError, StartErrorCause, Stdio, Stream};

use crate::lane::Lane;
use crate::launch::refuse;

/// The tool's ends, and ours.
#[derive(Debug)]
pub(crate) struct ToolStdio {
    slots: [Slot; 3],
    /// The tool's side of its pseudo terminal.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) lanes: Vec<Lane>,
}

#[derive(Debug)]
enum Slot {
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
        let failed = |reason: String| refuse(StartErrorCause::Failed, reason);
        let relays = [Stdio::Relayed, Stdio::Terminal];
        if start.client.is_none() && invocation.stdio.iter().any(|it| relays.contains(it)) {
            return Err(failed("nobody is there to relay to".to_owned()));
        }
        let mut stdio = ToolStdio {
            slots: [Slot::Null, Slot::Null, Slot::Null],
            terminal: None,
            lanes: Vec::new(),
        };
        if let Some(terminal) = &invocation.terminal {
            let pty = Pty::open(terminal.size, &terminal.modes)
                .map_err(|error| failed(format!("cannot make a terminal: {error}")))?;
            let lane = Lane::terminal(pty.master)
                .map_err(|errno| failed(format!("cannot make a terminal: {}", errno.desc())))?;
            stdio.terminal = Some(pty.slave);
            stdio.lanes.push(lane);
        }
        let mut passed = passed.into_iter();
        for ((slot, stream), what) in stdio.slots.iter_mut().zip(STREAMS).zip(invocation.stdio) {
            *slot = match what {
                Stdio::Null => Slot::Null,
                Stdio::Terminal => Slot::Terminal,
                Stdio::Closed => Slot::Closed,
                Stdio::Same => Slot::Same,
                Stdio::Passed => match passed.next() {
                    Some(fd) => Slot::Open(fd),
                    None => return Err(failed("a descriptor is missing".to_owned())),
                },
                Stdio::Relayed => {
                    let made = match stream {
                        Stream::Stdin => Lane::stdin(),
                        stream => Lane::output(stream),
                    };
                    let (lane, theirs) = made
                        .map_err(|errno| failed(format!("cannot make a pipe: {}", errno.desc())))?;
                    stdio.lanes.push(lane);
                    Slot::Open(theirs)
                }
            };
        }
        Ok(stdio)
    }

    /// What the tool is to get; `None` is closed.
    pub(crate) fn fds<'a>(&'a self, null: BorrowedFd<'a>) -> [Option<BorrowedFd<'a>>; 3] {
        let fd = |slot: &'a Slot| match slot {
            Slot::Null => Some(null),
            Slot::Open(fd) => Some(fd.as_fd()),
            Slot::Terminal => self.terminal.as_ref().map(AsFd::as_fd),
            Slot::Closed | Slot::Same => None,
        };
        let [stdin, stdout, stderr] = &self.slots;
        let merged = if let Slot::Same = stderr { stdout } else { stderr };
        [fd(stdin), fd(stdout), fd(merged)]
    }
}
