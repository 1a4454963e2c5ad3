//! The system calls that need `unsafe`, each behind a safe function.
//!
//! Nothing else in the workspace contains `unsafe`. A block here states why it is sound; what the
//! call means is said where it is used.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::limits::ResourceLimit;
use crate::signal_set::SignalSet;
use crate::spawn::{Group, Spawn, SpawnError};

/// What the child needs, prepared before it exists: it may neither allocate nor lock.
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
    /// Where the child says how far it came, in memory it shares with the waiting parent.
    failure: Option<(Step, c_int)>,
}

#[derive(Clone, Copy)]
enum Step {
    Prepare,
    Exec,
}

/// The child runs a handful of system calls on this stack before it executes its program. Small enough
/// to come from the heap: a mapping of its own would cost each start two more calls and its pages.
const CHILD_STACK: usize = 16 * 1024;

pub(crate) fn spawn(spawn: &Spawn<'_>) -> Result<Pid, SpawnError> {
    let argv = null_terminated(&spawn.argv);
    let env = null_terminated(&spawn.env);
    // The child's dup2 calls overwrite 0, 1 and 2 in turn, so a source there must move first.
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
        failure: None,
    };

    let mut stack: Vec<u128> = Vec::with_capacity(CHILD_STACK / size_of::<u128>());
    // No handler of ours may run in the child, which shares our memory; the child empties its mask
    // as its last step before it executes.
    let before = SignalSet::all().block().map_err(SpawnError::Prepare)?;
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
    let _ = before.restore();
    let pid = cloned.map_err(|errno| match errno {
        Errno::EAGAIN => SpawnError::TooManyProcesses,
        errno => SpawnError::Clone(errno),
    })?;

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

fn prepare_child(plan: &ChildPlan<'_>) -> Result<(), ()> {
    let check = |result: c_int| if result == -1 { Err(()) } else { Ok(()) };
    // SAFETY: plain system calls on values; none allocates, locks or touches memory of the parent
    // but errno, which the suspended parent does not read.
    unsafe {
        match plan.group {
            Group::Inherit => {}
            Group::New => check(libc::setpgid(0, 0))?,
            Group::Foreground(terminal) => {
                check(libc::setpgid(0, 0))?;
                // From a group in the background that is a reason for TTOU, but all is blocked.
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
                // It may be closed with us as well.
                None => _ = libc::close(target),
            }
        }
        // A kernel before 5.11 does not know this; all of our own fds are close-on-exec anyway.
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
            // Not everybody may become more important; it runs all the same.
            libc::setpriority(libc::PRIO_PROCESS, 0, nice.into());
        }
    }
    for limit in plan.limits {
        apply_limit(limit);
    }
    // All others are default with us, or become so when the program is executed.
    set_disposition(libc::SIGPIPE as u8, Disposition::Default);
    for signal in plan.ignored.iter() {
        set_disposition(signal, Disposition::Ignore);
    }
    SignalSet::default().restore().map(drop).map_err(|_| ())
}

/// Sets a limit as far as the hard limit in force lets us. One that cannot be set stays as it is.
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
            // SAFETY: fcntl has just made this fd, and nobody else knows it.
            *slot = Some(unsafe { OwnedFd::from_raw_fd(raw) });
        }
    }
    Ok(moved)
}

/// Our limit on a resource as it was in force; afterwards it is `new`.
pub(crate) fn prlimit(resource: u8, new: Option<&libc::rlimit>) -> nix::Result<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or points to a live value, and so does `before`; the kernel knows
    // which numbers are resources.
    let result = unsafe { libc::prlimit(0, resource.into(), new, &raw mut before) };
    Errno::result(result).map(|_| before)
}

