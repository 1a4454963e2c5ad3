//! A child process with a time limit.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A child that a thread kills at its time limit, so that a caller who reads its pipes gets end of file.
#[derive(Debug)]
pub struct TimedChild {
    child: Arc<Mutex<Child>>,
    stop: mpsc::Sender<()>,
    watcher: JoinHandle<bool>,
}

impl TimedChild {
    /// Starts the time limit of a child. Errors: no thread can be started; the child is killed.
    pub fn watch(child: Child, within: Duration) -> io::Result<Self> {
        let child = Arc::new(Mutex::new(child));
        let (stop, stopped) = mpsc::channel();
        let watched = Arc::clone(&child);
        let watcher = thread::Builder::new().spawn(move || {
            let is_late = stopped.recv_timeout(within) == Err(RecvTimeoutError::Timeout);
            if is_late {
                kill(&watched);
            }
            is_late
        });
        match watcher {
            Ok(watcher) => Ok(TimedChild { child, stop, watcher }),
            Err(error) => {
                kill(&child);
                let _ = lock(&child).wait();
                Err(error)
            }
        }
    }

    /// Kills the child at once.
    pub fn kill(&self) {
        kill(&self.child);
    }

    /// Waits for the end of the child, and kills it after `grace`. Returns its status, and whether the time
    /// limit killed it before this call.
    pub fn finish(self, grace: Duration) -> io::Result<(ExitStatus, bool)> {
        drop(self.stop);
        let is_late = self.watcher.join().unwrap_or_default();
        let mut child = lock(&self.child);
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline && child.try_wait()?.is_none() {
            thread::sleep(PAUSE);
        }
        // Fails if it has ended.
        let _ = child.kill();
        Ok((child.wait()?, is_late))
    }
}

const PAUSE: Duration = Duration::from_millis(2);

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill(child: &Mutex<Child>) {
    // Fails if it has ended.
    let _ = lock(child).kill();
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_child_ends_by_itself_or_with_its_time() {
        let _guard = crate::reaper::lock_children();
        for (script, within, grace, code, is_late) in [
            ("exit 3", LONG, LONG, Some(3), false),
            ("exec sleep 600", Duration::from_millis(50), LONG, None, true),
            ("exec sleep 600 >&-", LONG, Duration::from_millis(50), None, false),
        ] {
            let mut command = Command::new("/bin/sh");
            let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let timed = TimedChild::watch(child, within).unwrap();
            stdout.read_to_end(&mut Vec::new()).unwrap();
            let (status, was_late) = timed.finish(grace).unwrap();
            assert_eq!((status.code(), was_late), (code, is_late), "{script}");
            assert_eq!(status.signal(), code.is_none().then_some(9), "{script}");
        }
    }
}
