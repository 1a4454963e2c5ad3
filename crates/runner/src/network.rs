//! Keeping a sidecar's network stack apart from those of others on the same engine.
//!
//! A route that leads nowhere holds whatever becomes of the engine's own rules on the host, and
//! nobody in the stack can take it away but who may administer it, which is us and only now.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use aifo_process::drop_capabilities;
use aifo_types::Subnet;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// The argument before a range that an engine takes its networks from.
pub const ISOLATE_NETWORK: &str = "--isolate-network";

/// Takes every network of an engine's but our own out of reach, those it has not made yet included,
/// and gives up all capabilities, of which it takes `CAP_NET_ADMIN` and `CAP_SETPCAP`.
///
/// `pools` are the ranges that the engine takes them from, in its order: it does so from the first
/// that has room. So of those behind the one that our network is from the next is enough, and the rest
/// is left alone, which may be somebody's own.
///
/// Errors: our network is from none of them, or a capability is missing.
pub fn isolate_network(pools: &[Subnet]) -> io::Result<()> {
    let own = own_addresses()?;
    let prohibited = pools_to_prohibit(pools, &own).ok_or_else(|| {
        let [own, pools] = [joined(&own), joined(pools)];
        io::Error::other(format!("our address ({own}) is in none of the engine's pools ({pools})"))
    })?;
    let routing = RoutingSocket::open()?;
    for pool in prohibited {
        let context = |errno| {
            io::Error::other(format!("cannot put {pool} out of reach: {}", Errno::desc(errno)))
        };
        routing.prohibit(pool).map_err(context)?;
    }
    drop_capabilities()?;
    Ok(())
}

/// The pools up to the one that an address of ours is from, and the next, in which the engine goes on
/// when that is full.
fn pools_to_prohibit<'a>(pools: &'a [Subnet], own: &[Ipv4Addr]) -> Option<&'a [Subnet]> {
    let holds_ours = |pool: &Subnet| own.iter().any(|address| pool.contains(*address));
    let until_ours = pools.iter().position(holds_ours)?.saturating_add(1);
    Some(pools.get(..=until_ours).unwrap_or(pools))
}

/// The addresses that others can reach us at.
fn own_addresses() -> io::Result<Vec<Ipv4Addr>> {
    let all = getifaddrs()?.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip()));
    Ok(all.filter(|address| !address.is_loopback()).collect())
}

fn joined(what: &[impl ToString]) -> String {
    what.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The routing table of our network stack, over rtnetlink (`man 7 rtnetlink`).
struct RoutingSocket(std::os::fd::OwnedFd);

impl RoutingSocket {
    fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkRoute;
        Ok(RoutingSocket(socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?))
    }

    /// Adds a route that refuses whatever no other route leads to more closely. One that is there
    /// already is fine.
    fn prohibit(&self, subnet: &Subnet) -> nix::Result<()> {
        let socket = self.0.as_raw_fd();
        sendto(socket, &request(subnet), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut reply = [0; 1024];
        let length = recv(socket, &mut reply, MsgFlags::empty())?;
        match parse_ack(reply.get(..length).unwrap_or_default()) {
            Some(0) => Ok(()),
            Some(error) => match Errno::from_raw(error.saturating_neg()) {
                Errno::EEXIST => Ok(()),
                errno => Err(errno),
            },
            None => Err(Errno::EPROTO),
        }
    }
}

// From <linux/netlink.h> and <linux/rtnetlink.h>.
const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
/// `NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL | NLM_F_CREATE`
const NEW_ROUTE_FLAGS: u16 = 0x1 | 0x4 | 0x200 | 0x400;
const AF_INET: u8 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_PROHIBIT: u8 = 8;
const RTA_DST: u16 = 1;
const RTA_PRIORITY: u16 = 6;

/// A message that asks for such a route.
fn request(subnet: &Subnet) -> Vec<u8> {
    let kind = [RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_PROHIBIT];
    let route = [&[AF_INET, subnet.prefix(), 0, 0][..], &kind, &[0; 4]].concat();
    // A network that is as large as its pool has a route of its own to the same addresses, which goes
    // before one of the last priority.
    let priority = u32::MAX.to_ne_bytes();
    let attributes =
        [attribute(RTA_DST, subnet.first().octets()), attribute(RTA_PRIORITY, priority)].concat();
    let head = |length: u32| {
        let words = [RTM_NEWROUTE.to_ne_bytes(), NEW_ROUTE_FLAGS.to_ne_bytes()].concat();
        // Neither a sequence number nor a port: there is one request at a time.
        [&length.to_ne_bytes()[..], &words, &[0; 8]].concat()
    };
    const LENGTH: u32 = 16 + 12 + 2 * 8;
    [head(LENGTH), route, attributes].concat()
}

/// An attribute of four bytes.
fn attribute(kind: u16, value: [u8; 4]) -> Vec<u8> {
    [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat()
}

/// What the kernel says to a request: 0, or a negative number of an error. `None` if it says
/// something else.
fn parse_ack(reply: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(reply.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnets(words: &[&str]) -> Vec<Subnet> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    #[test]
    fn later_pools_stay_reachable() {
        let pools = subnets(&["10.88.0.0/16", "10.89.0.0/16", "10.90.0.0/15", "10.92.0.0/14"]);
        let count = |own: &str| pools_to_prohibit(&pools, &[own.parse().unwrap()]).map(<[_]>::len);
        assert_eq!(count("10.88.3.2"), Some(2));
        assert_eq!(count("10.89.0.2"), Some(3));
        assert_eq!(count("10.91.255.2"), Some(4));
        assert_eq!(count("10.92.0.2"), Some(4));
        assert_eq!(count("10.96.0.2"), None);
        assert_eq!(pools_to_prohibit(&pools, &[]), None, "without a network there is none");
    }

    #[test]
    fn a_route_request_and_its_ack() {
        let request = request(&subnets(&["10.89.0.0/16"])[0]);
        assert_eq!(request.len(), 44);
        assert_eq!(request[..4], 44u32.to_ne_bytes());
        assert_eq!(request[16..24], [2, 16, 0, 0, 254, 4, 0, 8]);
        assert_eq!(request[32..36], [10, 89, 0, 0]);
        assert_eq!(request[40..], [255; 4]);

        let reply = |kind: u16, code: i32| {
            [&[36, 0, 0, 0][..], &kind.to_ne_bytes(), &[0; 10], &code.to_ne_bytes()].concat()
        };
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, 0)), Some(0));
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, -1)), Some(-1));
        assert_eq!(parse_ack(&reply(RTM_NEWROUTE, 0)), None);
        assert_eq!(parse_ack(&reply(NLMSG_ERROR, 0)[..19]), None);
    }
}
