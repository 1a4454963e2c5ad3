//! Binds the listeners of a network stack that a process outside of it serves
//! (`spec/network.md#passed-listeners`).

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use nix::sys::socket::{Backlog, listen};

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

fn failed(port: u16, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on port {port}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_port() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(Ipv4Addr::UNSPECIFIED, port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("cannot listen on port {port}: ")));
    }
}
