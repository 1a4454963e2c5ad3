//! Isolates a container network from the other networks of its engine.
//!
//! A prohibit route holds whatever happens to the engine rules on the host. Removing it takes
//! `CAP_NET_ADMIN`, which no process of the container has afterwards.

use std::io;
use std::net::Ipv4Addr;

use aifo_process::{RoutingSocket, drop_capabilities};
use aifo_types::Subnet;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;

/// The option before an address pool of the engine.
pub const ISOLATE_NETWORK: &str = "--isolate-network";

/// Makes all other networks of the engine unreachable, including future ones, and drops all
/// capabilities. Needs `CAP_NET_ADMIN` and `CAP_SETPCAP`.
///
/// `pools` are the ranges that the engine allocates networks from, in its order. It uses the first
/// with room, so the pools up to the own one and the next are enough. Later pools stay reachable,
/// as they may belong to other networks of the user.
///
/// Errors: the own address is in none of them, or a capability is missing.
pub fn isolate_network(pools: &[Subnet]) -> io::Result<()> {
    let own = own_addresses()?;
    let prohibited = pools_to_prohibit(pools, &own).ok_or_else(|| {
        let [own, pools] = [joined(&own), joined(pools)];
        io::Error::other(format!(
            "the container's address ({own}) is in none of the engine's pools ({pools})"
        ))
    })?;
    let routing = RoutingSocket::open()?;
    for pool in prohibited {
        let context = |errno| {
            io::Error::other(format!(
                "cannot add a prohibit route for '{pool}': {}",
                Errno::desc(errno)
            ))
        };
        prohibit(&routing, pool).map_err(context)?;
    }
    drop_capabilities()?;
    Ok(())
}

/// Returns the pools up to the one that contains an own address, and the next, which the engine
/// uses when that is full.
fn pools_to_prohibit<'a>(pools: &'a [Subnet], own: &[Ipv4Addr]) -> Option<&'a [Subnet]> {
    let contains_own = |pool: &Subnet| own.iter().any(|address| pool.contains(*address));
    let count = pools.iter().position(contains_own)?.saturating_add(1);
    Some(pools.get(..=count).unwrap_or(pools))
}

/// Returns the IPv4 addresses of this network namespace, without loopback.
fn own_addresses() -> io::Result<Vec<Ipv4Addr>> {
    let all = getifaddrs()?.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip()));
    Ok(all.filter(|address| !address.is_loopback()).collect())
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Adds a prohibit route, which applies where no more specific route does. Succeeds if it exists.
fn prohibit(routing: &RoutingSocket, subnet: &Subnet) -> nix::Result<()> {
    match routing.request(&request(subnet)) {
        Err(Errno::EEXIST) => Ok(()),
        result => result,
    }
}

// From <linux/netlink.h> and <linux/rtnetlink.h>.
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

fn request(subnet: &Subnet) -> Vec<u8> {
    let kind = [RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_PROHIBIT];
    let route = [&[AF_INET, subnet.prefix(), 0, 0][..], &kind, &[0; 4]].concat();
    // The container network may be as large as its pool. Its route to the same addresses must
    // win, so this one has the lowest priority.
    let priority = u32::MAX.to_ne_bytes();
    let attributes =
        [attribute(RTA_DST, subnet.first().octets()), attribute(RTA_PRIORITY, priority)].concat();
    let head = |length: u32| {
        let words = [RTM_NEWROUTE.to_ne_bytes(), NEW_ROUTE_FLAGS.to_ne_bytes()].concat();
        // Sequence number and port are 0: there is one request at a time.
        [&length.to_ne_bytes()[..], &words, &[0; 8]].concat()
    };
    const LENGTH: u32 = 16 + 12 + 2 * 8;
    [head(LENGTH), route, attributes].concat()
}

fn attribute(kind: u16, value: [u8; 4]) -> Vec<u8> {
    [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat()
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
    fn a_route_request() {
        let request = request(&subnets(&["10.89.0.0/16"])[0]);
        assert_eq!(request.len(), 44);
        assert_eq!(request[..4], 44u32.to_ne_bytes());
        assert_eq!(request[16..24], [2, 16, 0, 0, 254, 4, 0, 8]);
        assert_eq!(request[32..36], [10, 89, 0, 0]);
        assert_eq!(request[40..], [255; 4]);
    }
}