/// Our nice value.
pub(crate) fn nice() -> c_int {
    // SAFETY: a question without pointers; about ourselves it cannot fail.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Waits for any child that has ended or stopped, without blocking.
pub(crate) fn wait4_any() -> nix::Result<Option<(Pid, c_int, libc::rusage)>> {
    let flags = libc::WNOHANG | libc::WUNTRACED;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values of the right type; an all-zero rusage is valid.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, flags, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    let pid = Errno::result(pid)?;
    Ok((pid > 0).then(|| (Pid::from_raw(pid), status, usage)))
}

/// A handle that names one process for good, even when its number is used again.
pub fn pidfd_open(pid: Pid) -> nix::Result<OwnedFd> {
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

/// Sends a signal to a process group.
pub(crate) fn signal_group(leader: Pid, signal: u8) -> nix::Result<()> {
    // SAFETY: a system call on two integers.
    Errno::result(unsafe { libc::killpg(leader.as_raw(), signal.into()) }).map(drop)
}

/// Sends a signal to this thread, whatever the C library thinks of its number.
pub(crate) fn raise(signal: u8) -> nix::Result<()> {
    // SAFETY: system calls on integers.
    let result = unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, c_int::from(signal))
    };
    Errno::result(result).map(drop)
}

/// What becomes of a signal that no code of ours handles.
#[derive(Clone, Copy)]
pub(crate) enum Disposition {
    Default,
    Ignore,
}

/// The kernel's `struct sigaction`. The C library hides the two signals it keeps for itself.
#[repr(C)]
struct KernelSigaction {
    handler: libc::sighandler_t,
    /// Flags, a way back from the handler, and a mask: nothing that counts without a handler.
    rest: [usize; 3],
}

/// Sets what becomes of a signal. KILL, STOP and what is no signal stay as they are.
pub(crate) fn set_disposition(signal: u8, disposition: Disposition) {
    let handler = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    let sigaction = KernelSigaction { handler, rest: [0; 3] };
    let none = ptr::null_mut::<KernelSigaction>();
    // SAFETY: `sigaction` is live and as large as the kernel's, and installs no code of ours.
    unsafe {
        let signal = c_int::from(signal);
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const sigaction, none, size_of::<u64>());
    }
}

/// Whether this process ignores the signal of a number.
pub(crate) fn is_ignored_number(signal: u8) -> bool {
    let mut sigaction = KernelSigaction { handler: libc::SIG_DFL, rest: [0; 3] };
    let none = ptr::null::<KernelSigaction>();
    // SAFETY: a null new sigaction only asks; `sigaction` is live and as large as the kernel's.
    unsafe {
        let signal = c_int::from(signal);
        libc::syscall(libc::SYS_rt_sigaction, signal, none, &raw mut sigaction, size_of::<u64>());
    }
    sigaction.handler == libc::SIG_IGN
}

/// Which way a set of signals changes the mask of this thread.
#[derive(Clone, Copy)]
pub(crate) enum MaskOperation {
    Block = libc::SIG_BLOCK as isize,
    Unblock = libc::SIG_UNBLOCK as isize,
    Set = libc::SIG_SETMASK as isize,
}

/// Changes the mask of this thread; returns the one before. Bit n - 1 stands for signal n.
pub(crate) fn change_mask(how: MaskOperation, set: u64) -> nix::Result<u64> {
    let mut before = 0u64;
    // SAFETY: both pointers are to live sets of the kernel's size, which is passed along.
    let result = unsafe {
        let (how, new, old) = (how as c_int, &raw const set, &raw mut before);
        libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<u64>())
    };
    Errno::result(result).map(|_| before)
}

