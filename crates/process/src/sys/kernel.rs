//! System calls that need nothing of the C library: no `errno`, no thread-local storage and no
//! locale. A program may make them before the C library starts (`spec/shim.md#early-start`).

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

use super::raw;

/// An owned descriptor that a raw system call closes when it is dropped.
#[derive(Debug)]
pub struct Fd(RawFd);

impl From<Fd> for OwnedFd {
    fn from(fd: Fd) -> Self {
        // SAFETY: this value owned the descriptor, and does not close it.
        unsafe { OwnedFd::from_raw_fd(std::mem::ManuallyDrop::new(fd).0) }
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Self {
        Fd(fd.into_raw_fd())
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: this value owns the descriptor and keeps it open.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor.
        let _ = unsafe { raw::syscall(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0]) };
    }
}

/// Returns the descriptors 0, 1 and 2. The program must not close them, only replace them.
pub fn standard_fds() -> [BorrowedFd<'static>; 3] {
    // SAFETY: used for queries, which fail cleanly if a number is not open.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Returns the status of an open file.
pub fn fstat(fd: BorrowedFd<'_>) -> nix::Result<libc::stat> {
    read_status(|status| [libc::SYS_fstat as usize, number(fd), status, 0, 0])
}

/// Returns the status of the file at a path, after its links.
pub fn stat(path: &[u8]) -> nix::Result<libc::stat> {
    let path = c_path(path)?;
    let at = libc::AT_FDCWD as usize;
    read_status(|status| [libc::SYS_newfstatat as usize, at, path.as_ptr() as usize, status, 0])
}

/// Makes a system call that writes a status; `call` returns its number and arguments.
fn read_status(call: impl FnOnce(usize) -> [usize; 5]) -> nix::Result<libc::stat> {
    // SAFETY: an all-zero stat is valid, and has the kernel's layout.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let [system_call, a, b, c, d] = call(&raw mut status as usize);
    // SAFETY: the callers pass a live path, if any, and this live status.
    unsafe { raw::syscall(system_call as _, [a, b, c, d, 0]) }.map(|_| status)
}

/// Returns whether this process may execute the file at a path, after its links.
pub fn may_execute(path: &[u8]) -> bool {
    let Ok(path) = c_path(path) else { return false };
    let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, libc::X_OK as usize, 0, 0];
    // SAFETY: the path is live and NUL-terminated.
    unsafe { raw::syscall(libc::SYS_faccessat, args) }.is_ok()
}

/// Returns the target of a link. Errors: EINVAL if the file is no link.
pub fn read_link(path: &[u8]) -> nix::Result<Vec<u8>> {
    let path = c_path(path)?;
    let mut target = [0u8; libc::PATH_MAX as usize];
    let at = libc::AT_FDCWD as usize;
    let args = [at, path.as_ptr() as usize, target.as_mut_ptr() as usize, target.len(), 0];
    // SAFETY: the path is live and NUL-terminated; the kernel writes at most the length passed.
    let length = unsafe { raw::syscall(libc::SYS_readlinkat, args) }?;
    Ok(target.get(..length).unwrap_or_default().to_vec())
}

/// Executes a program in this process. Returns only on failure.
pub fn execute(path: &[u8], args: &[&[u8]], environment: &[&[u8]]) -> Errno {
    /// Copies strings into one buffer, with a NUL after each, and returns it with their pointers and
    /// a null pointer.
    fn strings(list: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::with_capacity(list.iter().map(|one| one.len() + 1).sum());
        let mut offsets = Vec::with_capacity(list.len() + 1);
        for one in list {
            offsets.push(bytes.len());
            bytes.extend_from_slice(one);
            bytes.push(0);
        }
        let start = bytes.as_ptr() as usize;
        let mut pointers: Vec<usize> = offsets.into_iter().map(|at| start + at).collect();
        pointers.push(0);
        (bytes, pointers)
    }
    let path = match c_path(path) {
        Ok(path) => path,
        Err(errno) => return errno,
    };
    let (args, environment) = (strings(args), strings(environment));
    let pointers = [args.1.as_ptr() as usize, environment.1.as_ptr() as usize];
    let call = [path.as_ptr() as usize, pointers[0], pointers[1], 0, 0];
    // SAFETY: path and strings are live and NUL-terminated, and a null pointer ends each list.
    match unsafe { raw::syscall(libc::SYS_execve, call) } {
        Ok(_) => Errno::UnknownErrno,
        Err(errno) => errno,
    }
}

/// Returns the kernel's path of the current directory. It is not absolute if the directory cannot
/// be reached from the root.
pub fn current_directory() -> nix::Result<Vec<u8>> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    let args = [path.as_mut_ptr() as usize, path.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most the length passed.
    let length = unsafe { raw::syscall(libc::SYS_getcwd, args) }?;
    // The length includes the NUL.
    Ok(path.get(..length.saturating_sub(1)).unwrap_or_default().to_vec())
}

