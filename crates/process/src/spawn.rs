//! Starting a program.

use std::ffi::{CString, NulError, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::sys;

/// A program to start, and all that it inherits. Nothing else of ours reaches it: every fd above 2
/// is closed, the signal mask is empty and SIGPIPE has its default action again.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file to execute; no PATH is searched.
    pub program: CString,
    /// `argv`, with the name the program is to see as its first element.
    pub argv: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The directory to start in, or `None` for ours.
    pub cwd: Option<BorrowedFd<'a>>,
    /// What becomes fd 0, 1 and 2. The same fd may stand in several places.
    pub stdio: [BorrowedFd<'a>; 3],
    /// The process group it starts in.
    pub group: Group,
    /// The limit on open files it gets, or `None` for ours.
    pub open_files: Option<OpenFilesLimit>,
}

/// One variable of [`Spawn::env`]. `None` if it holds a NUL byte, which no environment can.
pub fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// Where a new process stands among process groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// In our own group.
    Inherit,
    /// The leader of a new group in our session.
    New,
    /// The leader of a new session, without a controlling terminal.
    Session,
}

/// A soft and a hard RLIMIT_NOFILE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// The limit in force.
    pub soft: u64,
    /// How far it may be raised.
    pub hard: u64,
}

/// Why a program could not be started. Nothing of it ran.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No process could be made.
    #[error("cannot start a process: {0}")]
    Clone(#[source] Errno),
    /// The directory, group, limit or standard fds could not be set.
    #[error("cannot prepare the process: {0}")]
    Prepare(#[source] Errno),
    /// The kernel would not execute the file.
    #[error("cannot execute: {0}")]
    Exec(#[source] Errno),
    /// An argument or a variable holds a NUL byte.
    #[error("an argument holds a NUL byte")]
    Nul(#[from] NulError),
}

impl Spawn<'_> {
    /// Starts the program and returns as soon as it executes.
    ///
    /// Our address space is not copied (`CLONE_VM | CLONE_VFORK`), so the cost does not grow with
    /// our memory; the calling thread waits until the kernel has the program loaded or refused.
    /// The caller reaps the process with [`crate::reap`].
    pub fn spawn(&self) -> Result<Pid, SpawnError> {
        sys::spawn(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reap;
    use aifo_types::Ending;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    struct Setting<'a> {
        cwd: &'a str,
        group: Group,
        open_files: Option<OpenFilesLimit>,
    }

    const PLAIN: Setting<'static> = Setting { cwd: "/", group: Group::New, open_files: None };

    /// Runs a shell script with one pipe as stdout and stderr.
    fn run(script: &str, setting: &Setting) -> (Ending, String) {
        let _guard = crate::reaper::lock_children();
        let null = File::open("/dev/null").unwrap();
        let cwd = File::open(setting.cwd).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let c = |text: &str| CString::new(text).unwrap();
        let spawn = Spawn {
            program: c("/bin/sh"),
            argv: vec![c("sh"), c("-c"), c(script)],
            env: vec![c("PATH=/usr/bin:/bin")],
            cwd: Some(cwd.as_fd()),
            stdio: [null.as_fd(), writer.as_fd(), writer.as_fd()],
            group: setting.group,
            open_files: setting.open_files,
        };
        let pid = spawn.spawn().unwrap();
        drop(writer);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        let ending = loop {
            match reap() {
                Some(reaped) if reaped.pid == pid => break reaped.ending,
                _ => std::thread::yield_now(),
            }
        };
        (ending, output)
    }

    #[test]
    fn status_output_and_order() {
        let (ending, output) = run("echo out; echo err >&2; echo out; exit 7", &PLAIN);
        assert_eq!((ending, output.as_str()), (Ending::Exited(7), "out\nerr\nout\n"));
        let (ending, _) = run("kill -TERM $$", &PLAIN);
        assert_eq!(ending, Ending::Signaled(15));
    }

    #[test]
    fn what_a_child_inherits() {
        let script = "echo /proc/self/fd/*; grep SigBlk /proc/self/status; \
                      sh -c 'kill -PIPE $$'; echo $?; ulimit -n";
        let open_files = Some(OpenFilesLimit { soft: 77, hard: 99 });
        let (_, output) = run(script, &Setting { open_files, ..PLAIN });
        let fds = output.lines().next().unwrap().split(' ').count();
        // The shell's glob opens the directory itself as fd 3.
        assert!(fds <= 4, "only 0, 1, 2: {output}");
        assert!(output.contains("SigBlk:\t0000000000000000"), "{output}");
        assert!(output.ends_with("141\n77\n"), "SIGPIPE is not ignored: {output}");
    }

    #[test]
    fn it_leads_its_group_and_starts_in_its_directory() {
        let script = "pwd -P; read -r _ _ _ _ group session _ < /proc/$$/stat; \
                      echo $group $session $$";
        let words = |group| {
            let (_, output) = run(script, &Setting { cwd: "/usr", group, ..PLAIN });
            output.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let new = words(Group::New);
        assert_eq!((new[0].as_str(), &new[1]), ("/usr", &new[3]));
        assert_ne!(new[2], new[3]);
        let session = words(Group::Session);
        assert_eq!((&session[1], &session[2]), (&session[3], &session[3]));
        let inherit = words(Group::Inherit);
        assert_ne!(inherit[1], inherit[3]);
    }

    #[test]
    fn what_the_kernel_refuses() {
        let null = File::open("/dev/null").unwrap();
        let null = null.as_fd();
        let attempt = |program: &str, arg: usize| {
            let spawn = Spawn {
                program: CString::new(program).unwrap(),
                argv: vec![CString::new(vec![b'x'; arg]).unwrap()],
                env: vec![],
                cwd: None,
                stdio: [null; 3],
                group: Group::Inherit,
                open_files: None,
            };
            match spawn.spawn() {
                Err(SpawnError::Exec(errno)) => errno,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(attempt("/nonexistent", 1), Errno::ENOENT);
        assert_eq!(attempt("/etc/passwd", 1), Errno::EACCES);
        assert_eq!(attempt("/usr", 1), Errno::EACCES);
        assert_eq!(attempt("/bin/true", 200 * 1024), Errno::E2BIG);
    }
}
