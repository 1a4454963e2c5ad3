//! Lists the listening TCP sockets of this network namespace, by sock_diag(7).
//!
//! `/proc/net/tcp` has them too, but reading it walks the table of all connections of the machine, which
//! takes milliseconds.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use aifo_wire::Listener;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// A socket for queries of the namespace that it was opened in.
#[derive(Debug)]
pub(crate) struct SocketQuery(OwnedFd);

impl SocketQuery {
    pub(crate) fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkSockDiag;
        Ok(SocketQuery(socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?))
    }

    /// Returns the sockets that accept connections to this namespace's loopback address, sorted.
    pub(crate) fn listeners(&self) -> io::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.list(family, &mut listeners)?;
        }
        listeners.sort_unstable();
        listeners.dedup();
        Ok(listeners)
    }

    fn list(&self, family: u8, listeners: &mut Vec<Listener>) -> io::Result<()> {
        let socket = self.0.as_raw_fd();
        sendto(socket, &request(family), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut buffer = [0; REPLY];
        loop {
            // The kernel answers a request within its system call, and continues within that of a read.
            let length = recv(socket, &mut buffer, MsgFlags::MSG_DONTWAIT)?;
            let messages = buffer.get(..length).unwrap_or_default();
            if parse(messages, listeners)? == Reply::Complete {
                return Ok(());
            }
        }
    }
}

// From <linux/netlink.h>, <linux/sock_diag.h> and <linux/inet_diag.h>.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const DUMP: u16 = 0x1 | 0x300;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_LISTEN: u32 = 10;
const HEAD: usize = 16;
/// The offsets in `struct inet_diag_msg`, behind the head of the message.
const SOURCE_PORT: usize = HEAD + 4;
const SOURCE: usize = HEAD + 8;
const INODE: usize = HEAD + 68;
/// Bytes of a reply: the kernel sends at most 32 KiB at once.
const REPLY: usize = 32 * 1024;

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Continued,
    Complete,
}

/// Returns a request for all listening TCP sockets of a family.
fn request(family: u8) -> Vec<u8> {
    const LENGTH: u32 = 16 + 56;
    let states: u32 = 1 << TCP_LISTEN;
    let words = [SOCK_DIAG_BY_FAMILY.to_ne_bytes(), DUMP.to_ne_bytes()].concat();
    // Sequence number and port are 0: there is one request at a time.
    let head = [&LENGTH.to_ne_bytes()[..], &words, &[0; 8]].concat();
    let query = [&[family, IPPROTO_TCP, 0, 0][..], &states.to_ne_bytes(), &[0; 48]].concat();
    [head, query].concat()
}

/// Appends the listeners of the messages in `bytes`. Errors: the kernel's.
fn parse(mut bytes: &[u8], listeners: &mut Vec<Listener>) -> io::Result<Reply> {
    while let Some(length) = field(bytes, 0).map(u32::from_ne_bytes) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(message) = bytes.get(..length).filter(|message| message.len() >= HEAD) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match field(message, 4).map(u16::from_ne_bytes) {
            Some(NLMSG_DONE) => return Ok(Reply::Complete),
            Some(NLMSG_ERROR) => {
                let code = field(message, HEAD).map_or(0, i32::from_ne_bytes);
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            Some(SOCK_DIAG_BY_FAMILY) => listeners.extend(listener(message)),
            _ => {}
        }
        // Messages are aligned to 4 bytes.
        bytes = bytes.get(length.saturating_add(3) & !3..).unwrap_or_default();
    }
    Ok(Reply::Continued)
}

/// Returns a message's listener, if it accepts connections to loopback.
fn listener(message: &[u8]) -> Option<Listener> {
    let address: IpAddr = match *message.get(HEAD)? {
        AF_INET => Ipv4Addr::from(field::<4>(message, SOURCE)?).into(),
        _ => Ipv6Addr::from(field::<16>(message, SOURCE)?).to_canonical(),
    };
    let is_reached = address.is_unspecified()
        || address == Ipv4Addr::LOCALHOST
        || address == Ipv6Addr::LOCALHOST;
    let port = u16::from_be_bytes(field(message, SOURCE_PORT)?);
    let inode = u32::from_ne_bytes(field(message, INODE)?);
    Some(Listener { port, inode }).filter(|listener| is_reached && listener.port != 0)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use nix::sys::stat::fstat;

    use super::*;

    fn inode_of(socket: &impl AsFd) -> u32 {
        u32::try_from(fstat(socket.as_fd()).unwrap().st_ino).unwrap()
    }

    #[test]
    fn listeners_at_loopback_are_found_by_port_and_inode() {
        let query = SocketQuery::open().unwrap();
        let of = |address: &str| TcpListener::bind(address).ok();
        let sockets = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"].map(of);
        let other = of("127.0.0.2:0").unwrap();
        let connected =
            std::net::TcpStream::connect(sockets[0].as_ref().unwrap().local_addr().unwrap());
        let found = query.listeners().unwrap();
        for socket in sockets.iter().flatten() {
            let port = socket.local_addr().unwrap().port();
            let listener = Listener { port, inode: inode_of(socket) };
            assert!(found.contains(&listener), "{socket:?}: {found:?}");
        }
        // Not by their ports: another address, and the local end of a connection, may have a listener's.
        for inode in [inode_of(&other), inode_of(&connected.unwrap())] {
            assert!(!found.iter().any(|listener| listener.inode == inode), "{found:?}");
        }
        drop(sockets);
        assert_ne!(query.listeners().unwrap(), found, "closed ones are gone");
    }

    #[test]
    fn many_listeners_come_in_several_replies() {
        let sockets: Vec<_> = (0..150).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let found = SocketQuery::open().unwrap().listeners().unwrap();
        for socket in &sockets {
            let port = socket.local_addr().unwrap().port();
            assert!(found.iter().any(|listener| listener.port == port));
        }
    }

    #[test]
    fn an_error_and_a_cut_message_are_errors() {
        let error = [&20u32.to_ne_bytes()[..], &NLMSG_ERROR.to_ne_bytes(), &[0; 10]].concat();
        let error = [error, (-2i32).to_ne_bytes().to_vec()].concat();
        let parsed = parse(&error, &mut Vec::new()).unwrap_err();
        assert_eq!(parsed.raw_os_error(), Some(2));
        assert!(parse(&error[..19], &mut Vec::new()).is_err());
        assert_eq!(parse(&[], &mut Vec::new()).unwrap(), Reply::Continued);
        for length in [0u32, 15] {
            let short = [&length.to_ne_bytes()[..], &[0; 12]].concat();
            assert!(parse(&short, &mut Vec::new()).is_err());
        }
    }
}
