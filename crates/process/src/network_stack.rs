//! A network stack of loopback only, for the tools of local sidecars
//! (`spec/network.md#local-sidecars`).

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::Pid;

use crate::namespace::{
    NOTHING, NamespaceError, at_path, create_user_namespace, detach_mounts, errno_of, failed,
    give_up_privileges, hide, real_paths, write_file,
};
use crate::routing_socket::RoutingSocket;
use crate::sys;

/// The resolver's configuration, if it is not a link.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Lets a process without capabilities bind every port of its stack.
const FIRST_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Moves this process to a new user and network namespace for good. It has loopback only there, and
/// every process may bind every port. User and group stay the same. The process has no capability
/// afterwards, and `no_new_privs`.
///
/// [`join_network_stack`] of other processes finds the namespaces by this process's id, once it has
/// executed a program: until then the kernel may protect them from the user's other processes.
///
/// Must be called before the process starts a thread.
pub fn create_network_stack() -> Result<(), NamespaceError> {
    create_user_namespace(CloneFlags::CLONE_NEWNET)?;
    bring_loopback_up().map_err(failed("enable the loopback interface"))?;
    write_file(FIRST_PORT, "0")?;
    give_up_privileges()
}

/// Moves this process to the user and network namespace of another one of this user, and to a new mount
/// namespace, for good. There, `resolver` is at `/etc/resolv.conf`, and each hidden path is an empty
/// directory, or the null device. Missing paths are ignored. The process has no capability afterwards,
/// and `no_new_privs`.
///
/// Must be called before the process starts a thread. It changes the current directory.
pub fn join_network_stack(
    holder: Pid,
    resolver: &Path,
    hidden: &[PathBuf],
) -> Result<(), NamespaceError> {
    // The first one gives the right to enter the second.
    let [user, network] = [open_namespace(holder, "user")?, open_namespace(holder, "net")?];
    setns(user, CloneFlags::CLONE_NEWUSER).map_err(failed("enter the user namespace"))?;
    setns(network, CloneFlags::CLONE_NEWNET).map_err(failed("enter the network namespace"))?;
    enter_mounts(resolver, hidden)
}

/// As [`create_network_stack`] and [`join_network_stack`] at once, to find out whether both are possible.
pub fn try_network_stack() -> Result<(), NamespaceError> {
    create_user_namespace(CloneFlags::CLONE_NEWNET)?;
    bring_loopback_up().map_err(failed("enable the loopback interface"))?;
    write_file(FIRST_PORT, "0")?;
    enter_mounts(Path::new("/dev/null"), &[])
}

fn open_namespace(holder: Pid, kind: &str) -> Result<File, NamespaceError> {
    let path = PathBuf::from(format!("/proc/{holder}/ns/{kind}"));
    File::open(&path).map_err(|error| at_path("open", &path)(errno_of(&error)))
}

fn enter_mounts(resolver: &Path, hidden: &[PathBuf]) -> Result<(), NamespaceError> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("create a mount namespace"))?;
    detach_mounts()?;
    // Without the file, resolvers use 127.0.0.1.
    if let Ok(configuration) = Path::new(RESOLV_CONF).canonicalize() {
        mount(Some(resolver), &configuration, NOTHING, MsFlags::MS_BIND, NOTHING)
            .and_then(|()| sys::make_read_only(&configuration))
            .map_err(at_path("mount a file at", &configuration))?;
    }
    for path in &real_paths(hidden.iter().map(PathBuf::as_path)) {
        hide(path).map_err(at_path("hide", path))?;
    }
    // The directory of before is on the mounts of before.
    nix::unistd::chdir("/").map_err(failed("change the directory"))?;
    give_up_privileges()
}

// From <linux/netlink.h> and <linux/rtnetlink.h>.
const RTM_NEWLINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`
const CHANGE: u16 = 0x1 | 0x4;
const IFF_UP: u32 = 1;
/// The index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// Sets the flag `IFF_UP` of the loopback interface, which gives it its addresses.
fn bring_loopback_up() -> nix::Result<()> {
    RoutingSocket::open()?.request(&up_request())
}

/// Returns a `struct nlmsghdr` and a `struct ifinfomsg`.
fn up_request() -> Vec<u8> {
    const LENGTH: u32 = 16 + 16;
    let words = [RTM_NEWLINK.to_ne_bytes(), CHANGE.to_ne_bytes()].concat();
    let head = [&LENGTH.to_ne_bytes()[..], &words, &[0; 8]].concat();
    // Family and type of the device are not given.
    let numbers = [0, LOOPBACK, IFF_UP, IFF_UP].map(u32::to_ne_bytes);
    [head, numbers.concat()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_sets_one_flag_of_one_interface() {
        let request = up_request();
        assert_eq!(request.len(), 32);
        assert_eq!(request[..4], 32u32.to_ne_bytes());
        assert_eq!(request[20..24], 1u32.to_ne_bytes(), "the interface");
        assert_eq!([&request[24..28], &request[28..]], [&1u32.to_ne_bytes(); 2], "flags, mask");
    }

    /// A process that is gone has no namespaces.
    #[test]
    fn a_holder_that_has_ended_is_an_error() {
        let error = join_network_stack(Pid::from_raw(i32::MAX), Path::new("/x"), &[]).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot open '/proc/2147483647/ns/user': "),
            "{error}"
        );
    }
}
