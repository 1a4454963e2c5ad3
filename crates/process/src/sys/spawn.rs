//! `clone` and `execve`.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::signals::{KernelSigaction, handled_signals};
use super::{no_network, raw};
use crate::credentials::Credentials;
use crate::limits::ResourceLimit;
use crate::signal_set::SignalSet;
use crate::spawn::{Group, Spawn, SpawnError};

/// A program whose execve may still be under way. The caller reaps it with [`crate::reap`].
#[derive(Debug)]
pub struct Starting {
    pid: Pid,
    /// Shared with the child until execve has succeeded or the child has exited.
    shared: NonNull<Shared>,
}

/// Memory that parent and child share. The parent owns it, and frees it when the child is done.
struct Shared {
    plan: ChildPlan,
    /// Keeps the strings alive that `plan` points to.
    _strings: [Vec<CString>; 3],
    _arrays: [Vec<*const c_char>; 2],
    stack: Vec<u128>,
    /// 1 until the kernel sets it to 0, when the child leaves this memory (CLONE_CHILD_CLEARTID).
    in_use: AtomicU32,
    /// The step that failed, above the error number; 0 if none did.
    failure: AtomicU32,
}

/// Arguments of the child, prepared before clone: the child may neither allocate nor lock.
struct ChildPlan {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: Option<RawFd>,
    /// Descriptors 0 to 3.
    fds: [Option<RawFd>; 4],
    group: ChildGroup,
    limits: Vec<ResourceLimit>,
    umask: Option<u32>,
    nice: Option<i8>,
    ignored: SignalSet,
    /// Signals with a handler in the parent.
    handled: SignalSet,
    /// The filter of a program without network. It lives as long as the process.
    filter: Option<libc::sock_fprog>,
    credentials: Option<Credentials>,
}

/// [`Group`] with the number of its descriptor.
#[derive(Clone, Copy)]
enum ChildGroup {
    New,
    Foreground(RawFd),
    Session,
    Terminal(RawFd),
}

const PREPARE: u32 = 1 << 16;
const EXEC: u32 = 2 << 16;
const NETWORK: u32 = 3 << 16;
const CREDENTIALS: u32 = 4 << 16;

/// The child runs a few system calls on this stack before execve. It is small enough for the heap;
/// a mapping of its own would cost two more system calls and page faults per start.
const CHILD_STACK: usize = 16 * 1024;

impl Spawn<'_> {
    /// Starts the program and returns its pid as soon as execve has succeeded.
    ///
    /// The cost does not depend on this process's memory, which is not copied (`CLONE_VM`). The
    /// caller must reap the process with [`crate::reap`].
    pub fn spawn(self) -> Result<Pid, SpawnError> {
        let starting = start(self, libc::CLONE_VFORK)?;
        let pid = starting.pid();
        starting.wait().inspect_err(|_| {
            // The child exited before execve, so no other code waits for it.
            let _ = nix::sys::wait::waitpid(pid, None);
        })?;
        Ok(pid)
    }

    /// Starts the program without waiting for execve, so that many can start at the same time. If
    /// execve fails, [`Starting::wait`] reports the reason and the process exits with 127; the
    /// caller must reap it in either case.
    ///
    /// Meanwhile a change of this process's `oom_score_adj` also changes the child's.
    pub fn start(self) -> Result<Starting, SpawnError> {
        start(self, 0)
    }
}

impl Starting {
    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until execve has returned. Errors: the program was not executed, and the process has
    /// exited or is about to.
    pub fn wait(self) -> Result<(), SpawnError> {
        match self.finish() {
            0 => Ok(()),
            failure => {
                let errno = Errno::from_raw((failure & 0xffff) as c_int);
                Err(match failure & !0xffff {
                    EXEC => SpawnError::Exec(errno),
                    NETWORK => SpawnError::Network(errno),
                    CREDENTIALS => SpawnError::Credentials(errno),
                    _ => SpawnError::Prepare(errno),
                })
            }
        }
    }

