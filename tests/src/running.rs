//! Child processes of tests, with collected output and deadlines.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Signal, default_deadline, eventually, eventually_within, send_signal};

/// The result of a finished child.
#[derive(Clone)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// Its stderr, as text.
    pub stderr: String,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stdout, stderr) = (String::from_utf8_lossy(&self.stdout), &self.stderr);
        write!(f, "{}\nstdout: {stdout}\nstderr: {stderr}", self.status)
    }
}

impl Outcome {
    /// Runs a command to its end, without input.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Running::start(command.stdin(Stdio::null())).finish()
    }

    /// The exit code; `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Panics unless it exited with this code.
    #[track_caller]
    pub fn exited(&self, code: i32) -> &Self {
        assert_eq!(self.code(), Some(code), "{self:?}");
        self
    }

    /// Panics unless this signal ended it.
    #[track_caller]
    pub fn died_of(&self, signal: Signal) -> &Self {
        assert_eq!(self.status.signal(), Some(signal as i32), "{self:?}");
        self
    }

    /// The only line on stderr; panics if there are more or none.
    #[track_caller]
    pub fn only_line(&self) -> &str {
        let mut lines = self.stderr.lines();
        match (lines.next(), lines.next()) {
            (Some(line), None) if self.stderr.ends_with('\n') => line,
            _ => panic!("stderr is not one line: {:?}", self.stderr),
        }
    }
}

/// A running child with collected output. Drop kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Collector,
    stderr: Collector,
}

impl Running {
    /// Starts a command and collects its output; stdin is the command's.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut spawned = command.spawn();
        let is_busy = |e: &std::io::Error| e.kind() == ErrorKind::ExecutableFileBusy;
        // A child of another test thread may hold a copied program open for writing until its exec.
        eventually("the program is not open for writing", || {
            if spawned.as_ref().is_err_and(is_busy) {
                spawned = command.spawn();
            }
            !spawned.as_ref().is_err_and(is_busy)
        });
        let mut child = spawned.unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let stdout = Collector::of(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Collector::of(child.stderr.take().expect("stderr is a pipe"));
        Running { child, stdout, stderr }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> &Self {
        send_signal(self.pid(), signal);
        self
    }

    /// Waits until its stdout contains `text`.
    #[track_caller]
    pub fn expect(&self, text: &str) -> &Self {
        eventually(&format!("the output contains {text:?}"), || self.has_printed(text));
        self
    }

    /// Returns whether its stdout contains `text` already.
    pub fn has_printed(&self, text: &str) -> bool {
        self.stdout.so_far().contains(text)
    }

    /// Waits until its stderr contains `text`.
    #[track_caller]
    pub fn complains(&self, text: &str) -> &Self {
        eventually(&format!("stderr contains {text:?}"), || self.stderr.so_far().contains(text));
        self
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(self) -> Outcome {
        self.finish_within(default_deadline())
    }

    /// [`Running::finish`] with another deadline, for slow tests.
    #[track_caller]
    pub fn finish_within(mut self, deadline: Duration) -> Outcome {
        let mut status = None;
        eventually_within(deadline, "the child has ended", || {
            status = self.child.try_wait().expect("try_wait works on a child");
            status.is_some()
        });
        let status = status.expect("the loop ends with a status");
        let stderr = String::from_utf8_lossy(&self.stderr.finish()).into_owned();
        Outcome { status, stdout: self.stdout.finish(), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No-ops after `finish`: std remembers that the child is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects a stream in its own thread, until all writers have closed.
#[derive(Debug)]
pub struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts to collect.
    pub fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut bytes = shared.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Collector { bytes, reader: Some(reader) }
    }

    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The bytes collected so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if all writers have closed.
    pub fn has_ended(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn finish(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
