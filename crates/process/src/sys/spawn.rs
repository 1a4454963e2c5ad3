//! `clone` and `execve`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::process::prlimit;
use super::signals::{Disposition, handled_signals, set_disposition};
use crate::limits::ResourceLimit;
use crate::signal_set::SignalSet;
use crate::spawn::{Group, Spawn, SpawnError};

/// Arguments of the child, prepared before clone: the child may neither allocate nor lock.
struct ChildPlan<'a> {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: Option<RawFd>,
    stdio: [Option<RawFd>; 3],
    group: Group<'a>,
    limits: &'a [ResourceLimit],
    umask: Option<u32>,
    nice: Option<i8>,
    ignored: SignalSet,
    /// Signals with a handler in the parent.
    handled: SignalSet,
    /// Written by the child on failure, in memory shared with the suspended parent.
    failure: Option<(Step, c_int)>,
}

#[derive(Clone, Copy)]
enum Step {
    Prepare,
    Exec,
}

/// The child runs a few system calls on this stack before execve. It is small enough for the heap;
/// a mapping of its own would cost two more system calls and page faults per start.
const CHILD_STACK: usize = 16 * 1024;

impl Spawn<'_> {
    /// Starts the program and returns its pid as soon as execve has succeeded.
    ///
    /// The address space is not copied (`CLONE_VM | CLONE_VFORK`), so the cost does not depend on
    /// this process's memory. The calling thread is suspended until execve returns. The caller must
    /// reap the process with [`crate::reap`].
    pub fn spawn(&self) -> Result<Pid, SpawnError> {
        spawn(self)
    }
}

fn spawn(spawn: &Spawn<'_>) -> Result<Pid, SpawnError> {
    let argv = null_terminated(&spawn.argv);
    let env = null_terminated(&spawn.env);
    // The child's dup2 calls overwrite 0, 1 and 2 in turn, so sources there must move first.
    let moved = move_above_stdio(&spawn.stdio).map_err(SpawnError::Prepare)?;
    let source = |index: usize| {
        let moved = moved[index].as_ref().map(AsRawFd::as_raw_fd);
        moved.or(spawn.stdio[index].map(|fd| fd.as_raw_fd()))
    };
    let mut plan = ChildPlan {
        program: spawn.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: spawn.cwd.map(|fd| fd.as_raw_fd()),
        stdio: [source(0), source(1), source(2)],
        group: spawn.group,
        limits: &spawn.limits,
        umask: spawn.umask,
        nice: spawn.nice,
        ignored: SignalSet::from_bits(spawn.ignored),
        handled: SignalSet::default(),
        failure: None,
    };

    let mut stack: Vec<u128> = Vec::with_capacity(CHILD_STACK / size_of::<u128>());
    // No signal handler of the parent may run in the child, which shares its memory. The child
    // clears its mask right before execve.
    let before = SignalSet::all().block().map_err(SpawnError::Prepare)?;
    plan.handled = SignalSet::from_bits(handled_signals());
    // SAFETY: the stack's end is one past a live, 16-byte aligned allocation that nothing else
    // uses, and it grows down. CLONE_VFORK suspends this thread until the child has called execve
    // or exited, so `plan`, the vectors it points into and the stack outlive the child's use of
    // them.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(run_child, top, flags, (&raw mut plan).cast())
    };
    let cloned = Errno::result(pid);
    // Restoring a mask that was just read cannot fail.
    let _ = before.restore();
    let pid = cloned.map_err(|errno| match errno {
        Errno::EAGAIN => SpawnError::TooManyProcesses,
        errno => SpawnError::Clone(errno),
    })?;

    // SAFETY: `plan` is alive and the child, the only other writer, is done; the volatile read
    // keeps the compiler from assuming that it is unchanged.
    let failure = unsafe { ptr::read_volatile(&raw const plan.failure) };
    let Some((step, errno)) = failure else { return Ok(Pid::from_raw(pid)) };
    // The child exited before execve, so no other code waits for it.
    let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
    let errno = Errno::from_raw(errno);
    Err(match step {
        Step::Prepare => SpawnError::Prepare(errno),
        Step::Exec => SpawnError::Exec(errno),
    })
}