    /// Waits until the child has left the shared memory, and returns its failure.
    fn finish(&self) -> u32 {
        // SAFETY: `shared` is freed only when this value is dropped, and changed only by atomics.
        let Shared { in_use, failure, .. } = unsafe { self.shared.as_ref() };
        while in_use.load(Ordering::Acquire) != 0 {
            let (wait, forever) = (libc::FUTEX_WAIT, ptr::null::<libc::timespec>());
            // SAFETY: the futex word is live. A signal or a changed word ends the wait early.
            unsafe { libc::syscall(libc::SYS_futex, in_use.as_ptr(), wait, 1, forever) };
        }
        failure.load(Ordering::Acquire)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.finish();
        // SAFETY: `start` has leaked the box, and the child is done with it.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

fn start(spawn: Spawn<'_>, suspend: c_int) -> Result<Starting, SpawnError> {
    let filter = match spawn.no_network {
        true => Some(no_network::filter().map_err(SpawnError::Network)?),
        false => None,
    };
    let argv = null_terminated(&spawn.argv);
    let env = null_terminated(&spawn.env);
    let [stdin, stdout, stderr] = spawn.stdio;
    let fds = [stdin, stdout, stderr, spawn.further];
    // The child's dup3 calls overwrite 0 to 3 in turn, so sources there must move first.
    let moved = move_above(&fds).map_err(SpawnError::Prepare)?;
    let source = |index: usize| {
        let moved = moved[index].as_ref().map(AsRawFd::as_raw_fd);
        moved.or(fds[index].map(|fd| fd.as_raw_fd()))
    };
    let group = match spawn.group {
        Group::New => ChildGroup::New,
        Group::Foreground(terminal) => ChildGroup::Foreground(terminal.as_raw_fd()),
        Group::Session => ChildGroup::Session,
        Group::Terminal(terminal) => ChildGroup::Terminal(terminal.as_raw_fd()),
    };
    // No signal handler of the parent may run in the child, which shares its memory. The child
    // clears its mask right before execve.
    let before = SignalSet::all().block().map_err(SpawnError::Prepare)?;
    let plan = ChildPlan {
        program: spawn.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: spawn.cwd.map(|fd| fd.as_raw_fd()),
        fds: [source(0), source(1), source(2), source(3)],
        group,
        limits: spawn.limits,
        umask: spawn.umask,
        nice: spawn.nice,
        ignored: SignalSet::from_bits(spawn.ignored),
        handled: SignalSet::from_bits(handled_signals()),
        filter,
        credentials: spawn.credentials,
    };
    let shared = NonNull::from(Box::leak(Box::new(Shared {
        plan,
        _strings: [vec![spawn.program], spawn.argv, spawn.env],
        _arrays: [argv, env],
        stack: Vec::with_capacity(CHILD_STACK / size_of::<u128>()),
        in_use: AtomicU32::new(1),
        failure: AtomicU32::new(0),
    })));
    let mut flags = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD | suspend;
    if !raw::LEAVES_ERRNO_ALONE {
        // The child's system calls change this thread's `errno`, so it is suspended meanwhile.
        flags |= libc::CLONE_VFORK;
    }
    // SAFETY: the stack's end is one past a live, 16-byte aligned allocation that nothing else
    // uses, and it grows down. `Shared` is freed only once the kernel has set `in_use` to 0: the
    // child has then called execve or exited. It inherits a copy of the descriptors, so those of
    // `spawn` and `moved` may be closed meanwhile.
    let pid = unsafe {
        let shared = shared.as_ptr();
        let stack = &mut (*shared).stack;
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let none = ptr::null_mut::<c_void>();
        let in_use = (&raw mut (*shared).in_use).cast::<c_void>();
        libc::clone(run_child, top, flags, shared.cast(), none, none, in_use)
    };
    let cloned = Errno::result(pid);
    // Restoring a mask that was just read cannot fail.
    let _ = before.restore();
    cloned.map(|pid| Starting { pid: Pid::from_raw(pid), shared }).map_err(|errno| {
        // SAFETY: there is no child that uses it.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
        match errno {
            Errno::EAGAIN => SpawnError::TooManyProcesses,
            errno => SpawnError::Clone(errno),
        }
    })
}

/// Runs in the child, at the same time as the parent; system calls only, without `errno`.
extern "C" fn run_child(shared: *mut c_void) -> c_int {
    // SAFETY: `start` passes a `Shared` that lives until the child is done; meanwhile the parent
    // only accesses its atomics.
    let Shared { plan, failure, .. } = unsafe { &*shared.cast::<Shared>() };
    let prepared = prepare_child(plan)
        .map_err(|errno| (PREPARE, errno))
        .and_then(|()| {
            let become_user = plan.credentials.as_ref().map_or(Ok(()), set_credentials);
            become_user.map_err(|errno| (CREDENTIALS, errno))
        })
        .and_then(|()| unblock_signals().map_err(|errno| (PREPARE, errno)))
        .and_then(|()| {
            let filter = plan.filter.as_ref().map_or(Ok(()), no_network::enter);
            filter.map_err(|errno| (NETWORK, errno))
        });
    let (step, errno) = match prepared {
        Err(failure) => failure,
        Ok(()) => {
            let args = [plan.program as usize, plan.argv as usize, plan.env as usize];
            // SAFETY: `program`, `argv` and `env` point to NUL-terminated strings and
            // null-terminated arrays that `Shared` keeps alive.
            let executed = unsafe { call(libc::SYS_execve, args) };
            (EXEC, executed.err().unwrap_or(Errno::UnknownErrno))
        }
    };
    failure.store(step | (errno as u32 & 0xffff), Ordering::Release);
    loop {
        // SAFETY: ends the child only, without running exit handlers.
        let _ = unsafe { call(libc::SYS_exit_group, [127, 0, 0]) };
    }
}

fn prepare_child(plan: &ChildPlan) -> Result<(), Errno> {
    // SAFETY: calls on values, and on locals that outlive them.
    unsafe {
        match plan.group {
            ChildGroup::New => _ = call(libc::SYS_setpgid, [0, 0, 0])?,
            ChildGroup::Foreground(terminal) => {
                call(libc::SYS_setpgid, [0, 0, 0])?;
                let group = call(libc::SYS_getpid, [0, 0, 0])? as libc::pid_t;
                // A background group would get TTOU, but all signals are blocked.
                ioctl(terminal, libc::TIOCSPGRP, &raw const group as usize)?;
            }
            ChildGroup::Session => _ = call(libc::SYS_setsid, [0, 0, 0])?,
            ChildGroup::Terminal(terminal) => {
                call(libc::SYS_setsid, [0, 0, 0])?;
                ioctl(terminal, libc::TIOCSCTTY, 0)?;
            }
        }
        if let Some(cwd) = plan.cwd {
            call(libc::SYS_fchdir, [cwd as usize, 0, 0])?;
        }
        for (target, source) in plan.fds.iter().enumerate() {
            match source {
                // Sources are above 3, so both numbers differ, as dup3 demands.
                Some(source) => _ = call(libc::SYS_dup3, [*source as usize, target, 0])?,
                // The number may be closed already; 3 is closed below, as the program may need it.
                None if target < 3 => _ = call(libc::SYS_close, [target, 0, 0]),
                None => {}
            }
        }
        // Only at execve, because the program may be named by a descriptor. Kernels before 5.11 lack
        // this call; all descriptors of this process are close-on-exec anyway.
        let (last, flags) = (libc::c_uint::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize);
        let first = 3 + usize::from(plan.fds[3].is_some());
        let _ = call(libc::SYS_close_range, [first, last, flags]);
        if let Some(umask) = plan.umask {
            let _ = call(libc::SYS_umask, [(umask & 0o777) as usize, 0, 0]);
        }
        if let Some(nice) = plan.nice {
            // Lowering the nice value may be forbidden; the program runs regardless.
            let nice = isize::from(nice).cast_unsigned();
            let _ = call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, nice]);
        }
    }
    for limit in &plan.limits {
        apply_limit(limit);
    }
    // A handler would run in the parent's memory once the mask is cleared. Ignored signals stay
    // ignored, as execve leaves them.
    for signal in plan.handled.iter() {
        set_handler(signal, libc::SIG_DFL);
    }
    set_handler(libc::SIGPIPE as u8, libc::SIG_DFL);
    for signal in plan.ignored.iter() {
        set_handler(signal, libc::SIG_IGN);
    }
    Ok(())
}

