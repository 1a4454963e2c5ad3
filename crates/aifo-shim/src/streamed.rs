//! One tool call: the version 2 client (`spec/toolexec.md`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_process::ignore_broken_pipes;
use aifo_types::exit;
use aifo_wire::{
    ExecCall, Limits, ResponseError, ResponseEvent, ResponseHead, ResponseReader, ToolEnd,
};
use nix::poll::{PollFlags, PollTimeout};

use crate::connection::{self, Sent};
use crate::ending::{BROKEN_PIPE, ShimEnd};
use crate::interrupts::{Interrupts, Wish};
use crate::loss::{self, Interrupted, Refusal};
use crate::outlet::Outlet;
use crate::settings::{ProxyAddress, Settings};
use crate::standard::Standard;
use crate::tell;
use crate::waiting::wait;

/// Runs `tool` in its sidecar and ends as it does.
pub(crate) fn run(settings: &Settings, tool: &[u8], args: &[Vec<u8>], cwd: &Path) -> ShimEnd {
    start(settings, tool, args, cwd).map_or_else(loss::nothing_ran, Call::follow)
}

/// A request that is on its way.
pub(crate) struct Call<'a> {
    settings: &'a Settings,
    proxy: &'a ProxyAddress,
    socket: OwnedFd,
    /// `None` if signals are not for the tool.
    interrupts: Option<Interrupts>,
    /// Output comes faster than it is read.
    in_bulk: bool,
}

/// Everything up to the last byte of the request. The error says why nothing can have run.
fn start<'a>(
    settings: &'a Settings,
    tool: &[u8],
    args: &[Vec<u8>],
    cwd: &Path,
) -> Result<Call<'a>, String> {
    let proxy = settings.proxy.as_ref().map_err(Clone::clone)?;
    let id = settings.exec_id()?;
    if settings.verbose {
        let tool = String::from_utf8_lossy(tool);
        let cwd = cwd.display();
        tell::line(format_args!("exec: tool={tool} exec_id={id} cwd={cwd}"));
    }
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    let cwd = cwd.as_os_str().as_bytes();
    let mut request = Vec::new();
    ExecCall { endpoint, token, id: &id, tool, cwd, args }.encode(2, &mut request);
    // Before anything is sent: from then on a signal is the tool's.
    let interrupts = Interrupts::catch(proxy.clone(), id)
        .map_err(|errno| format!("cannot catch signals: {}", errno.desc()))?;
    let unreachable = |why| format!("cannot reach the proxy at {endpoint}: {why}");
    let socket = connection::open(endpoint).map_err(|error| unreachable(error.to_string()))?;
    match connection::send_request(&socket, &request) {
        // What was cut off is never executed, but there may be a reason to read.
        Sent::All | Sent::Part => Ok(Call::new(settings, proxy, socket, Some(interrupts))),
        Sent::Nothing => Err(unreachable("it closed the connection".to_owned())),
    }
}

