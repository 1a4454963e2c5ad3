//! A process that outlives the launcher and ends what that has started on this machine.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use aifo_process::{Group, Spawn};
use aifo_types::{Token, env};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::shim_binary::ShimBinary;

/// The watching process. When this is dropped it ends without doing anything; when this process dies
/// before that, however it dies, the watching one ends every process that has the session's token in
/// its environment.
#[derive(Debug)]
pub(crate) struct HostWatch {
    launcher: PipeWriter,
    pid: Pid,
}

impl HostWatch {
    /// Starts to watch for a session.
    pub(crate) fn start(shim: &ShimBinary, token: &Token) -> io::Result<Self> {
        let (reader, mut launcher) = io::pipe()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let root = File::open("/")?;
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let spawn = Spawn {
            program: CString::new(shim.program().as_os_str().as_bytes())?,
            argv: vec![text("aifo-runner")?, text("watch")?],
            env: Vec::new(),
            cwd: Some(root.as_fd()),
            stdio: [Some(reader.as_fd()), Some(null.as_fd()), Some(null.as_fd())],
            // Neither the keys of the terminal nor its end are for it.
            group: Group::Session,
            limits: Vec::new(),
            umask: None,
            nice: None,
            ignored: 0,
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
        // It may have been killed, in which case there is nothing to write to.
        let _ = self.launcher.write_all(b".");
        let _ = waitpid(self.pid, None);
    }
}
