//! Accepting connections and receiving descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Accepts one pending connection, close-on-exec.
pub fn accept(listener: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let raw =
        nix::sys::socket::accept4(listener.as_raw_fd(), nix::sys::socket::SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: accept4 has just created this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Makes the sockets of this process that are not local close when a program is executed. Returns the
/// number of a standard descriptor that is such a socket. Errors: `/proc` cannot be read.
pub fn close_network_sockets() -> io::Result<Option<RawFd>> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if domain(number).is_none_or(|domain| domain == libc::AF_UNIX) {
            continue;
        }
        if number <= 2 {
            return Ok(Some(number));
        }
        // SAFETY: a system call on integers.
        Errno::result(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok(None)
}

/// Returns the address family of a socket; `None` if the descriptor is none.
fn domain(number: RawFd) -> Option<libc::c_int> {
    let mut domain: libc::c_int = 0;
    let mut length = size_of_val(&domain) as libc::socklen_t;
    // SAFETY: the pointers refer to live values, and the kernel writes at most the length passed. A number
    // that is not open fails cleanly.
    let result = unsafe {
        let value = (&raw mut domain).cast();
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_DOMAIN, value, &raw mut length)
    };
    (result == 0).then_some(domain)
}

/// A message with its descriptors.
pub(crate) struct Message {
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// True if the kernel dropped descriptors.
    pub(crate) is_truncated: bool,
}

/// Reads one message without blocking. Its descriptors are close-on-exec.
pub(crate) fn recvmsg(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Message> {
    let mut control = [0u64; CONTROL_SPACE.div_ceil(size_of::<u64>())];
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut fds = Vec::new();
    // SAFETY: an all-zero msghdr is valid; it points to live memory of the lengths given, aligned
    // for control data. The CMSG functions stay within the data the kernel wrote, and the
    // descriptors in it were created for this call, so nothing else owns them.
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

/// Space for as many descriptors as the kernel lets a sender attach (unix(7)), so that only a full
/// descriptor table can truncate them.
const CONTROL_SPACE: usize = {
    const SCM_MAX_FD: usize = 253;
    // SAFETY: computes a size.
    unsafe { libc::CMSG_SPACE((SCM_MAX_FD * size_of::<RawFd>()) as libc::c_uint) as usize }
};
