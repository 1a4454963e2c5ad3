//! A request in a mailbox, from its creation to its answer.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use aifo_mailbox::{CommandExit, Directory, ExitReason, FileKind, RequestId, Watch, limits};
use aifo_types::{ExecId, Signal, exit};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::file_tail::{FileTail, TailState};
use super::stdin_spooler::StdinSpooler;
use super::{MailboxCommand, arguments, caller_info, fail, print_error};
use crate::shim_exit::{BROKEN_PIPE, ShimExit};
use crate::signals::Signals;
use crate::standard_fd::StandardFd;

/// A placed request. Drop removes its files and its answer's; without its `.alive` file the daemon
/// ends a command that still runs.
pub(super) struct Request {
    directory: Directory,
    id: RequestId,
    /// Locked while this process lives.
    alive: File,
    /// Its inode is watched: the daemon removes it after the answer is complete.
    request: Option<File>,
    /// Created only for a longer call: closing it takes the kernel some 10 ms.
    watch: Option<Watch>,
    stdin: Option<StdinSpooler>,
    outputs: Option<[FileTail; 2]>,
    /// Signals that the daemon has not taken yet.
    unsent: Vec<Signal>,
    /// Time of the request's creation.
    since: Instant,
    /// The first phase of polling is over.
    is_long: bool,
    touched: Instant,
}

/// How long to poll for the answer before watching for it.
const POLL_PHASE: Duration = Duration::from_millis(20);
/// First polling interval. Each is a quarter longer than the one before.
const FIRST_INTERVAL: Duration = Duration::from_micros(400);
/// Interval while changes are expected that inotify does not report, and without inotify.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);
/// Interval for shared directories without inotify events.
const LONG_INTERVAL: Duration = Duration::from_millis(250);

impl Request {
    /// Creates the request. On error nothing is left and nothing runs.
    pub(super) fn place(
        mailbox: &MailboxCommand,
        args: &[OsString],
        closed: [bool; 3],
    ) -> Result<Self, String> {
        let words = |errno: Errno| errno.desc().to_owned();
        let directory = Directory::open(&mailbox.directory).map_err(words)?;
        let bits = aifo_process::random_bits().map_err(|error| error.to_string())?;
        let id = ExecId::from_random(bits);
        let id =
            RequestId::new(mailbox.command.clone(), id.as_str()).ok_or("invalid request id")?;
        let alive = directory.create(&id.file(FileKind::Alive)).map_err(words)?;
        let now = Instant::now();
        let mut request = Request {
            directory,
            id,
            alive,
            request: None,
            watch: None,
            stdin: None,
            outputs: None,
            unsent: Vec::new(),
            since: now,
            is_long: false,
            touched: now,
        };
        // Without lock support, the file's modification time shows liveness.
        let _ = request.alive.try_lock();
        request.write_files(mailbox, args, closed).map_err(|error| error.to_string())?;
        Ok(request)
    }

    fn write_files(
        &mut self,
        mailbox: &MailboxCommand,
        args: &[OsString],
        closed: [bool; 3],
    ) -> std::io::Result<()> {
        let file = |kind| self.id.file(kind);
        let mut call = self.directory.create(&file(FileKind::Call))?;
        call.write_all(&caller_info(mailbox, &self.directory).encode())?;
        self.stdin = StdinSpooler::new(&self.directory, &self.id, closed)?;
        let mut draft = self.directory.create(&file(FileKind::RequestDraft))?;
        let request = arguments(args).encode().map_err(std::io::Error::other)?;
        draft.write_all(&request)?;
        self.directory.rename(&file(FileKind::RequestDraft), &file(FileKind::Request))?;
        self.request = Some(draft);
        Ok(())
    }

    /// Copies streams and forwards signals until the command has ended. Returns its exit status.
    pub(super) fn run(mut self, mut signals: Signals, deadline: Option<Instant>) -> ShimExit {
        let mut poll_interval = FIRST_INTERVAL;
        loop {
            if !self.is_long && self.since.elapsed() >= POLL_PHASE {
                self.is_long = true;
                self.start_watching();
            }
            let has_ended = self.directory.exists(&self.id.file(FileKind::Exit));
            let state = self.copy_streams(has_ended);
            match state {
                Err(end) => return end,
                Ok(TailState::Drained) if has_ended => return self.read_exit(),
                Ok(_) => {}
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                // Withdraw the request, if it is not claimed yet.
                let _ = self.directory.remove(&self.id.file(FileKind::Request));
                print_error("timeout waiting for host to execute command");
                return ShimExit::Code(exit::TIMED_OUT);
            }
            self.touch(now);
            let left =
                deadline.map_or(LONG_INTERVAL, |deadline| deadline.saturating_duration_since(now));
            let wait_time = match (&self.watch, &self.outputs, &self.unsent[..]) {
                _ if state == Ok(TailState::More) => Duration::ZERO,
                (None, ..) => poll_interval.min(SHORT_INTERVAL),
                (Some(_), Some(_), []) => LONG_INTERVAL,
                (Some(_), ..) => SHORT_INTERVAL,
            };
            poll_interval = poll_interval.saturating_add(poll_interval / 4);
            self.wait(&signals, left.min(wait_time));
            self.send_signals(&mut signals);
        }
    }