/// An fd from which the blocked signals of a set can be read, close-on-exec and non-blocking.
pub(crate) fn signalfd(set: u64) -> nix::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the pointer is to a live set of the kernel's size, which is passed along; a
    // non-negative result is an fd that only we know.
    unsafe {
        let new = -1 as c_int;
        let set = &raw const set;
        let fd = libc::syscall(libc::SYS_signalfd4, new, set, size_of::<u64>(), flags);
        Errno::result(fd).map(|fd| OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// The attributes of a terminal, as the kernel has them: no C library reworks the speeds.
pub(crate) fn terminal_attributes(terminal: BorrowedFd<'_>) -> nix::Result<libc::termios> {
    let mut attributes = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the kernel writes its `struct termios`, with which the C library's larger one
    // begins; all-zero is a valid value of the rest.
    unsafe {
        let fd = terminal.as_raw_fd();
        Errno::result(libc::ioctl(fd, libc::TCGETS, attributes.as_mut_ptr()))?;
        Ok(attributes.assume_init())
    }
}

/// Sets the attributes of a terminal once everything written to it has been sent (TCSADRAIN).
pub(crate) fn set_terminal_attributes(
    terminal: BorrowedFd<'_>,
    attributes: &libc::termios,
) -> nix::Result<()> {
    let attributes = ptr::from_ref(attributes);
    // SAFETY: the kernel reads its `struct termios`, with which the live value begins.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TCSETSW, attributes) };
    Errno::result(result).map(drop)
}

/// The size of a terminal.
pub(crate) fn window_size(terminal: BorrowedFd<'_>) -> nix::Result<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to a live value of the type that this request writes.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Errno::result(result).map(|_| size)
}

/// Sets the size of a terminal.
pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, size: &libc::winsize) -> nix::Result<()> {
    let size = ptr::from_ref(size);
    // SAFETY: the pointer is to a live value of the type that this request reads.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, size) };
    Errno::result(result).map(drop)
}

/// Opens the other side of a pseudo terminal, close-on-exec, without making it the controlling
/// terminal of anybody. It needs no path, so it works whatever is mounted in /dev/pts.
pub(crate) fn pty_slave(master: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let unlocked: c_int = 0;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the first request reads one live integer, the second takes flags by value; its
    // non-negative result is an fd that only we know.
    unsafe {
        let fd = master.as_raw_fd();
        Errno::result(libc::ioctl(fd, libc::TIOCSPTLCK, &raw const unlocked))?;
        let slave = Errno::result(libc::ioctl(fd, libc::TIOCGPTPEER, flags))?;
        Ok(OwnedFd::from_raw_fd(slave))
    }
}

/// Whether two fds of ours name one open file description.
pub(crate) fn kcmp_files(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> nix::Result<bool> {
    const KCMP_FILE: c_int = 0;
    // SAFETY: system calls on integers.
    let order = unsafe {
        let (pid, a, b) = (libc::getpid(), a.as_raw_fd(), b.as_raw_fd());
        libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, a as libc::c_ulong, b as libc::c_ulong)
    };
    Errno::result(order).map(|order| order == 0)
}

/// Whether this number is open.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: only asks for a flag, and fails cleanly if it is not open.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Takes one waiting connection off a listening socket, close-on-exec.
pub fn accept(listener: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let raw =
        nix::sys::socket::accept4(listener.as_raw_fd(), nix::sys::socket::SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: accept4 has just made this fd, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// One message with its control data.
pub(crate) struct Message {
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// Whether fds were lost on the way: those that came are not all.
    pub(crate) is_truncated: bool,
}

/// Reads one message without blocking. Its fds, close-on-exec, are owned from the first moment.
pub(crate) fn recvmsg(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Message> {
    let mut control = [0u64; CONTROL_SPACE.div_ceil(size_of::<u64>())];
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut fds = Vec::new();
    // SAFETY: an all-zero msghdr is valid; it points to live memory of the lengths given, aligned
    // for control data. The CMSG functions stay within what the kernel says it wrote there, and
    // the fds in it were installed for this call, so nobody else knows them.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let bytes = libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags);
        let bytes = Errno::result(bytes)?.unsigned_abs();
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(message) = next.as_ref() {
            if (message.cmsg_level, message.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let head = libc::CMSG_LEN(0) as usize;
                let length = usize::saturating_sub(message.cmsg_len as _, head);
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                let received = (0..length / size_of::<RawFd>())
                    .map(|index| OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                fds.extend(received);
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
        Ok(Message { bytes, fds, is_truncated: header.msg_flags & libc::MSG_CTRUNC != 0 })
    }
}

/// Room for as many fds as the kernel lets anyone send (unix(7)), so that only a full table of
/// ours can cut off any.
const CONTROL_SPACE: usize = {
    const SCM_MAX_FD: usize = 253;
    // SAFETY: a calculation.
    unsafe { libc::CMSG_SPACE((SCM_MAX_FD * size_of::<RawFd>()) as libc::c_uint) as usize }
};

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
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: result for its version, the call reads no memory.
    let version = unsafe {
        let none = ptr::null::<c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Gives up every capability for good: this process has none from now on, and neither has what it
/// executes, root's programs included. Errors: it may not, for lack of `CAP_SETPCAP`.
pub fn drop_capabilities() -> nix::Result<()> {
    /// The kernel's `struct __user_cap_header_struct`, of the version with two words for each set.
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const WORDS_OF_TWO: u32 = 0x2008_0522;
    let header = Header { version: WORDS_OF_TWO, pid: 0 };
    let none = [[0u32; 3]; 2];
    // As many as this kernel knows: it refuses the first that it does not.
    for number in 0..libc::c_ulong::from(u64::BITS) {
        // SAFETY: calls on integers, about ourselves.
        let dropped = unsafe {
            if libc::prctl(libc::PR_CAPBSET_READ, number) < 0 {
                break;
            }
            libc::prctl(libc::PR_CAPBSET_DROP, number)
        };
        Errno::result(dropped)?;
    }
    // SAFETY: both pointers are to live values of the kernel's own shape, and it only reads them. With
    // nothing permitted the kernel empties the ambient set itself.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    Errno::result(set).map(drop)
}

/// Has the C library give memory back to the system as soon as it is freed in any size worth it.
/// By default it keeps what it once had, for a program that will need it again; a resident one is
/// idle most of its life.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const THRESHOLD_BYTES: c_int = 64 * 1024;
        // SAFETY: sets two numbers of the allocator; it refuses what it does not know.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, THRESHOLD_BYTES);
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

/// Defines the start of a `#![no_main]` program: `entry!(run)`, with `fn run() -> !`.
///
/// The standard library's own start ignores SIGPIPE, opens /dev/null where a standard fd is closed,
/// and reads the map of our memory to tell an overflow of the stack from other faults. Without it
/// the program sees what its parent really gave it, and starts sooner. Arguments, environment and
/// panics are as ever; a panic that reaches the start ends the program with 101. The C library
/// gives arguments to the standard library only if it is the GNU one.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        // SAFETY: nothing else of a program without `main` has this name, which the C library
        // calls with the signature it has here, once.
        #[unsafe(no_mangle)]
        extern "C" fn main(
            _count: ::core::ffi::c_int,
            _arguments: *const *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int {
            $crate::start($run)
        }
    };
}

/// The environment as it was given to this process, each `NAME=value`, without copying it.
///
/// Nothing in this workspace changes its own environment; a program that does must not call this
/// afterwards.
pub fn environment() -> Vec<&'static [u8]> {
    // SAFETY: `environ` is what POSIX says it is, and the C library has it.
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut variables = Vec::with_capacity(64);
    // SAFETY: the C library keeps `environ` pointing to a null-terminated array of NUL-terminated
    // strings, which live as long as the process and which nobody changes.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            variables.push(CStr::from_ptr(*next).to_bytes());
            next = next.add(1);
        }
    }
    variables
}

/// The path that the kernel executed to start this process, links in it included (`AT_EXECFN`): where a
/// program stands, whatever its caller names it. It asks nobody.
pub fn executed_path() -> Option<&'static Path> {
    // SAFETY: getauxval only looks into the vector that the kernel put on our stack.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return None;
    }
    // SAFETY: the kernel put a NUL-terminated string there, which lives as long as the process and which
    // nobody changes.
    let path = unsafe { CStr::from_ptr(path) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// How many bytes stand in a pipe, seen from either end (`FIONREAD`). 0 for what is no pipe.
pub fn bytes_in_pipe(pipe: BorrowedFd<'_>) -> usize {
    let mut count: c_int = 0;
    // SAFETY: the kernel writes one int to a live one.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
}
