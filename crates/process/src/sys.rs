//! The system calls that need `unsafe`, each behind a safe function.
//!
//! Nothing else in the workspace contains `unsafe`. A block here states why it is sound; what the
//! call means is said where it is used.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::Pid;

use crate::spawn::{Group, Spawn, SpawnError};

/// What the child needs, prepared before it exists: it may neither allocate nor lock.
struct ChildPlan {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: Option<RawFd>,
    stdio: [RawFd; 3],
    group: Group,
    open_files: Option<libc::rlimit>,
    /// Where the child says how far it came, in memory it shares with the waiting parent.
    failure: Option<(Step, c_int)>,
}

#[derive(Clone, Copy)]
enum Step {
    Prepare,
    Exec,
}

/// The child runs a handful of system calls on this stack before it executes its program.
const CHILD_STACK: usize = 64 * 1024;

pub(crate) fn spawn(spawn: &Spawn<'_>) -> Result<Pid, SpawnError> {
    let argv = null_terminated(&spawn.argv);
    let env = null_terminated(&spawn.env);
    // The child's dup2 calls overwrite 0, 1 and 2 in turn, so a source there must move first.
    let moved = move_above_stdio(&spawn.stdio).map_err(SpawnError::Prepare)?;
    let source = |index: usize| {
        moved[index].as_ref().map_or(spawn.stdio[index].as_raw_fd(), AsRawFd::as_raw_fd)
    };
    let mut plan = ChildPlan {
        program: spawn.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: spawn.cwd.map(|fd| fd.as_raw_fd()),
        stdio: [source(0), source(1), source(2)],
        group: spawn.group,
        open_files: spawn
            .open_files
            .map(|limit| libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard }),
        failure: None,
    };

    let mut stack: Vec<u128> = Vec::with_capacity(CHILD_STACK / size_of::<u128>());
    // No handler of ours may run in the child, which shares our memory; the child empties its mask
    // as its last step before it executes.
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))
        .map_err(SpawnError::Prepare)?;
    // SAFETY: the stack's end is one past a live, 16-byte aligned allocation that nothing else
    // uses, and it grows down. CLONE_VFORK suspends this thread until the child has executed or
    // exited, so `plan`, the vectors it points into and the stack outlive the child's use of them.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(run_child, top, flags, (&raw mut plan).cast())
    };
    let cloned = Errno::result(pid);
    // Restoring a mask that was read a moment ago cannot fail.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    let pid = cloned.map_err(SpawnError::Clone)?;

    // SAFETY: `plan` is alive and the child, the only other writer, is done; the volatile read
    // keeps the compiler from assuming that nobody wrote to it.
    let failure = unsafe { ptr::read_volatile(&raw const plan.failure) };
    let Some((step, errno)) = failure else { return Ok(Pid::from_raw(pid)) };
    // It never became a program, so nobody else waits for it.
    let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
    let errno = Errno::from_raw(errno);
    Err(match step {
        Step::Prepare => SpawnError::Prepare(errno),
        Step::Exec => SpawnError::Exec(errno),
    })
}

/// The child: system calls only.
extern "C" fn run_child(plan: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its own `ChildPlan` and does not touch it before this has ended.
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
    // SAFETY: ends only the child, without running anything registered with the C library.
    unsafe { libc::_exit(127) }
}

