//! Starting a program.

use std::ffi::{CString, NulError, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::limits::ResourceLimit;
use crate::sys;

/// A program to start, and all that it inherits. Nothing else of ours reaches it: every fd above 2
/// is closed, the signal mask is empty and SIGPIPE has its default action again. Other signals that
/// we ignore it ignores too, see [`crate::reset_dispositions`].
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
    /// What becomes fd 0, 1 and 2; `None` is closed there. The same fd may stand in several places.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// The process group it starts in.
    pub group: Group<'a>,
    /// Limits that are not ours, each kept within our own hard limit. One that cannot be set stays
    /// as it is with us.
    pub limits: Vec<ResourceLimit>,
    /// The permissions that files it makes do not get, or `None` for our own mask.
    pub umask: Option<u32>,
    /// Its nice value, -20 to 19, or `None` for ours. One that we may not set stays ours.
    pub nice: Option<i8>,
    /// The signals it starts ignoring, bit n - 1 for signal n.
    pub ignored: u64,
}

/// One variable of [`Spawn::env`]. `None` if it holds a NUL byte, which no environment can.
pub fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// Where a new process stands among process groups.
#[derive(Clone, Copy, Debug)]
pub enum Group<'a> {
    /// In our own group.
    Inherit,
    /// The leader of a new group in our session.
    New,
    /// The leader of a new group in our session, in the foreground of our controlling terminal.
    Foreground(BorrowedFd<'a>),
    /// The leader of a new session, without a controlling terminal.
    Session,
    /// The leader of a new session, in the foreground of this terminal, which controls it and must
    /// not control another session yet.
    Terminal(BorrowedFd<'a>),
}

/// Why a program could not be started. Nothing of it ran.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There are as many processes as we may have.
    #[error("the limit on processes is reached")]
    TooManyProcesses,
    /// No process could be made.
    #[error("cannot start a process: {0}")]
    Clone(#[source] Errno),
    /// The directory, group, terminal or standard fds could not be set.
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
    use crate::{ChildEvent, reap};
    use aifo_types::Ending;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    /// Runs a shell script in /usr, with one pipe as stdout and stderr.
    fn run(script: &str, adapt: impl FnOnce(&mut Spawn)) -> (Ending, String) {
        let _guard = crate::reaper::lock_children();
        let null = File::open("/dev/null").unwrap();
        let cwd = File::open("/usr").unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let c = |text: &str| CString::new(text).unwrap();
        let mut spawn = Spawn {
            program: c("/bin/sh"),
            argv: vec![c("sh"), c("-c"), c(script)],
            env: vec![c("PATH=/usr/bin:/bin")],
            cwd: Some(cwd.as_fd()),
            stdio: [Some(null.as_fd()), Some(writer.as_fd()), Some(writer.as_fd())],
            group: Group::New,
            limits: vec![],
            umask: None,
            nice: None,
            ignored: 0,
        };
        adapt(&mut spawn);
        let pid = spawn.spawn().unwrap();
        drop(writer);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        let ending = loop {
            match reap() {
                Some(ChildEvent::Ended(reaped)) if reaped.pid == pid => break reaped.ending,
                _ => std::thread::yield_now(),
            }
        };
        (ending, output)
    }

    #[test]
    fn status_output_and_order() {
        let (ending, output) = run("echo out; echo err >&2; echo out; exit 7", |_| {});
        assert_eq!((ending, output.as_str()), (Ending::Exited(7), "out\nerr\nout\n"));
        let (ending, _) = run("kill -TERM $$", |_| {});
        assert_eq!(ending, Ending::Signaled(15));
    }

    #[test]
    fn a_child_inherits_no_fds_mask_or_sigpipe() {
        let script = "echo /proc/self/fd/*; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
                      sh -c 'kill -PIPE $$'; echo $?";
        let (_, output) = run(script, |_| {});
        let fds = output.lines().next().unwrap().split(' ').count();
        // The shell's glob opens the directory itself as fd 3.
        assert!(fds <= 4, "only 0, 1, 2: {output}");
        assert!(output.contains("SigBlk:\t0000000000000000"), "{output}");
        assert!(output.ends_with("141\n"), "SIGPIPE is not ignored: {output}");

        let ignored = 1 | 1 << 12 | 1 << 31 | 1 << 63;
        let (_, output) = run(script, |spawn| spawn.ignored = ignored);
        let expected = format!("SigIgn:\t{:016x}", ignored | crate::ignored_signals());
        assert!(output.contains(&expected), "{expected} is not in {output}");
        assert!(output.ends_with("0\n"), "SIGPIPE is ignored: {output}");
    }

    #[test]
    fn umask_nice_and_limits_are_applied() {
        let limit = |resource, soft, hard| ResourceLimit { resource, soft, hard };
        let script = "umask; nice; ulimit -n; ulimit -Hn; ulimit -c";
        let (_, output) = run(script, |spawn| {
            spawn.umask = Some(0o137);
            spawn.nice = Some(19);
            // Open files, core files, and what is no resource.
            spawn.limits = vec![limit(7, 77, 99), limit(4, 512, u64::MAX), limit(200, 1, 1)];
        });
        assert_eq!(output, "0137\n19\n77\n99\n1\n");

        let ours = crate::current_limits()[7];
        let (_, output) = run("ulimit -n; ulimit -Hn", |spawn| {
            spawn.limits = vec![limit(7, ours.hard, ours.hard - 1)];
        });
        let below = ours.hard - 1;
        assert_eq!(output, format!("{below}\n{below}\n"), "the soft one is within the hard one");
    }

    #[test]
    fn a_child_starts_with_the_raised_oom_score() {
        let ours = || {
            let score = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
            score.trim_end().parse::<i16>().unwrap()
        };
        let (before, own) = (ours(), crate::OomScore::current().unwrap());
        let (_, output) = run("cat /proc/$$/oom_score_adj", |_| {
            // As any parent does: only the start itself is meant.
            std::mem::forget(own.raise(300));
        });
        assert_eq!(output, format!("{}\n", (before + 300).min(1000)));
        drop(own.raise(2000));
        assert_eq!(ours(), before, "and we stay where we were");
    }

    #[test]
    fn none_closes_a_standard_fd() {
        let script = "for n in 0 1 2; do [ -e /proc/self/fd/$n ] && echo $n >&2; done; :";
        let (_, output) = run(script, |spawn| spawn.stdio[..2].fill(None));
        assert_eq!(output, "2\n");
    }

    #[test]
    fn group_and_directory_are_set() {
        let script = "pwd -P; read -r _ _ _ _ group session _ < /proc/$$/stat; \
                      echo $group $session $$";
        let words = |group| {
            let (_, output) = run(script, |spawn| spawn.group = group);
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
    fn kernel_refusals_are_reported() {
        let null = File::open("/dev/null").unwrap();
        let attempt = |program: &str, arg: usize, group| {
            let spawn = Spawn {
                program: CString::new(program).unwrap(),
                argv: vec![CString::new(vec![b'x'; arg]).unwrap()],
                env: vec![],
                cwd: None,
                stdio: [Some(null.as_fd()); 3],
                group,
                limits: vec![],
                umask: None,
                nice: None,
                ignored: 0,
            };
            spawn.spawn().unwrap_err()
        };
        for (program, arg, expected) in [
            ("/nonexistent", 1, Errno::ENOENT),
            ("/etc/passwd", 1, Errno::EACCES),
            ("/usr", 1, Errno::EACCES),
            ("/bin/true", 200 * 1024, Errno::E2BIG),
        ] {
            let error = attempt(program, arg, Group::Inherit);
            assert!(matches!(error, SpawnError::Exec(errno) if errno == expected), "{error:?}");
        }
        for group in [Group::Terminal(null.as_fd()), Group::Foreground(null.as_fd())] {
            let error = attempt("/bin/true", 1, group);
            assert!(matches!(error, SpawnError::Prepare(Errno::ENOTTY)), "{error:?}");
        }
    }
}
