//! A version 3 call from its request to its end: one loop around everything that can happen
//! (`spec/exec3.md#frames`).

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_process::{SignalSet, signal_group_number, terminal};
use aifo_types::{Ending, exit};
use aifo_wire::{CancelCause, Exit, Frame, FrameReader, Stdio, Stream};
use nix::libc;
use nix::poll::{PollFlags, PollTimeout};
use nix::unistd::getpgrp;

use crate::ending::{BROKEN_PIPE, ShimEnd};
use crate::inlet::{Inlet, Reading};
use crate::keyboard::{Keyboard, Output};
use crate::line::Line;
use crate::loss::{self, Interrupted, Lost};
use crate::outlet::Outlet;
use crate::settings::{ProxyAddress, Settings};
use crate::signals::Signals;
use crate::sink::{Loss, Sink};
use crate::standard::Standard;
use crate::tell;
use crate::waiting::wait;

/// A call whose request is on its way. Until the tool has started only signals are carried, then
/// everything that goes by the connection.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    settings: &'a Settings,
    proxy: &'a ProxyAddress,
    pub(crate) line: Line,
    pub(crate) signals: Signals,
    ignored: SignalSet,
    /// Our terminal, if the tool gets one.
    terminal: Option<Standard>,
    output: Output,
    has_started: bool,
    /// Since when INT finds that what was forwarded lies unread.
    unheard_since: Option<Instant>,
    inlet: Option<Inlet>,
    keyboard: Option<Keyboard>,
    /// Whether stdin and stdout have gone to the tool, and are still open here.
    is_passed: [bool; 2],
    /// stdout, stderr, and what the pseudo terminal shows.
    sinks: [Option<Sink>; 3],
    /// Frames come faster than they are taken.
    in_bulk: bool,
}

