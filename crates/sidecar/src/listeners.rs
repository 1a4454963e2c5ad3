//! The listeners of a network stack, as a runner passes them (`spec/network.md#passed-listeners`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::{AcceptConn, ReuseAddr, ReusePort, SockType as TypeOfSocket};
use nix::sys::socket::{GetSockOpt, SockType, getsockopt};

/// The bound sockets of a network stack, which a process outside of it serves. All are non-blocking.
#[derive(Debug)]
pub struct StackListeners {
    /// DNS over UDP, at 127.0.0.1.
    pub dns_udp: UdpSocket,
    /// DNS over TCP, at 127.0.0.1.
    pub dns_tcp: TcpListener,
    /// One for each port, at any address.
    pub ports: Vec<TcpListener>,
}

/// The resolver's configuration of a stack: it resolves names at its own loopback address.
pub(crate) const RESOLVER: &str = "nameserver 127.0.0.1\n";

/// The port of DNS.
const DNS: u16 = 53;

impl StackListeners {
    /// Checks the descriptors that came for these ports: number, type, state and address of each. The
    /// sender runs in a container, so nothing about them is assumed. Errors: what is wrong, and with
    /// which.
    pub(crate) fn check(fds: Vec<OwnedFd>, ports: &[u16]) -> Result<Self, String> {
        let expected = ports.len().saturating_add(2);
        if fds.len() != expected {
            return Err(format!("{} descriptors came, expected {expected}", fds.len()));
        }
        let mut fds = fds.into_iter();
        let mut next = |kind, address: Ipv4Addr, port| {
            let fd = fds.next().ok_or("a descriptor is missing")?;
            let address = SocketAddr::from((address, port));
            match check_one(fd.as_fd(), kind, address) {
                Ok(()) => Ok(fd),
                Err(problem) => Err(format!("the descriptor for {address}: {problem}")),
            }
        };
        let udp: OwnedFd = next(SockType::Datagram, Ipv4Addr::LOCALHOST, DNS)?;
        let tcp = next(SockType::Stream, Ipv4Addr::LOCALHOST, DNS)?;
        let listeners = ports.iter().map(|port| {
            next(SockType::Stream, Ipv4Addr::UNSPECIFIED, *port).map(TcpListener::from)
        });
        let ports = listeners.collect::<Result<_, String>>()?;
        Ok(StackListeners { dns_udp: udp.into(), dns_tcp: tcp.into(), ports })
    }
}

/// Checks one socket and makes it non-blocking. Everything is read from the kernel.
pub(crate) fn check_one(
    fd: BorrowedFd<'_>,
    kind: SockType,
    address: SocketAddr,
) -> Result<(), String> {
    let is_listener = kind == SockType::Stream;
    if option(fd, TypeOfSocket)? != kind {
        return Err(format!("it is no {} socket", if is_listener { "TCP" } else { "UDP" }));
    }
    if is_listener && !option(fd, AcceptConn)? {
        return Err("it does not listen".to_owned());
    }
    // With these options a tool could bind the same address, and share its connections.
    if option(fd, ReusePort)? || !is_listener && option(fd, ReuseAddr)? {
        return Err("its address can be bound again".to_owned());
    }
    // A copy has the same address; the standard library reads only addresses of IP sockets.
    let bound = match is_listener {
        true => TcpListener::from(clone(fd)?).local_addr(),
        false => UdpSocket::from(clone(fd)?).local_addr(),
    };
    match bound {
        Ok(bound) if bound == address => {}
        Ok(bound) => return Err(format!("it is bound to {bound}")),
        Err(error) => return Err(error.to_string()),
    }
    if !is_listener && UdpSocket::from(clone(fd)?).peer_addr().is_ok() {
        return Err("it is connected".to_owned());
    }
    let flags = fcntl(fd, FcntlArg::F_GETFL).map_err(|error| error.to_string())?;
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    fcntl(fd, FcntlArg::F_SETFL(flags)).map_err(|error| error.to_string())?;
    Ok(())
}

fn clone(fd: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    fd.try_clone_to_owned().map_err(|error: io::Error| error.to_string())
}

pub(crate) fn option<O: GetSockOpt>(fd: BorrowedFd<'_>, option: O) -> Result<O::Val, String> {
    getsockopt(&fd, option).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::setsockopt;

    use super::*;

    #[test]
    fn only_bound_sockets_of_the_expected_address_pass() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let (datagram, listener) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
        assert_eq!(check_one(udp.as_fd(), SockType::Datagram, datagram), Ok(()));
        assert_eq!(check_one(tcp.as_fd(), SockType::Stream, listener), Ok(()));
        assert_eq!(tcp.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);

        let problem = |fd: BorrowedFd<'_>, kind, address| check_one(fd, kind, address).unwrap_err();
        let [stream, packets] = [SockType::Stream, SockType::Datagram];
        assert_eq!(problem(udp.as_fd(), stream, datagram), "it is no TCP socket");
        assert_eq!(problem(tcp.as_fd(), packets, listener), "it is no UDP socket");
        let other = SocketAddr::from(([127, 0, 0, 2], listener.port()));
        assert_eq!(problem(tcp.as_fd(), stream, other), format!("it is bound to {listener}"));

        let connected = std::net::TcpStream::connect(listener).unwrap();
        let own = connected.local_addr().unwrap();
        assert_eq!(problem(connected.as_fd(), stream, own), "it does not listen");
        udp.connect("127.0.0.1:9").unwrap();
        assert_eq!(problem(udp.as_fd(), packets, datagram), "it is connected");

        let (unix, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(problem(unix.as_fd(), stream, listener), "it does not listen");
        let (pipe, _writer) = io::pipe().unwrap();
        assert!(check_one(pipe.as_fd(), stream, listener).is_err());
    }

    #[test]
    fn a_unix_listener_and_a_shared_address_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let unix = std::os::unix::net::UnixListener::bind(directory.path().join("s")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(check_one(unix.as_fd(), SockType::Stream, address).is_err());
        let shared = UdpSocket::bind("127.0.0.1:0").unwrap();
        let bound = shared.local_addr().unwrap();
        let check = || check_one(shared.as_fd(), SockType::Datagram, bound);
        assert_eq!(check(), Ok(()));
        let again = Err("its address can be bound again".to_owned());
        setsockopt(&shared, ReuseAddr, &true).unwrap();
        assert_eq!(check(), again);
        setsockopt(&shared, ReuseAddr, &false).unwrap();
        setsockopt(&shared, ReusePort, &true).unwrap();
        assert_eq!(check(), again);
    }

    #[test]
    fn the_number_of_descriptors_is_checked_first() {
        let fds = vec![OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap())];
        let error = StackListeners::check(fds, &[443]).unwrap_err();
        assert_eq!(error, "1 descriptors came, expected 3");
    }
}
