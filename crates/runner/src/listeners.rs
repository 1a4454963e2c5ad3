//! Sockets of a network stack that a process outside of it uses: its listeners
//! (`spec/network.md#passed-listeners`), mirrors and connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use aifo_wire::{Loopback, SocketResult};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrLike, connect,
    listen, socket,
};

/// The port of DNS.
const DNS: u16 = 53;

/// Binds DNS on 127.0.0.1, over UDP and TCP, then TCP on each port at any address: in this order.
/// Errors: an address is in use, or the port needs a capability.
pub(crate) fn bind_listeners(ports: &[u16]) -> io::Result<Vec<OwnedFd>> {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, DNS)).map_err(|error| failed(DNS, &error))?;
    let mut bound = vec![udp.into(), bind(Ipv4Addr::LOCALHOST, DNS)?];
    for port in ports {
        bound.push(bind(Ipv4Addr::UNSPECIFIED, *port)?);
    }
    Ok(bound)
}

fn bind(address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
    let listener = TcpListener::bind((address, port)).map_err(|error| failed(port, &error))?;
    // The standard library's backlog of 128 would delay the connections of a parallel download.
    listen(&listener, Backlog::MAXALLOWABLE)?;
    Ok(listener.into())
}

/// Binds a port of 127.0.0.1.
pub(crate) fn bind_loopback(port: u16) -> Result<OwnedFd, SocketResult> {
    bind(Ipv4Addr::LOCALHOST, port).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => SocketResult::InUse,
        _ => SocketResult::Failed,
    })
}

/// Connects to a port without waiting: the connection is usually still in progress.
pub(crate) fn connect_loopback(address: Loopback, port: u16) -> Result<OwnedFd, SocketResult> {
    let connected = match address {
        Loopback::V4 => try_connect(AddressFamily::Inet, &SockaddrIn::new(127, 0, 0, 1, port)),
        Loopback::V6 => {
            let address = SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, 0);
            try_connect(AddressFamily::Inet6, &SockaddrIn6::from(address))
        }
    };
    connected.map_err(|errno| match errno {
        // Without IPv6 nothing listens at its address.
        Errno::ECONNREFUSED | Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL => SocketResult::Refused,
        _ => SocketResult::Failed,
    })
}

fn try_connect(family: AddressFamily, address: &dyn SockaddrLike) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None)?;
    match connect(fd.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

fn failed(port: u16, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on port {port}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_reaches_either_loopback_address() {
        for (bound, address) in [("127.0.0.1:0", Loopback::V4), ("[::1]:0", Loopback::V6)] {
            // A machine may lack IPv6.
            let Ok(listener) = TcpListener::bind(bound) else { continue };
            let port = listener.local_addr().unwrap().port();
            let connected = std::net::TcpStream::from(connect_loopback(address, port).unwrap());
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(connected.local_addr().unwrap(), peer);
        }
    }

    #[test]
    fn a_taken_port_is_in_use() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_eq!(bind_loopback(port).unwrap_err(), SocketResult::InUse);
        drop(taken);
        let bound = TcpListener::from(bind_loopback(port).unwrap());
        assert_eq!(bound.local_addr().unwrap(), (Ipv4Addr::LOCALHOST, port).into());
    }

    #[test]
    fn an_error_names_the_port() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(Ipv4Addr::UNSPECIFIED, port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("cannot listen on port {port}: ")));
    }
}