/// Returns the umask. It can only be read by setting it; the process must have one thread.
pub fn umask() -> u16 {
    // SAFETY: system calls on integers.
    let before = unsafe {
        let before = raw::syscall(libc::SYS_umask, [0; 5]).unwrap_or_default();
        let _ = raw::syscall(libc::SYS_umask, [before, 0, 0, 0, 0]);
        before
    };
    u16::try_from(before & 0o777).unwrap_or_default()
}

/// Connects to the unix socket at a path of at most 107 bytes. The descriptor is close-on-exec.
pub fn connect_unix(path: &[u8]) -> nix::Result<Fd> {
    // SAFETY: an all-zero address is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    if path.len() >= address.sun_path.len() || path.contains(&0) {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = from.cast_signed();
    }
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: a system call on integers; a result that is not an error is a new descriptor.
    let socket = unsafe {
        Fd(raw::syscall(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0])? as RawFd)
    };
    let address = &raw const address as usize;
    loop {
        let args = [socket.0 as usize, address, size_of::<libc::sockaddr_un>(), 0, 0];
        // SAFETY: the address is live and has the size passed.
        match unsafe { raw::syscall(libc::SYS_connect, args) } {
            Ok(_) => return Ok(socket),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads from a socket or pipe, again if a signal interrupts it.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        let args = [number(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
        // SAFETY: the pointer and length describe a live buffer.
        match unsafe { raw::syscall(libc::SYS_read, args) } {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Sends bytes with up to 253 descriptors, which travel with the first byte.
pub(crate) fn sendmsg(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: c_int,
) -> nix::Result<usize> {
    /// The kernel's `struct cmsghdr` with its data.
    #[repr(C)]
    struct Rights {
        length: usize,
        level: c_int,
        kind: c_int,
        fds: [RawFd; MAX_SENT + 1],
    }
    if fds.len() > MAX_SENT {
        return Err(Errno::EINVAL);
    }
    let head = std::mem::offset_of!(Rights, fds);
    let length = head + size_of_val(fds);
    let (level, kind) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let mut rights = Rights { length, level, kind, fds: [-1; MAX_SENT + 1] };
    for (slot, fd) in rights.fds.iter_mut().zip(fds) {
        *slot = fd.as_raw_fd();
    }
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        message.msg_control = (&raw mut rights).cast();
        // Descriptors have four bytes, control data is padded to eight.
        message.msg_controllen = length.next_multiple_of(size_of::<usize>()) as _;
    }
    let args = [number(socket), &raw const message as usize, flags as usize, 0, 0];
    // SAFETY: the message points to live memory of the lengths given, which the kernel only reads.
    unsafe { raw::syscall(libc::SYS_sendmsg, args) }
}

/// The most descriptors of one [`sendmsg`]: the kernel's own limit (unix(7)).
const MAX_SENT: usize = 253;

/// Waits until one of two descriptors is readable, or has an error. Returns which are.
pub fn wait_readable(fds: [BorrowedFd<'_>; 2]) -> [bool; 2] {
    let mut polled =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let args = [polled.as_mut_ptr() as usize, polled.len(), 0, 0, 0];
    // SAFETY: the array is live and has the length passed; the other pointers are null.
    match unsafe { raw::syscall(libc::SYS_ppoll, args) } {
        Ok(_) => polled.map(|fd| fd.revents != 0),
        Err(Errno::EINTR) => [false; 2],
        // The following system call reports the error.
        Err(_) => [true; 2],
    }
}

/// Returns whether an open file is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    // The kernel's `struct termios` has 36 bytes.
    let mut modes = [0u64; 8];
    let args = [number(fd), libc::TCGETS as usize, modes.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes less than the array's size.
    unsafe { raw::syscall(libc::SYS_ioctl, args) }.is_ok()
}

/// Returns the flags of an open file (`F_GETFL`).
pub(crate) fn status_flags(fd: BorrowedFd<'_>) -> nix::Result<c_int> {
    // SAFETY: a system call on integers.
    let flags =
        unsafe { raw::syscall(libc::SYS_fcntl, [number(fd), libc::F_GETFL as usize, 0, 0, 0]) }?;
    Ok(flags as c_int)
}

/// Returns the position of an open file.
pub(crate) fn position(fd: BorrowedFd<'_>) -> nix::Result<usize> {
    // SAFETY: a system call on integers.
    unsafe { raw::syscall(libc::SYS_lseek, [number(fd), 0, libc::SEEK_CUR as usize, 0, 0]) }
}

/// Replaces standard descriptors with `/dev/null`. Their numbers stay in use, or a later open could
/// reuse them. Without `/dev/null` they stay open.
pub fn replace_with_null(fds: impl IntoIterator<Item = BorrowedFd<'static>>) {
    let mut fds = fds.into_iter().peekable();
    if fds.peek().is_none() {
        return;
    }
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    let args = [libc::AT_FDCWD as usize, c"/dev/null".as_ptr() as usize, flags, 0, 0];
    // SAFETY: the path is a string; a result that is not an error is a new descriptor.
    let Ok(null) = (unsafe { raw::syscall(libc::SYS_openat, args) }) else { return };
    let null = Fd(null as RawFd);
    for fd in fds.filter(|fd| fd.as_raw_fd() != null.0) {
        // SAFETY: both are open, and the kernel replaces the second atomically.
        let _ = unsafe { raw::syscall(libc::SYS_dup3, [null.0 as usize, number(fd), 0, 0, 0]) };
    }
}

/// Ends the process. Nothing that was registered for its end runs.
pub fn exit(code: u8) -> ! {
    loop {
        // SAFETY: a system call on an integer, which does not return.
        let _ = unsafe { raw::syscall(libc::SYS_exit_group, [code.into(), 0, 0, 0, 0]) };
    }
}

/// Returns random bits from the kernel, suitable for secrets.
pub fn random_bits() -> nix::Result<[u8; 16]> {
    let mut bits = [0u8; 16];
    let args = [bits.as_mut_ptr() as usize, bits.len(), 0, 0, 0];
    // SAFETY: the pointer and length describe a live array. Up to 256 bytes are never cut short
    // once the kernel's pool is initialized.
    match unsafe { raw::syscall(libc::SYS_getrandom, args) } {
        Ok(length) if length == bits.len() => Ok(bits),
        Ok(_) => Err(Errno::EIO),
        Err(errno) => Err(errno),
    }
}

/// Returns whether two descriptors refer to one open file description.
pub(crate) fn kcmp_files(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> nix::Result<bool> {
    const KCMP_FILE: usize = 0;
    // SAFETY: system calls on integers.
    unsafe {
        let pid = raw::syscall(libc::SYS_getpid, [0; 5])?;
        let order = raw::syscall(libc::SYS_kcmp, [pid, pid, KCMP_FILE, number(a), number(b)])?;
        Ok(order == 0)
    }
}

/// Returns a resource limit, and replaces it by `new` if given.
pub(crate) fn prlimit(resource: u8, new: Option<&libc::rlimit>) -> nix::Result<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as usize);
    let args = [0, resource.into(), new, &raw mut before as usize, 0];
    // SAFETY: `new` is null or points to a live value, and so does `before`; the kernel rejects
    // invalid resource numbers.
    unsafe { raw::syscall(libc::SYS_prlimit64, args) }.map(|_| before)
}

/// Returns the nice value of this process.
pub(crate) fn nice() -> i8 {
    // SAFETY: a system call on integers; for the calling process it cannot fail.
    let raised =
        unsafe { raw::syscall(libc::SYS_getpriority, [libc::PRIO_PROCESS as usize, 0, 0, 0, 0]) };
    // The kernel returns 20 minus the nice value: 40 to 1.
    i8::try_from(raised.unwrap_or(20)).map_or(0, |raised| 20i8.saturating_sub(raised))
}

fn number(fd: BorrowedFd<'_>) -> usize {
    fd.as_raw_fd().cast_unsigned() as c_uint as usize
}

/// Returns a path with its NUL. Errors: ENAMETOOLONG, or ENOENT if it contains a NUL.
fn c_path(path: &[u8]) -> nix::Result<[u8; libc::PATH_MAX as usize]> {
    let mut bytes = [0; libc::PATH_MAX as usize];
    if path.contains(&0) {
        return Err(Errno::ENOENT);
    }
    match bytes.get_mut(..path.len()) {
        Some(space) if path.len() < libc::PATH_MAX as usize => space.copy_from_slice(path),
        _ => return Err(Errno::ENAMETOOLONG),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_kernel_agrees_with_the_standard_library() {
        let directory = std::env::current_dir().unwrap();
        assert_eq!(current_directory().unwrap(), directory.as_os_str().as_bytes());
        let file = File::open("/etc/passwd").unwrap();
        let expected = file.metadata().unwrap();
        for status in [fstat(file.as_fd()).unwrap(), stat(b"/etc/passwd").unwrap()] {
            let found = (status.st_dev, status.st_ino, status.st_mode);
            assert_eq!(found, (expected.dev(), expected.ino(), expected.mode()));
        }
        assert_eq!(stat(b"/nonexistent").unwrap_err(), Errno::ENOENT);
        assert_eq!(stat(b"/etc\0").unwrap_err(), Errno::ENOENT);
        assert_eq!(stat(&[b'a'; 5000]).unwrap_err(), Errno::ENAMETOOLONG);
        // SAFETY: takes no pointers.
        assert_eq!(i32::from(nice()), unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
    }

    #[test]
    fn a_descriptor_is_closed_when_dropped() {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = Fd::from(OwnedFd::from(Fd::from(OwnedFd::from(writer))));
        drop(writer);
        assert_eq!(wait_readable([reader.as_fd(); 2]), [true; 2]);
        assert_eq!(read(reader.as_fd(), &mut [0; 4]), Ok(0));
        assert!(!is_terminal(reader.as_fd()));
    }

    #[test]
    fn paths_of_sockets_are_bounded() {
        assert_eq!(connect_unix(&[b'/'; 108]).unwrap_err(), Errno::ENAMETOOLONG);
        assert_eq!(connect_unix(b"/nonexistent").unwrap_err(), Errno::ENOENT);
    }
}
