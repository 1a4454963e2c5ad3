//! A request in a mailbox, from its placing to its answer.

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

/// What we have placed. Dropped, all of it and of its answer is removed: without the file that says that
/// we are here, a command that still runs is ended.
pub(super) struct Request {
    directory: Directory,
    id: RequestId,
    /// Locked as long as we live, whatever ends us.
    alive: File,
    /// The same file under every name that it will have; its removal is the answer.
    request: Option<File>,
    /// For what takes longer than a moment: closing one takes the kernel some 10 ms.
    watch: Option<Watch>,
    stdin: Option<StdinSpooler>,
    /// The streams, as soon as they are looked at.
    outputs: Option<[FileTail; 2]>,
    /// Signals that the host has not taken yet.
    unsent: Vec<Signal>,
    /// Since when we are here, or watch.
    since: Instant,
    touched: Instant,
}

/// A command of a moment has ended by then, and is only looked for.
const POLL_PHASE: Duration = Duration::from_millis(20);
/// How soon at first, and each time after a quarter more: what it takes is not seen much later.
const FIRST_INTERVAL: Duration = Duration::from_micros(400);
/// How soon something is looked for that nobody tells us of.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);
/// On a shared directory that tells of no changes we look by ourselves.
const LONG_INTERVAL: Duration = Duration::from_millis(250);

impl Request {
    /// Places it. Errors are words for people; then nothing is left, and nothing runs.
    pub(super) fn place(
        mailbox: &MailboxCommand,
        args: &[OsString],
        closed: [bool; 3],
    ) -> Result<Self, String> {
        let words = |errno: Errno| errno.desc().to_owned();
        let directory = Directory::open(&mailbox.directory).map_err(words)?;
        let bits = aifo_process::random_bits().map_err(|error| error.to_string())?;
        let id = ExecId::from_random(bits);
        let id = RequestId::new(mailbox.command.clone(), id.as_str()).ok_or("its name is no id")?;
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
            touched: now,
        };
        // Where there are no locks, touching it has to do.
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

    /// Carries bytes and signals until the command has ended, and says how.
    pub(super) fn run(mut self, mut signals: Signals, deadline: Option<Instant>) -> ShimExit {
        let mut interval = FIRST_INTERVAL;
        loop {
            if self.watch.is_none() && self.since.elapsed() >= POLL_PHASE {
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
                // Nobody takes it up any more from here on.
                let _ = self.directory.remove(&self.id.file(FileKind::Request));
                print_error("timeout waiting for host to execute command");
                return ShimExit::Code(exit::TIMED_OUT);
            }
            self.touch(now);
            let left =
                deadline.map_or(LONG_INTERVAL, |deadline| deadline.saturating_duration_since(now));
            let interval_left = match (&self.watch, &self.outputs, &self.unsent[..]) {
                _ if state == Ok(TailState::More) => Duration::ZERO,
                (None, ..) => interval,
                (Some(_), Some(_), []) => LONG_INTERVAL,
                (Some(_), ..) => SHORT_INTERVAL,
            };
            interval = interval.saturating_add(interval / 4);
            self.wait(&signals, left.min(interval_left));
            self.send_signals(&mut signals);
        }
    }

    /// From now on we are told of changes. What was there before is found by the next look.
    fn start_watching(&mut self) {
        let watch = Watch::new();
        if let (Ok(watch), Some(request)) = (&watch, &self.request) {
            // Where it cannot be, we look by ourselves.
            let _ = watch.watch_removal(request);
        }
        self.watch = watch.ok();
        // Without one we are as patient as with one.
        self.since = Instant::now();
    }

    /// What has come, to our own reader. An error is how we end without one.
    fn copy_streams(&mut self, has_ended: bool) -> Result<TailState, ShimExit> {
        if self.outputs.is_none() && (has_ended || self.watch.is_some()) {
            self.open_outputs();
        }
        if let Some(stdin) = &mut self.stdin {
            stdin.spool(&self.directory);
        }
        let Some(outputs) = &mut self.outputs else { return Ok(TailState::Drained) };
        let mut state = TailState::Drained;
        for output in outputs {
            match output.copy() {
                Ok(of_this) => state = state.max(of_this),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Err(BROKEN_PIPE);
                }
                Err(error) => return Err(fail(&format!("cannot show what it printed: {error}"))),
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
                // What is not told of is found a little later.
                let _ = watch.watch_growth(file);
            }
        }
        let outputs = [(stdout, StandardFd::output()), (stderr, StandardFd::error())];
        self.outputs = Some(outputs.map(|(file, standard)| FileTail::new(file, standard)));
    }

    /// Waits for whatever may happen, and no longer than that. What it was is seen by the next look.
    fn wait(&self, signals: &Signals, time: Duration) {
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(self.watch.as_ref().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        let stdin = self.stdin.as_ref().and_then(StdinSpooler::poll_fd);
        watched.extend(stdin.map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN)));
        let outputs = self.outputs.iter().flatten().filter_map(FileTail::poll_fd);
        watched.extend(outputs.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        // An interrupted wait is as good as one that is over.
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

    /// Hands signals on, one after the other: the host has taken one when its file is gone.
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
            // The command stops over there, and we do here until somebody continues us.
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
            None => fail("the ending of the command is unknown"),
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

/// What only the host may remove: by these names it knows that it has claimed a request.
fn is_host_owned(file: &str) -> bool {
    RequestId::of_file(file.as_bytes())
        .is_some_and(|(_, kind)| matches!(kind, FileKind::Run | FileKind::ExitDraft))
}
