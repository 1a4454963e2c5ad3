//! Starting a program.

use std::ffi::{CString, NulError, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use crate::credentials::Credentials;
use crate::limits::ResourceLimit;

/// A program to start, and everything that it inherits. In the child, all other descriptors are
/// closed, the signal mask is empty and SIGPIPE has its default action. Other signals that this
/// process ignores stay ignored, see [`crate::reset_dispositions`].
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file to execute; PATH is not searched.
    pub program: CString,
    /// `argv`, including the program's name as first element.
    pub argv: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The working directory, or `None` for that of this process.
    pub cwd: Option<BorrowedFd<'a>>,
    /// Descriptors 0, 1 and 2; `None` is closed. One descriptor may occur several times.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// Descriptor 3; `None` is closed.
    pub further: Option<BorrowedFd<'a>>,
    /// The process group of the child.
    pub group: Group<'a>,
    /// Resource limits to change, each capped at this process's hard limit. Limits that cannot be
    /// set stay inherited.
    pub limits: Vec<ResourceLimit>,
    /// The file mode creation mask, or `None` to inherit it.
    pub umask: Option<u32>,
    /// The nice value, -20 to 19, or `None` to inherit it. It stays inherited if the process may
    /// not set it.
    pub nice: Option<i8>,
    /// The signals to ignore, bit n - 1 for signal n.
    pub ignored: u64,
    /// Whether the program runs without network (`spec/confinement.md#no-network`).
    pub no_network: bool,
    /// The user to become; `None` is that of this process, which must be root and must have
    /// [forbidden tracing](crate::forbid_tracing): until execve the program's process shares its memory.
    pub credentials: Option<Credentials>,
}

