//! A process that ends the launcher's local processes if the launcher is killed.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use aifo_host::ShimBinary;
use aifo_process::{Group, Spawn};
use aifo_types::{Token, env};
use nix::{sys::wait::waitpid, unistd::Pid};

/// Handle of the watching process. When it is dropped, that process ends. If the launcher dies
/// first, it ends every process that has the session token in its environment.
#[derive(Debug)]
pub(crate) struct HostWatch {
    launcher: PipeWriter,
    pid: Pid,
}

impl HostWatch {
    /// Starts the process for a session.
    pub(crate) fn start(shim: &ShimBinary, token: &Token) -> io::Result<Self> {
        let (reader, mut launcher) = io::pipe()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let root = File::open("/")?;
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let program = CString::new(shim.program().as_os_str().as_bytes())?;
        let spawn = Spawn {
            cwd: Some(root.as_fd()),
            stdio: [Some(reader.as_fd()), Some(null.as_fd()), Some(null.as_fd())],
            // Independent of the terminal keys and hang-up.
            group: Group::Session,
            ..Spawn::new(program, vec![text("aifo-runner")?, text("watch")?], Vec::new())
        };
        let pid = spawn.spawn().map_err(io::Error::other)?;
        // Not on a command line, which every user can read.
        let written = writeln!(launcher, "{}={}", env::TOKEN, token.reveal());
        let watch = HostWatch { launcher, pid };
        written.map(|()| watch)
    }
}

impl Drop for HostWatch {
    fn drop(&mut self) {
        // Fails if the process was killed.
        let _ = self.launcher.write_all(b".");
        let _ = waitpid(self.pid, None);
    }
}
