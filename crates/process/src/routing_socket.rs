//! Requests that change interfaces and routes of this network namespace (rtnetlink).

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// A socket for requests, one at a time.
#[derive(Debug)]
pub struct RoutingSocket(OwnedFd);

/// From <linux/netlink.h>.
const NLMSG_ERROR: u16 = 2;

impl RoutingSocket {
    /// Opens a socket of this process's network namespace.
    pub fn open() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkRoute;
        socket(AddressFamily::Netlink, SockType::Raw, flags, protocol).map(RoutingSocket)
    }

    /// Sends a message, which must request an acknowledgement (`NLM_F_ACK`), and waits for that. Errors: the
    /// kernel's; `EPROTO` for another reply.
    pub fn request(&self, message: &[u8]) -> nix::Result<()> {
        let socket = self.0.as_raw_fd();
        sendto(socket, message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut reply = [0; 1024];
        let length = recv(socket, &mut reply, MsgFlags::empty())?;
        match parse_ack(reply.get(..length).unwrap_or_default()) {
            Some(0) => Ok(()),
            Some(error) => Err(Errno::from_raw(error.saturating_neg())),
            None => Err(Errno::EPROTO),
        }
    }
}

/// Decodes an acknowledgement: 0, or a negative errno. `None` for any other message.
fn parse_ack(reply: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(reply.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements() {
        const RTM_NEWLINK: u16 = 16;
        const RTM_NEWROUTE: u16 = 24;
        let reply = |kind: u16, code: i32| {
            [&[36, 0, 0, 0][..], &kind.to_ne_bytes(), &[0; 10], &code.to_ne_bytes()].concat()
        };
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, 0)), Some(0));
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, -1)), Some(-1));
        assert_eq!(parse_ack(&reply(RTM_NEWLINK, 0)), None);
        assert_eq!(parse_ack(&reply(RTM_NEWROUTE, 0)), None);
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, 0)[..19]), None);
    }
}