/// Returns one variable of [`Spawn::env`], or `None` if it contains a NUL byte.
pub fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// The process group of a new process.
#[derive(Clone, Copy, Debug)]
pub enum Group<'a> {
    /// A new group in this session, led by the child.
    New,
    /// As [`Group::New`], in the foreground of this process's controlling terminal.
    Foreground(BorrowedFd<'a>),
    /// A new session without a controlling terminal, led by the child.
    Session,
    /// A new session with this controlling terminal, in its foreground. The terminal must not
    /// control another session.
    Terminal(BorrowedFd<'a>),
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The limit on processes (EAGAIN).
    #[error("the limit on processes is reached")]
    TooManyProcesses,
    /// The kernel could not create a process.
    #[error("cannot start a process: {0}")]
    Clone(#[source] Errno),
    /// Setting the directory, group, terminal or standard descriptors failed.
    #[error("cannot prepare the process: {0}")]
    Prepare(#[source] Errno),
    /// The network of the process could not be taken. The program was not executed.
    #[error(
        "cannot run without network: {0}; the kernel needs seccomp filters (CONFIG_SECCOMP_FILTER)"
    )]
    Network(#[source] Errno),
    /// The process could not become another user. The program was not executed.
    #[error("cannot become another user: {0}")]
    Credentials(#[source] Errno),
    /// execve failed.
    #[error("cannot execute: {0}")]
    Exec(#[source] Errno),
    /// An argument or a variable contains a NUL byte.
    #[error("an argument holds a NUL byte")]
    Nul(#[from] NulError),
}

impl Spawn<'_> {
    /// Describes a program in a new process group, with closed standard descriptors. It inherits
    /// everything else but the environment.
    pub fn new(program: CString, argv: Vec<CString>, env: Vec<CString>) -> Self {
        Spawn {
            program,
            argv,
            env,
            cwd: None,
            stdio: [None; 3],
            further: None,
            group: Group::New,
            limits: Vec::new(),
            umask: None,
            nice: None,
            ignored: 0,
            no_network: false,
            credentials: None,
        }
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
        let argv = vec![c("sh"), c("-c"), c(script)];
        let mut spawn = Spawn {
            cwd: Some(cwd.as_fd()),
            stdio: [Some(null.as_fd()), Some(writer.as_fd()), Some(writer.as_fd())],
            ..Spawn::new(c("/bin/sh"), argv, vec![c("PATH=/usr/bin:/bin")])
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
        // The shell's glob opens the directory itself as descriptor 3.
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
            // Open files, core files, and an invalid resource.
            spawn.limits = vec![limit(7, 77, 99), limit(4, 512, u64::MAX), limit(200, 1, 1)];
        });
        assert_eq!(output, "0137\n19\n77\n99\n1\n");

        let own = crate::current_limits()[7];
        let (_, output) = run("ulimit -n; ulimit -Hn", |spawn| {
            spawn.limits = vec![limit(7, own.hard, own.hard - 1)];
        });
        let lowered = own.hard - 1;
        assert_eq!(output, format!("{lowered}\n{lowered}\n"), "soft is capped at hard");
    }

    #[test]
    fn a_child_starts_with_the_raised_oom_score() {
        let current = || {
            let score = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
            score.trim_end().parse::<i16>().unwrap()
        };
        let (before, own) = (current(), crate::OomScore::current().unwrap());
        let (_, output) = run("cat /proc/$$/oom_score_adj", |_| {
            // The guard must outlive the spawn.
            std::mem::forget(own.raise(300));
        });
        assert_eq!(output, format!("{}\n", (before + 300).min(1000)));
        drop(own.raise(2000));
        assert_eq!(current(), before, "the parent keeps its own");
    }

    #[test]
    fn a_program_without_network_has_local_sockets_only() {
        let script = "exec 2>&1; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; \
                      (: </dev/tcp/127.0.0.1/9); (: </dev/udp/127.0.0.1/9)";
        let bash = |no_network: bool| {
            let (ending, output) = run(script, |spawn| {
                spawn.program = c"/bin/bash".into();
                spawn.no_network = no_network;
            });
            assert!(matches!(ending, Ending::Exited(_)), "{ending:?}");
            output
        };
        let without = bash(true);
        assert!(without.starts_with("NoNewPrivs:\t1\nSeccomp:\t2\n"), "{without}");
        assert_eq!(without.matches("socket: Network is unreachable").count(), 2, "{without}");
        let with = bash(false);
        assert!(!with.contains("unreachable"), "{with}");
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
    }

    #[test]
    fn many_programs_start_at_the_same_time() {
        let _guard = crate::reaper::lock_children();
        let null = File::open("/dev/null").unwrap();
        let start = |program: &str| {
            let program = CString::new(program).unwrap();
            let argv = vec![program.clone(), c"7".into()];
            Spawn { stdio: [Some(null.as_fd()); 3], ..Spawn::new(program, argv, vec![]) }.start()
        };
        let programs = ["/usr/bin/true", "/usr/bin/false", "/nonexistent"].repeat(40);
        let starting = programs.iter().map(|program| (*program, start(program).unwrap()));
        let starting = starting.collect::<Vec<_>>();
        let mut expected = std::collections::HashMap::new();
        for (index, (program, starting)) in starting.into_iter().enumerate() {
            let code = match program {
                "/usr/bin/true" => 0,
                "/usr/bin/false" => 1,
                _ => 127,
            };
            expected.insert(starting.pid(), Ending::Exited(code));
            if index % 5 == 0 {
                // Waits as well.
                drop(starting);
            } else if code == 127 {
                let error = starting.wait().unwrap_err();
                assert!(matches!(error, SpawnError::Exec(Errno::ENOENT)), "{error:?}");
            } else {
                starting.wait().unwrap();
            }
        }
        while !expected.is_empty() {
            match reap() {
                // Orphans of other tests are reaped as well.
                Some(ChildEvent::Ended(reaped)) => {
                    if let Some(ending) = expected.remove(&reaped.pid) {
                        assert_eq!(reaped.ending, ending, "{}", reaped.pid);
                    }
                }
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn kernel_refusals_are_reported() {
        let null = File::open("/dev/null").unwrap();
        let attempt = |program: &str, arg: usize, group| {
            let argv = vec![CString::new(vec![b'x'; arg]).unwrap()];
            let spawn = Spawn::new(CString::new(program).unwrap(), argv, vec![]);
            Spawn { stdio: [Some(null.as_fd()); 3], group, ..spawn }.spawn().unwrap_err()
        };
        for (program, arg, expected) in [
            ("/nonexistent", 1, Errno::ENOENT),
            ("/etc/passwd", 1, Errno::EACCES),
            ("/usr", 1, Errno::EACCES),
            ("/bin/true", 200 * 1024, Errno::E2BIG),
        ] {
            let error = attempt(program, arg, Group::New);
            assert!(matches!(error, SpawnError::Exec(errno) if errno == expected), "{error:?}");
        }
        for group in [Group::Terminal(null.as_fd()), Group::Foreground(null.as_fd())] {
            let error = attempt("/bin/true", 1, group);
            assert!(matches!(error, SpawnError::Prepare(Errno::ENOTTY)), "{error:?}");
        }
    }
}