/// Becomes a user for good, before any signal can be delivered. The kernel then takes the default for whether
/// others of this user may trace the process, which still has its parent's memory: it is set again.
fn set_credentials(user: &Credentials) -> Result<(), Errno> {
    let (uid, gid) = (user.uid as usize, user.gid as usize);
    // SAFETY: `groups` is live, and its length is passed; the rest are calls on values.
    unsafe {
        call(libc::SYS_setgroups, [user.groups.len(), user.groups.as_ptr() as usize, 0])?;
        call(libc::SYS_setresgid, [gid, gid, gid])?;
        call(libc::SYS_setresuid, [uid, uid, uid])?;
        call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 0, 0])?;
    }
    Ok(())
}

fn unblock_signals() -> Result<(), Errno> {
    let empty = 0u64;
    // SAFETY: `empty` is live and has the size passed.
    unsafe {
        let set = &raw const empty as usize;
        let args = [libc::SIG_SETMASK as usize, set, 0, size_of::<u64>(), 0];
        raw::syscall(libc::SYS_rt_sigprocmask, args).map(drop)
    }
}

/// Sets a limit, capped at the hard limit in force. Ignores errors.
fn apply_limit(limit: &ResourceLimit) {
    let mut in_force = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let resource = usize::from(limit.resource);
    // SAFETY: a null new limit only queries; `in_force` is live and has the kernel's size.
    let queried = unsafe {
        raw::syscall(libc::SYS_prlimit64, [0, resource, 0, &raw mut in_force as usize, 0])
    };
    if queried.is_err() {
        return;
    }
    let hard = limit.hard.min(in_force.rlim_max);
    let within = libc::rlimit64 { rlim_cur: limit.soft.min(hard), rlim_max: hard };
    // SAFETY: `within` is live and has the kernel's size.
    let _ = unsafe {
        raw::syscall(libc::SYS_prlimit64, [0, resource, &raw const within as usize, 0, 0])
    };
}