/// Why the output stopped before its end.
enum Broken {
    /// The connection, or the proxy behind it.
    Answer(ResponseError),
    /// Our own stdout.
    Stdout(io::Error),
    /// The user does not want to wait any longer.
    GivenUp,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        proxy: &'a ProxyAddress,
        socket: OwnedFd,
        interrupts: Option<Interrupts>,
    ) -> Self {
        // A reader of our output that leaves is an error that a write tells.
        ignore_broken_pipes();
        Call { settings, proxy, socket, interrupts, in_bulk: false }
    }

    /// Carries the answer to its end.
    pub(crate) fn follow(mut self) -> ShimEnd {
        match self.answer() {
            Ok(end) => end,
            Err(Broken::Answer(error)) => self.lost(error),
            Err(Broken::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                // Closing the connection has the tool ended, as SIGPIPE would have.
                BROKEN_PIPE
            }
            Err(Broken::Stdout(error)) => {
                tell::line(format_args!("cannot write to stdout: {error}; the tool was ended"));
                ShimEnd::Code(exit::UNKNOWN)
            }
            Err(Broken::GivenUp) => loss::given_up(),
        }
    }

    fn answer(&mut self) -> Result<ShimEnd, Broken> {
        let mut reader = ResponseReader::new(Limits::default());
        let head = loop {
            match reader.next_event().map_err(Broken::Answer)? {
                ResponseEvent::Head(head) => break head,
                ResponseEvent::Progress(text) => tell::progress(&text),
                _ => self.fill(&mut reader)?,
            }
        };
        if head.status == 200 { self.output(reader) } else { self.refusal(reader, head) }
    }

    /// Carries the tool's output to stdout, then ends as the tool did.
    fn output(&mut self, mut reader: ResponseReader) -> Result<ShimEnd, Broken> {
        let mut outlet = None;
        loop {
            match reader.next_event().map_err(Broken::Answer)? {
                ResponseEvent::NeedData => self.fill(&mut reader)?,
                ResponseEvent::Data(data) => {
                    self.in_bulk = data.len() > GLANCE / 2;
                    self.write(
                        outlet.get_or_insert_with(|| Outlet::new(Standard::output())),
                        data,
                    )?;
                }
                ResponseEvent::Progress(_) | ResponseEvent::Head(_) => {}
                ResponseEvent::End { exit_code, tool_end } => {
                    return Ok(self.end(exit_code, tool_end));
                }
            }
        }
    }

    fn refusal(
        &mut self,
        mut reader: ResponseReader,
        head: ResponseHead,
    ) -> Result<ShimEnd, Broken> {
        let mut refusal = Refusal::new(head);
        while !refusal.is_complete(&mut reader) {
            self.fill(&mut reader)?;
        }
        Ok(refusal.tell())
    }

    fn end(&self, exit_code: Option<u8>, tool_end: ToolEnd) -> ShimEnd {
        if self.settings.habits.exit_zero_on_sigint && self.was_interrupted() {
            return ShimEnd::Code(0);
        }
        match (exit_code, tool_end) {
            (Some(code), ToolEnd::Exited) => ShimEnd::Code(code),
            (Some(code), ToolEnd::Limited(limit)) => {
                loss::limited(limit);
                ShimEnd::Code(code)
            }
            (_, ToolEnd::Unknown) => {
                tell::line("the sidecar went away while the tool ran; its ending is unknown");
                ShimEnd::Code(exit::UNKNOWN)
            }
            (None, ToolEnd::Exited | ToolEnd::Limited(_)) => {
                tell::line("the proxy did not tell how the tool ended");
                ShimEnd::Code(exit::UNKNOWN)
            }
        }
    }

    /// The connection ended before the answer did.
    fn lost(&self, error: ResponseError) -> ShimEnd {
        let interrupted = if self.was_interrupted() { Interrupted::Yes } else { Interrupted::No };
        loss::lost(&error.into(), &self.proxy.endpoint, self.settings.habits, interrupted)
    }

    /// Waits for more of the answer.
    fn fill(&mut self, reader: &mut ResponseReader) -> Result<(), Broken> {
        loop {
            let (ready, interrupted) = self.wait(self.socket.as_fd(), PollFlags::POLLIN);
            if interrupted {
                self.forward()?;
            }
            if ready {
                break;
            }
        }
        // Most answers are short; one that goes on is read in bulk.
        let room = if self.in_bulk { BULK } else { GLANCE };
        let space = reader.buffer().spare(room);
        match connection::receive(&self.socket, space) {
            // A reset is an end as well: what was to come does not.
            Ok(0) | Err(_) => reader.receive_eof(),
            Ok(count) => reader.buffer().commit(count),
        }
        Ok(())
    }

    fn write(&mut self, outlet: &Outlet, data: &[u8]) -> Result<(), Broken> {
        let mut rest = data;
        let mut must_wait = outlet.must_wait_first();
        while !rest.is_empty() {
            if must_wait {
                let (ready, interrupted) = self.wait(outlet.as_fd(), PollFlags::POLLOUT);
                if interrupted {
                    self.forward()?;
                }
                if !ready {
                    continue;
                }
            }
            match outlet.write(rest).map_err(Broken::Stdout)? {
                Some(count) => rest = rest.get(count..).unwrap_or_default(),
                None => must_wait = true,
            }
        }
        Ok(())
    }

    /// Waits until `fd` is ready or a signal has come: whether it is, and whether one has.
    fn wait(&self, fd: BorrowedFd<'_>, events: PollFlags) -> (bool, bool) {
        let signals = self.interrupts.as_ref().map(|it| (it.as_fd(), PollFlags::POLLIN));
        let [fd, signals] = wait([Some((fd, events)), signals], PollTimeout::NONE);
        (!fd.is_empty(), !signals.is_empty())
    }

    fn forward(&mut self) -> Result<(), Broken> {
        match self.interrupts.as_mut().map(Interrupts::forward) {
            None | Some(Wish::Wait) => Ok(()),
            Some(Wish::GiveUp) => Err(Broken::GivenUp),
        }
    }

    fn was_interrupted(&self) -> bool {
        self.interrupts.as_ref().is_some_and(Interrupts::were_sent)
    }
}

/// Enough for the head and the end of an answer.
const GLANCE: usize = 4 * 1024;
/// One full chunk of the proxy's.
const BULK: usize = 64 * 1024;
