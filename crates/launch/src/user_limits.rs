//! Limits of the kernel per user, which containers share (`spec/containers.md#limits-of-a-user`).

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use aifo_process::{SendMode, send_with_fds};
use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify};

/// Returns the limits that programs of this user have used up.
pub fn used_up_limits() -> Vec<&'static str> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC).err() == Some(Errno::EMFILE);
    let in_flight = UnixStream::pair().is_ok_and(|(sender, _receiver)| {
        let sent = send_with_fds(sender.as_fd(), b"x", &[sender.as_fd()], SendMode::NonBlocking);
        sent == Err(Errno::ETOOMANYREFS)
    });
    let inotify = inotify.then_some("inotify instances (fs.inotify.max_user_instances)");
    let in_flight = in_flight.then_some("descriptors in flight (RLIMIT_NOFILE, unix(7))");
    inotify.into_iter().chain(in_flight).collect()
}
