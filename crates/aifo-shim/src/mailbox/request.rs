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

use super::feed::Feed;
use super::tap::{Flow, Tap};
use super::{Place, arguments, call, fail, say};
use crate::ending::{BROKEN_PIPE, ShimEnd};
use crate::signals::Signals;
use crate::standard::Standard;

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
    feed: Option<Feed>,
    /// The streams, as soon as they are looked at.
    taps: Option<[Tap; 2]>,
    /// Signals that the host has not taken yet.
    unsent: Vec<Signal>,
    /// Since when we are here, or watch.
    since: Instant,
    touched: Instant,
}

/// A command of a moment has ended by then, and is only looked for.
const MOMENT: Duration = Duration::from_millis(20);
/// How soon at first, and each time after a quarter more: what it takes is not seen much later.
const GLANCE: Duration = Duration::from_micros(400);
/// How soon something is looked for that nobody tells us of.
const SOON: Duration = Duration::from_millis(20);
/// On a shared directory that tells of no changes we look by ourselves.
const PATIENCE: Duration = Duration::from_millis(250);

impl Request {
    /// Places it. Errors are words for people; then nothing is left, and nothing runs.
    pub(super) fn place(
        place: &Place,
        args: &[OsString],
        closed: [bool; 3],
    ) -> Result<Self, String> {
        let words = |errno: Errno| errno.desc().to_owned();
        let directory = Directory::open(&place.folder).map_err(words)?;
        let bits = aifo_process::random_bits().map_err(|error| error.to_string())?;
        let id = ExecId::from_random(bits);
        let id = RequestId::new(place.command.clone(), id.as_str()).ok_or("its name is no id")?;
        let alive = directory.create(&id.file(FileKind::Alive)).map_err(words)?;
        let now = Instant::now();
        let mut request = Request {
            directory,
            id,
            alive,
            request: None,
            watch: None,
            feed: None,
            taps: None,
            unsent: Vec::new(),
            since: now,
            touched: now,
        };
        // Where there are no locks, touching it has to do.
        let _ = request.alive.try_lock();
        request.fill(place, args, closed).map_err(|error| error.to_string())?;
        Ok(request)
    }

    fn fill(&mut self, place: &Place, args: &[OsString], closed: [bool; 3]) -> std::io::Result<()> {
        let file = |kind| self.id.file(kind);
        let mut about = self.directory.create(&file(FileKind::Call))?;
        about.write_all(&call(place, &self.directory).encode())?;
        self.feed = Feed::new(&self.directory, &self.id, closed)?;
        let mut draft = self.directory.create(&file(FileKind::RequestDraft))?;
        let request = arguments(args).encode().map_err(std::io::Error::other)?;
        draft.write_all(&request)?;
        self.directory.rename(&file(FileKind::RequestDraft), &file(FileKind::Request))?;
        self.request = Some(draft);
        Ok(())
    }

    /// Carries bytes and signals until the command has ended, and says how.
    pub(super) fn follow(mut self, mut signals: Signals, deadline: Option<Instant>) -> ShimEnd {
        let mut glance = GLANCE;
        loop {
            if self.watch.is_none() && self.since.elapsed() >= MOMENT {
                self.start_watching();
            }
            let has_ended = self.directory.exists(&self.id.file(FileKind::Exit));
            let flow = self.carry(has_ended);
            match flow {
                Err(end) => return end,
                Ok(Flow::Dry) if has_ended => return self.ending(),
                Ok(_) => {}
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                // Nobody takes it up any more from here on.
                let _ = self.directory.remove(&self.id.file(FileKind::Request));
                say("timeout waiting for host to execute command");
                return ShimEnd::Code(exit::TIMED_OUT);
            }
            self.beat(now);
            let left =
                deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(now));
            let patience = match (&self.watch, &self.taps, &self.unsent[..]) {
                _ if flow == Ok(Flow::More) => Duration::ZERO,
                (None, ..) => glance,
                (Some(_), Some(_), []) => PATIENCE,
                (Some(_), ..) => SOON,
            };
            glance = glance.saturating_add(glance / 4);
            self.wait(&signals, left.min(patience));
            self.listen(&mut signals);
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
    fn carry(&mut self, has_ended: bool) -> Result<Flow, ShimEnd> {
        if self.taps.is_none() && (has_ended || self.watch.is_some()) {
            self.open_taps();
        }
        if let Some(feed) = &mut self.feed {
            feed.carry(&self.directory);
        }
        let Some(taps) = &mut self.taps else { return Ok(Flow::Dry) };
        let mut flow = Flow::Dry;
        for tap in taps {
            match tap.carry() {
                Ok(of_this) => flow = flow.max(of_this),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Err(BROKEN_PIPE);
                }
                Err(error) => return Err(fail(&format!("cannot show what it printed: {error}"))),
            }
        }
        Ok(flow)
    }

    fn open_taps(&mut self) {
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
        let taps = [(stdout, Standard::output()), (stderr, Standard::error())];
        self.taps = Some(taps.map(|(file, standard)| Tap::new(file, standard)));
    }

    /// Waits for whatever may happen, and no longer than that. What it was is seen by the next look.
    fn wait(&self, signals: &Signals, time: Duration) {
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(self.watch.as_ref().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        let feed = self.feed.as_ref().and_then(Feed::wants);
        watched.extend(feed.map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN)));
        let taps = self.taps.iter().flatten().filter_map(Tap::wants);
        watched.extend(taps.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        // An interrupted wait is as good as one that is over.
        let _ = ppoll(&mut watched, Some(TimeSpec::from_duration(time)), None);
        while self
            .watch
            .as_ref()
            .is_some_and(|it| it.read_events().is_ok_and(|seen| !seen.is_empty()))
        {}
    }

    fn beat(&mut self, now: Instant) {
        if now.saturating_duration_since(self.touched) >= limits::TOUCH_INTERVAL {
            self.touched = now;
            let _ = self.alive.set_modified(SystemTime::now());
        }
    }

    /// Hands signals on, one after the other: the host has taken one when its file is gone.
    fn listen(&mut self, signals: &mut Signals) {
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

    fn ending(&self) -> ShimEnd {
        let read = |kind| self.directory.read(&self.id.file(kind), limits::SMALL).ok();
        let reason = read(FileKind::Reason);
        match read(FileKind::Exit).and_then(|exit| CommandExit::parse(&exit, reason.as_deref())) {
            Some(CommandExit { reason: Some(ExitReason::Signal(number)), .. }) => {
                ShimEnd::Signaled(number)
            }
            Some(CommandExit { code, .. }) => ShimEnd::Code(code),
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