/// Why a call stopped before its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection, or the proxy behind it.
    Lost(Lost),
    /// The user does not want to wait any longer.
    GivenUp,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        proxy: &'a ProxyAddress,
        line: Line,
        (signals, ignored): (Signals, SignalSet),
        (terminal, output): (Option<Standard>, Output),
    ) -> Self {
        Relay {
            settings,
            proxy,
            line,
            signals,
            ignored,
            terminal,
            output,
            has_started: false,
            unheard_since: None,
            inlet: None,
            keyboard: None,
            is_passed: [false; 2],
            sinks: [const { None }; 3],
            in_bulk: false,
        }
    }

    /// Waits for something to read on the connection, which nothing but signals goes by yet.
    pub(crate) fn wait_for_answer(&mut self) -> Result<(), Broken> {
        loop {
            self.line.flush();
            let signals = (self.signals.as_fd(), PollFlags::POLLIN);
            let [line, signals] = wait([Some(self.line.wants()), Some(signals)], PollTimeout::NONE);
            if !signals.is_empty() {
                self.hear()?;
            }
            if line.intersects(!PollFlags::POLLOUT) {
                return Ok(());
            }
        }
    }

    /// Carries the call to its end. `first` are the frames that came with the answer's head.
    pub(crate) fn follow(mut self, first: &[u8]) -> ShimEnd {
        let mut reader = FrameReader::for_client();
        reader.receive(first);
        match self.converse(&mut reader) {
            Ok(exit) => self.finish(&exit),
            Err(broken) => self.stop_short(&broken),
        }
    }

    /// Ends without knowing how the tool did.
    pub(crate) fn stop_short(mut self, broken: &Broken) -> ShimEnd {
        // What has come is the tool's output all the same.
        let ended_by = match broken {
            Broken::Lost(_) => self.drain(),
            Broken::GivenUp => None,
        };
        // Before anything is told: the terminal is to be as it was.
        self.keyboard = None;
        match (ended_by, broken) {
            (Some(number), _) => ShimEnd::Signaled(number),
            (None, Broken::GivenUp) => loss::given_up(),
            (None, Broken::Lost(lost)) => {
                let interrupted = match self.signals.interrupts() {
                    0 => Interrupted::No,
                    _ => Interrupted::Yes,
                };
                loss::lost(lost, &self.proxy.endpoint, self.settings.habits, interrupted)
            }
        }
    }

    fn converse(&mut self, reader: &mut FrameReader) -> Result<Exit, Broken> {
        loop {
            while let Some(frame) = reader.next_frame().map_err(nonsense)? {
                if let Some(exit) = self.take(&frame)? {
                    return Ok(exit);
                }
            }
            self.let_go_of_passed();
            if let Some(keyboard) = &mut self.keyboard {
                keyboard.look(Instant::now(), &mut self.line);
            }
            self.line.flush();
            while self.inlet.as_ref().is_some_and(|inlet| inlet.wants_to_try(&self.line)) {
                self.read_input();
                self.line.flush();
            }
            let [line, signals, input, typed, sinks @ ..] = self.wait();
            if !signals.is_empty() {
                self.hear()?;
            }
            if line.intersects(!PollFlags::POLLOUT) {
                self.fill(reader)?;
            }
            for (sink, ready) in self.sinks.iter_mut().zip(sinks) {
                if let Some(sink) = sink {
                    sink.resume(ready, &mut self.line);
                }
            }
            if !input.is_empty() {
                self.read_input();
            }
            if let (Some(keyboard), false) = (&mut self.keyboard, typed.is_empty()) {
                keyboard.read(&mut self.line);
            }
        }
    }

    fn wait(&self) -> [PollFlags; 7] {
        let [out, err, shown] = self.sinks.each_ref().map(|sink| sink.as_ref()?.wants());
        let input = self.inlet.as_ref().and_then(|inlet| inlet.wants(&self.line));
        let typed = self.keyboard.as_ref().and_then(|keyboard| keyboard.wants(&self.line));
        let timeout = match self.keyboard.as_ref().and_then(Keyboard::due) {
            Some(due) => PollTimeout::try_from(due.saturating_duration_since(Instant::now())),
            None => Ok(PollTimeout::NONE),
        };
        let signals = (self.signals.as_fd(), PollFlags::POLLIN);
        wait(
            [Some(self.line.wants()), Some(signals), input, typed, out, err, shown],
            timeout.unwrap_or(PollTimeout::ZERO),
        )
    }

    fn fill(&mut self, reader: &mut FrameReader) -> Result<(), Broken> {
        let space = reader.buffer().spare(if self.in_bulk { BULK } else { GLANCE });
        match self.line.receive(space) {
            // A reset is an end as well: what was to come does not.
            Ok(0) | Err(_) => Err(Broken::Lost(Lost::CutOff)),
            Ok(count) => {
                self.in_bulk = count == space.len();
                reader.buffer().commit(count);
                Ok(())
            }
        }
    }

    /// Takes a frame; how the tool ended, if that is what it says.
    fn take(&mut self, frame: &Frame<'_>) -> Result<Option<Exit>, Broken> {
        match frame {
            Frame::Started { stdio, .. } if !self.has_started => self.begin(*stdio),
            Frame::Data { stream, data } => match self.sink(*stream) {
                (Some(sink), line) => sink.take(data, line).map_err(nonsense)?,
                (None, _) => return Err(nonsense("data of a stream that is not relayed")),
            },
            Frame::Closed { stream: Stream::Stdin } => {
                if let Some(inlet) = &mut self.inlet {
                    inlet.let_go();
                }
            }
            Frame::Closed { stream } => {
                if let (Some(sink), _) = self.sink(*stream) {
                    sink.end();
                }
            }
            Frame::Credit { stream, bytes } => match stream {
                Stream::Stdin => self.inlet.as_mut().map(|inlet| inlet.grant(*bytes)),
                Stream::Terminal => self.keyboard.as_mut().map(|keys| keys.grant(*bytes)),
                Stream::Stdout | Stream::Stderr => None,
            }
            .transpose()
            .map(drop)
            .map_err(nonsense)?,
            Frame::Stopped { signal, resumed } => self.stop(*signal, *resumed)?,
            Frame::Exit { exit, .. } => return Ok(Some(*exit)),
            other => return Err(nonsense(format_args!("an unexpected {:?} frame", other.kind()))),
        }
        Ok(None)
    }

    /// The tool has started: what it has is no business of ours any more, the rest is carried.
    fn begin(&mut self, stdio: [Stdio; 3]) {
        self.has_started = true;
        let [input, output, error] = Standard::all();
        self.is_passed = [stdio[0], stdio[1]].map(|kind| kind == Stdio::Passed);
        match stdio[0] {
            Stdio::Relayed => self.inlet = Some(Inlet::relayed(input)),
            Stdio::Terminal => {
                let mut keyboard = Keyboard::new(self.output);
                // What it shows may have come with this very frame, and wants the modes to be set.
                keyboard.look(Instant::now(), &mut self.line);
                self.keyboard = Some(keyboard);
            }
            _ => {}
        }
        let relayed = |standard: Standard, kind: Stdio, stream| {
            (kind == Stdio::Relayed).then(|| Sink::new(stream, Outlet::new(standard)))
        };
        let shown = self.terminal.as_ref();
        let shown = shown.map(|fd| Sink::new(Stream::Terminal, Outlet::new(fd.again())));
        self.sinks = [
            relayed(output, stdio[1], Stream::Stdout),
            relayed(error, stdio[2], Stream::Stderr),
            shown,
        ];
    }

    /// What the tool has got is no business of ours any more; but a tool that has ended by the time
    /// we hear that it started leaves nothing to be done. stderr stays, for what we may have to say.
    fn let_go_of_passed(&mut self) {
        let passed = std::mem::take(&mut self.is_passed);
        let both = [Standard::input(), Standard::output()];
        let passed = both.iter().zip(passed).filter(|(_, is_passed)| *is_passed);
        Standard::let_go(passed.map(|(standard, _)| standard));
    }

    fn read_input(&mut self) {
        let Some(inlet) = &mut self.inlet else { return };
        if inlet.read(&mut self.line) == Reading::End {
            inlet.end();
            self.line.push(&Frame::Closed { stream: Stream::Stdin });
        }
    }

    /// Forwards every signal that has come.
    fn hear(&mut self) -> Result<(), Broken> {
        while let Some(number) = self.signals.next() {
            self.forward(number)?;
        }
        Ok(())
    }

    fn forward(&mut self, number: u8) -> Result<(), Broken> {
        match i32::from(number) {
            libc::SIGWINCH if self.terminal.is_some() => {
                self.tell_size();
                return Ok(());
            }
            libc::SIGINT if self.signals.interrupts() >= GIVE_UP && !self.is_heard() => {
                return Err(Broken::GivenUp);
            }
            libc::SIGCONT => self.keyboard.iter_mut().for_each(Keyboard::look_again),
            _ => {}
        }
        self.line.push(&Frame::Signal { number });
        Ok(())
    }

    fn tell_size(&mut self) {
        let terminal = self.terminal.as_ref();
        if let Some(Ok(size)) = terminal.map(|fd| terminal::window_size(fd.as_fd())) {
            self.line.push(&Frame::Resize(size));
        }
    }

    /// Whether somebody takes what is forwarded, or has not had the time to.
    fn is_heard(&mut self) -> bool {
        if !self.has_started {
            return false;
        }
        if !self.line.is_unheard() {
            self.unheard_since = None;
            return true;
        }
        self.unheard_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    /// Does what the terminal, or whoever stopped the tool, would have done to it here.
    fn stop(&mut self, signal: u8, resumed: u32) -> Result<(), Broken> {
        if resumed < self.signals.continued() {
            // It goes on again by now.
            return Ok(());
        }
        let was_typed = i32::from(signal) == libc::SIGTSTP && self.was_typed(signal);
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.leave();
        }
        if was_typed {
            signal_group_number(getpgrp(), signal);
        }
        self.signals.stop(signal);
        // We go on, and so does the tool, before anything that has come since. There may be no CONT to
        // read: a stop that followed it took it away (signal(7)), or nobody sent one, as the kernel does
        // not stop a group that nobody could continue.
        let resume = libc::SIGCONT as u8;
        let since: Vec<u8> = std::iter::from_fn(|| self.signals.next()).collect();
        if !since.contains(&resume) {
            self.signals.count_continued();
        }
        self.forward(resume)?;
        since.into_iter().filter(|number| *number != resume).try_for_each(|it| self.forward(it))
    }

    /// Whether a signal that reached the tool was made by its pseudo terminal from a key that was
    /// pressed on ours: then ours has not signalled our group, as it does when it is not raw.
    fn was_typed(&self, number: u8) -> bool {
        let is_ours = |terminal: &Standard| terminal::is_foreground(terminal.as_fd());
        self.terminal.as_ref().is_some_and(is_ours) && !self.signals.have_brought(number)
    }

    /// Writes what is left, puts everything back, and ends as the tool did.
    fn finish(mut self, exit: &Exit) -> ShimEnd {
        let ended_by = self.drain();
        self.keyboard = None;
        if let Some(inlet) = &self.inlet {
            inlet.put_back(exit.taken);
        }
        if let Some(number) = ended_by {
            return ShimEnd::Signaled(number);
        }
        if let Some(limit) = exit.limit {
            loss::limited(limit);
        }
        if let Ending::Signaled(number) = exit.ending {
            let from_keys = matches!(i32::from(number), libc::SIGINT | libc::SIGQUIT);
            if from_keys && self.was_typed(number) {
                signal_group_number(getpgrp(), number);
            }
        }
        let end = match exit.cancelled {
            Some(CancelCause::Timeout) => ShimEnd::Code(exit::TIMED_OUT),
            _ => self.sinks.into_iter().flatten().fold(exit.ending.into(), |end, sink| {
                after_loss(end, sink.into_loss(), self.ignored)
            }),
        };
        let interrupted = self.signals.interrupts() > 0;
        if interrupted && self.settings.habits.exit_zero_on_sigint { ShimEnd::Code(0) } else { end }
    }

    /// Writes all that the tool wrote. The tool is gone, so a signal is ours now: the number of one
    /// that ends us.
    fn drain(&mut self) -> Option<u8> {
        while !self.sinks.iter().flatten().all(Sink::is_empty) {
            let [out, err, shown] = self.sinks.each_ref().map(|sink| sink.as_ref()?.wants());
            let signals = (self.signals.as_fd(), PollFlags::POLLIN);
            let [_, ready @ ..] = wait([Some(signals), out, err, shown], PollTimeout::NONE);
            for (sink, ready) in self.sinks.iter_mut().zip(ready) {
                if let Some(sink) = sink {
                    sink.resume(ready, &mut self.line);
                }
            }
            while let Some(number) = self.signals.next() {
                match i32::from(number) {
                    libc::SIGCONT | libc::SIGWINCH | libc::SIGURG => {}
                    libc::SIGTSTP => {
                        self.keyboard.iter_mut().for_each(Keyboard::leave);
                        self.signals.stop(number);
                    }
                    _ => return Some(number),
                }
            }
        }
        None
    }

    fn sink(&mut self, stream: Stream) -> (Option<&mut Sink>, &mut Line) {
        let [out, err, shown] = &mut self.sinks;
        let sink = match stream {
            Stream::Stdin => None,
            Stream::Stdout => out.as_mut(),
            Stream::Stderr => err.as_mut(),
            Stream::Terminal => shown.as_mut(),
        };
        (sink, &mut self.line)
    }
}

/// The end of a call of whose output something may be lost. A tool that was told so has ended
/// accordingly; one that had left already would be a success that never was.
fn after_loss(end: ShimEnd, loss: Option<Loss>, ignored: SignalSet) -> ShimEnd {
    let is_success = end == ShimEnd::Code(0);
    match loss {
        Some(Loss::Refused(name, error)) => {
            tell::line(format_args!("cannot write to {name}: {error}"));
            if is_success { ShimEnd::Code(exit::UNKNOWN) } else { end }
        }
        Some(Loss::NoReader) if is_success && !ignored.contains(libc::SIGPIPE as u8) => BROKEN_PIPE,
        Some(Loss::NoReader) | None => end,
    }
}

fn nonsense(why: impl std::fmt::Display) -> Broken {
    Broken::Lost(Lost::Nonsense(why.to_string()))
}

/// INT for so many times, without anybody who hears it, ends the waiting.
const GIVE_UP: u32 = 4;
/// How long a busy machine may take to hear it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Enough for a few small frames.
const GLANCE: usize = 4 * 1024;
/// One full frame.
const BULK: usize = 64 * 1024;