/// Runs in the child; system calls only.
extern "C" fn run_child(plan: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its own `ChildPlan` and does not touch it before the child is done.
    let plan = unsafe { &mut *plan.cast::<ChildPlan>() };
    let step = match prepare_child(plan) {
        Err(()) => Step::Prepare,
        Ok(()) => {
            // SAFETY: `program`, `argv` and `env` point to NUL-terminated strings and
            // null-terminated arrays that `spawn` keeps alive.
            unsafe { libc::execve(plan.program, plan.argv, plan.env) };
            Step::Exec
        }
    };
    plan.failure = Some((step, Errno::last_raw()));
    // SAFETY: ends the child only, without running exit handlers.
    unsafe { libc::_exit(127) }
}

fn prepare_child(plan: &ChildPlan<'_>) -> Result<(), ()> {
    let check = |result: c_int| if result == -1 { Err(()) } else { Ok(()) };
    // SAFETY: system calls on values; none allocates, locks or touches memory of the parent except
    // errno, which the suspended parent does not read.
    unsafe {
        match plan.group {
            Group::New => check(libc::setpgid(0, 0))?,
            Group::Foreground(terminal) => {
                check(libc::setpgid(0, 0))?;
                // A background group would get TTOU, but all signals are blocked.
                check(libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpid()))?;
            }
            Group::Session => check(libc::setsid())?,
            Group::Terminal(terminal) => {
                check(libc::setsid())?;
                check(libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0))?;
            }
        }
        if let Some(cwd) = plan.cwd {
            check(libc::fchdir(cwd))?;
        }
        for (target, source) in (0..).zip(plan.stdio) {
            match source {
                Some(source) => check(libc::dup2(source, target))?,
                // The number may be closed already.
                None => _ = libc::close(target),
            }
        }
        // Kernels before 5.11 lack this call; all descriptors of this process are close-on-exec
        // anyway.
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        if let Some(umask) = plan.umask {
            libc::umask(umask & 0o777);
        }
        if let Some(nice) = plan.nice {
            // Lowering the nice value may be forbidden; the program runs regardless.
            libc::setpriority(libc::PRIO_PROCESS, 0, nice.into());
        }
    }
    for limit in plan.limits {
        apply_limit(limit);
    }
    // A handler would run in the parent's memory once the mask is cleared. Ignored signals stay
    // ignored, as execve leaves them.
    for signal in plan.handled.iter() {
        set_disposition(signal, Disposition::Default);
    }
    set_disposition(libc::SIGPIPE as u8, Disposition::Default);
    for signal in plan.ignored.iter() {
        set_disposition(signal, Disposition::Ignore);
    }
    SignalSet::default().restore().map(drop).map_err(|_| ())
}

/// Sets a limit, capped at the hard limit in force. Ignores errors.
fn apply_limit(limit: &ResourceLimit) {
    let Ok(in_force) = prlimit(limit.resource, None) else { return };
    let hard = limit.hard.min(in_force.rlim_max);
    let within = libc::rlimit { rlim_cur: limit.soft.min(hard), rlim_max: hard };
    let _ = prlimit(limit.resource, Some(&within));
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn move_above_stdio(stdio: &[Option<BorrowedFd<'_>>; 3]) -> nix::Result<[Option<OwnedFd>; 3]> {
    let mut moved = [None, None, None];
    for (slot, fd) in moved.iter_mut().zip(stdio) {
        let Some(fd) = fd else { continue };
        if fd.as_raw_fd() < 3 {
            let raw = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
            // SAFETY: fcntl has just created this descriptor, so nothing else owns it.
            *slot = Some(unsafe { OwnedFd::from_raw_fd(raw) });
        }
    }
    Ok(moved)
}