fn prepare_child(plan: &ChildPlan) -> Result<(), ()> {
    let check = |result: c_int| if result == -1 { Err(()) } else { Ok(()) };
    // SAFETY: plain system calls on values; none allocates, locks or touches memory of the parent
    // but errno, which the suspended parent does not read. `empty` is initialised by sigemptyset.
    unsafe {
        match plan.group {
            Group::Inherit => {}
            Group::New => check(libc::setpgid(0, 0))?,
            Group::Session => check(libc::setsid())?,
        }
        if let Some(cwd) = plan.cwd {
            check(libc::fchdir(cwd))?;
        }
        for (target, source) in (0..).zip(plan.stdio) {
            check(libc::dup2(source, target))?;
        }
        // A kernel before 5.11 does not know this; all of our own fds are close-on-exec anyway.
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        if let Some(limit) = &plan.open_files {
            check(libc::setrlimit(libc::RLIMIT_NOFILE, limit))?;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut empty = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(empty.as_mut_ptr());
        check(libc::sigprocmask(libc::SIG_SETMASK, empty.as_ptr(), ptr::null_mut()))
    }
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn move_above_stdio(stdio: &[BorrowedFd<'_>; 3]) -> nix::Result<[Option<OwnedFd>; 3]> {
    let mut moved = [None, None, None];
    for (slot, fd) in moved.iter_mut().zip(stdio) {
        if fd.as_raw_fd() < 3 {
            let raw = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
            // SAFETY: fcntl has just made this fd, and nobody else knows it.
            *slot = Some(unsafe { OwnedFd::from_raw_fd(raw) });
        }
    }
    Ok(moved)
}

/// Waits for any child that has ended, without blocking.
pub(crate) fn wait4_any() -> nix::Result<Option<(Pid, c_int, libc::rusage)>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values of the right type; an all-zero rusage is valid.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    let pid = Errno::result(pid)?;
    Ok((pid > 0).then(|| (Pid::from_raw(pid), status, usage)))
}

/// A handle that names one process for good, even when its number is used again.
pub(crate) fn pidfd_open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: a system call on two integers; a non-negative result is an fd that only we know.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
        Errno::result(fd).map(|fd| OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Sends a signal to the process that `pidfd` names.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: u8) -> nix::Result<()> {
    // SAFETY: a system call on integers and a null siginfo, which asks for the default one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            c_int::from(signal),
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Errno::result(result).map(drop)
}

/// Gives every signal its default action, but SIGPIPE, which stays ignored so that a write to a
/// peer that left is an error we see.
pub(crate) fn default_dispositions() {
    for signal in 1..=libc::SIGRTMAX() {
        let action = if signal == libc::SIGPIPE { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: SIG_DFL and SIG_IGN install no code of ours. KILL, STOP and the signals the C
        // library keeps for itself refuse with EINVAL, which changes nothing.
        unsafe { libc::signal(signal, action) };
    }
}

/// Whether this process ignores a signal, as one does that was started with `nohup` or by a shell
/// in the background.
pub fn is_ignored(signal: nix::sys::signal::Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action only asks; the old one is read only if the call says that it was
    // written.
    unsafe {
        let asked = libc::sigaction(signal as c_int, ptr::null(), action.as_mut_ptr());
        asked == 0 && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Gives one signal its default action.
pub(crate) fn default_disposition(signal: nix::sys::signal::Signal) {
    // SAFETY: SIG_DFL installs no code of ours.
    unsafe { libc::signal(signal as c_int, libc::SIG_DFL) };
}

/// Takes one waiting connection off a listening socket, close-on-exec.
pub fn accept(listener: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let raw =
        nix::sys::socket::accept4(listener.as_raw_fd(), nix::sys::socket::SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: accept4 has just made this fd, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Takes ownership of fds that came in a control message.
pub(crate) fn own_received(fds: Vec<RawFd>) -> Vec<OwnedFd> {
    // SAFETY: the kernel installed these fds for this recvmsg, and nobody else knows them.
    fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect()
}

/// Takes an fd that this process inherited under a known number, moves it above the standard ones
/// and puts /dev/null in its place. To be called once per number, first thing in `main`.
pub fn take_fd(number: RawFd) -> io::Result<OwnedFd> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: only used for the duration of these calls; fcntl fails cleanly if it is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let raw = nix::fcntl::fcntl(inherited, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: fcntl has just made `raw`, which nobody else knows; `number` is open, and dup2
    // closes and replaces it in one step.
    let owned = unsafe {
        let owned = OwnedFd::from_raw_fd(raw);
        Errno::result(libc::dup2(null.as_fd().as_raw_fd(), number))?;
        owned
    };
    Ok(owned)
}

/// The version of this kernel's Landlock; 0 where it has none, or has it switched off.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: asked for its version, the call reads no memory.
    let version = unsafe {
        let none = ptr::null::<c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Has the C library give memory back to the system as soon as it is freed in any size worth it.
/// By default it keeps what it once had, for a program that will need it again; a resident one is
/// idle most of its life.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const WORTH_IT: c_int = 64 * 1024;
        // SAFETY: sets two numbers of the allocator; it refuses what it does not know.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, WORTH_IT);
            libc::mallopt(libc::M_TRIM_THRESHOLD, WORTH_IT);
        }
    }
}

/// Random bits from the kernel, fit for a secret.
pub fn random_bits() -> io::Result<[u8; 16]> {
    let mut bits = [0u8; 16];
    // SAFETY: the pointer and length are those of a live array. Up to 256 bytes are never cut
    // short once the kernel's pool is ready.
    let read = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) };
    if read != bits.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(bits)
}