fn set_handler(signal: u8, handler: libc::sighandler_t) {
    let sigaction = KernelSigaction::new(handler);
    let (signal, new) = (usize::from(signal), &raw const sigaction as usize);
    // SAFETY: `sigaction` is live, has the kernel's size, and installs no handler.
    let _ = unsafe { raw::syscall(libc::SYS_rt_sigaction, [signal, new, 0, size_of::<u64>(), 0]) };
}

/// # Safety
///
/// As for [`raw::syscall`].
unsafe fn ioctl(fd: RawFd, request: libc::Ioctl, argument: usize) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    unsafe { call(libc::SYS_ioctl, [fd as usize, request as usize, argument]) }
}

/// # Safety
///
/// As for [`raw::syscall`].
unsafe fn call(number: c_long, args: [usize; 3]) -> Result<usize, Errno> {
    let [a, b, c] = args;
    // SAFETY: passed on to the caller.
    unsafe { raw::syscall(number, [a, b, c, 0, 0]) }
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn move_above(fds: &[Option<BorrowedFd<'_>>; 4]) -> nix::Result<[Option<OwnedFd>; 4]> {
    let mut moved = [None, None, None, None];
    for (slot, fd) in moved.iter_mut().zip(fds) {
        let Some(fd) = fd else { continue };
        if fd.as_raw_fd() < 4 {
            let raw = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(4))?;
            // SAFETY: fcntl has just created this descriptor, so nothing else owns it.
            *slot = Some(unsafe { OwnedFd::from_raw_fd(raw) });
        }
    }
    Ok(moved)
}