    /// Starts watching. Changes made before are found by the next check. Without a watch, as the user's
    /// inotify instances can be used up, polling goes on.
    fn start_watching(&mut self) {
        let watch = Watch::new();
        if let (Ok(watch), Some(request)) = (&watch, &self.request) {
            // Without this watch the client finds the answer by polling.
            let _ = watch.watch_removal(request);
        }
        self.watch = watch.ok();
    }

    fn copy_streams(&mut self, has_ended: bool) -> Result<TailState, ShimExit> {
        if self.outputs.is_none() && (has_ended || self.is_long) {
            self.open_outputs();
        }
        if let Some(stdin) = &mut self.stdin {
            stdin.spool(&self.directory);
        }
        let Some(outputs) = &mut self.outputs else { return Ok(TailState::Drained) };
        let mut state = TailState::Drained;
        for output in outputs {
            match output.copy() {
                Ok(output_state) => state = state.max(output_state),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Err(BROKEN_PIPE);
                }
                Err(error) => {
                    return Err(fail(&format!("cannot copy the command's output: {error}")));
                }
            }
        }
        Ok(state)
    }

    fn open_outputs(&mut self) {
        let open = |kind| self.directory.open_regular(&self.id.file(kind)).ok();
        let (Some(stdout), Some(stderr)) = (open(FileKind::Stdout), open(FileKind::Stderr)) else {
            return;
        };
        let taken = open(FileKind::Taken);
        if let Some(watch) = &self.watch {
            for file in [Some(&stdout), Some(&stderr), taken.as_ref()].into_iter().flatten() {
                // Unwatched changes are found at the next interval.
                let _ = watch.watch_growth(file);
            }
        }
        let outputs = [(stdout, StandardFd::output()), (stderr, StandardFd::error())];
        self.outputs = Some(outputs.map(|(file, standard)| FileTail::new(file, standard)));
    }

    /// Waits for an event or until `time` has passed. The next loop iteration finds out what
    /// happened.
    fn wait(&self, signals: &Signals, time: Duration) {
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(self.watch.as_ref().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        let stdin = self.stdin.as_ref().and_then(StdinSpooler::poll_fd);
        watched.extend(stdin.map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN)));
        let outputs = self.outputs.iter().flatten().filter_map(FileTail::poll_fd);
        watched.extend(outputs.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        // An interrupted wait is handled like a timeout.
        let _ = ppoll(&mut watched, Some(TimeSpec::from_duration(time)), None);
        while self
            .watch
            .as_ref()
            .is_some_and(|it| it.read_events().is_ok_and(|seen| !seen.is_empty()))
        {}
    }

    fn touch(&mut self, now: Instant) {
        if now.saturating_duration_since(self.touched) >= limits::TOUCH_INTERVAL {
            self.touched = now;
            let _ = self.alive.set_modified(SystemTime::now());
        }
    }

    /// Sends pending signals one by one: the daemon removes the file of each that it has taken.
    fn send_signals(&mut self, signals: &mut Signals) {
        let mut stops = false;
        while let Some(number) = signals.next() {
            if let Some(signal) = Signal::from_number(number) {
                self.unsent.push(signal);
                stops |= signal == Signal::Tstp;
            }
        }
        let file = self.id.file(FileKind::Signal);
        if let Some(signal) = self.unsent.first().copied()
            && !self.directory.exists(&file)
            && self.directory.replace_bytes(&file, signal.name().as_bytes()).is_ok()
        {
            self.unsent.remove(0);
        }
        if stops {
            // Stop like the command, until SIGCONT.
            signals.stop(Signal::Tstp.number());
        }
    }

    fn read_exit(&self) -> ShimExit {
        let read = |kind| self.directory.read(&self.id.file(kind), limits::SMALL).ok();
        let reason = read(FileKind::Reason);
        match read(FileKind::Exit).and_then(|exit| CommandExit::parse(&exit, reason.as_deref())) {
            Some(CommandExit { reason: Some(ExitReason::Signal(number)), .. }) => {
                ShimExit::Signaled(number)
            }
            Some(CommandExit { code, .. }) => ShimExit::Code(code),
            None => fail("the command's exit status is unknown"),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        for file in self.id.files().filter(|file| !is_host_owned(file)) {
            let _ = self.directory.remove(&file);
        }
    }
}

/// Returns whether only the daemon may remove this file. By these names it recognises claimed
/// requests.
fn is_host_owned(file: &str) -> bool {
    RequestId::of_file(file.as_bytes())
        .is_some_and(|(_, kind)| matches!(kind, FileKind::Run | FileKind::ExitDraft))
}
