//! Addresses outside that are not dialled.
//!
//! The table is `spec/network.md#refused-addresses`; its rows are in the IANA registries of special-purpose
//! addresses (RFC 6890), and the metadata services of clouds.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aifo_types::Subnet;

use crate::rule::Rule;

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    /// `0.0.0.0/8` and `::`.
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network, or a unique local address.
    Private,
    /// Shared by a carrier's customers (CGNAT).
    Shared,
    /// One link, without routers.
    LinkLocal,
    /// Several receivers.
    Multicast,
    /// For documentation.
    Documentation,
    /// For benchmarks of devices.
    Benchmark,
    /// Reserved for protocols or for later, or embeds an address in an unknown form.
    Reserved,
}

/// Judges an address of a name: `Err` with the class if the connection is refused.
///
/// A rule with `private` permits private and shared addresses; a rule with `address=IP` permits
/// exactly this one, of any class.
pub fn judge_address(address: IpAddr, rule: &Rule) -> Result<(), AddressClass> {
    let Some(class) = AddressClass::of(address) else { return Ok(()) };
    let is_private = matches!(class, AddressClass::Private | AddressClass::Shared);
    let is_permitted = rule.names_address(address.to_canonical())
        || (is_private && rule.permits_private() && !embeds(address));
    if is_permitted { Ok(()) } else { Err(class) }
}

/// Judges an address of a name as [`judge_address`] does, but permits what these subnets have, such as those of a
/// proxy that resolves every name itself: never this machine, its link, several receivers or a metadata service.
pub(crate) fn judge_address_within(
    address: IpAddr,
    rule: &Rule,
    permitted: &[Subnet],
) -> Result<(), AddressClass> {
    judge_address(address, rule).or_else(|class| {
        if class.is_permitted_within(address, permitted) { Ok(()) } else { Err(class) }
    })
}

impl AddressClass {
    /// Returns whether addresses of this class are those of no host: a proxy may give them to all names.
    pub fn is_of_no_host(self) -> bool {
        matches!(
            self,
            AddressClass::Documentation | AddressClass::Benchmark | AddressClass::Reserved
        )
    }

    /// Returns whether these subnets permit an address of this class to every name.
    pub fn is_permitted_within(self, address: IpAddr, permitted: &[Subnet]) -> bool {
        let is_of_network =
            matches!(self, AddressClass::Private | AddressClass::Shared) || self.is_of_no_host();
        match address.to_canonical() {
            IpAddr::V4(v4) => is_of_network && permitted.iter().any(|it| it.contains(v4)),
            IpAddr::V6(_) => false,
        }
    }

    /// Returns the class of a refused address; `None` for a public one.
    pub fn of(address: IpAddr) -> Option<AddressClass> {
        match address {
            IpAddr::V4(address) => class_v4(address),
            IpAddr::V6(address) => class_v6(address),
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressClass::Metadata => "a metadata service",
            AddressClass::Unspecified => "unspecified",
            AddressClass::Loopback => "loopback",
            AddressClass::Private => "private",
            AddressClass::Shared => "shared (CGNAT)",
            AddressClass::LinkLocal => "link-local",
            AddressClass::Multicast => "multicast",
            AddressClass::Documentation => "for documentation",
            AddressClass::Benchmark => "for benchmarks",
            AddressClass::Reserved => "reserved",
        })
    }
}

/// Metadata services that the tables below do not classify as such.
const METADATA_V4: [Ipv4Addr; 4] = [
    // AWS, GCP, Azure, OpenStack and others; ECS tasks; Alibaba; Azure's host.
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// AWS and GCP.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Networks of IPv4: address, prefix length, class.
const V4: [([u8; 4], u32, AddressClass); 15] = [
    ([0, 0, 0, 0], 8, AddressClass::Unspecified),
    ([10, 0, 0, 0], 8, AddressClass::Private),
    ([100, 64, 0, 0], 10, AddressClass::Shared),
    ([127, 0, 0, 0], 8, AddressClass::Loopback),
    ([169, 254, 0, 0], 16, AddressClass::LinkLocal),
    ([172, 16, 0, 0], 12, AddressClass::Private),
    ([192, 0, 0, 0], 24, AddressClass::Reserved),
    ([192, 0, 2, 0], 24, AddressClass::Documentation),
    ([192, 88, 99, 0], 24, AddressClass::Reserved),
    ([192, 168, 0, 0], 16, AddressClass::Private),
    ([198, 18, 0, 0], 15, AddressClass::Benchmark),
    ([198, 51, 100, 0], 24, AddressClass::Documentation),
    ([203, 0, 113, 0], 24, AddressClass::Documentation),
    ([224, 0, 0, 0], 4, AddressClass::Multicast),
    ([240, 0, 0, 0], 4, AddressClass::Reserved),
];

/// Networks of IPv6: the first three groups, prefix length, class. The first match counts.
const V6: [([u16; 3], u32, AddressClass); 12] = [
    ([0xfc00, 0, 0], 7, AddressClass::Private),
    ([0xfe80, 0, 0], 10, AddressClass::LinkLocal),
    ([0xfec0, 0, 0], 10, AddressClass::Private),
    ([0xff00, 0, 0], 8, AddressClass::Multicast),
    // Teredo and ORCHID: 2001::/23 is for protocols.
    ([0x2001, 2, 0], 48, AddressClass::Benchmark),
    ([0x2001, 0, 0], 23, AddressClass::Reserved),
    ([0x2001, 0xdb8, 0], 32, AddressClass::Documentation),
    ([0x3fff, 0, 0], 20, AddressClass::Documentation),
    ([0x5f00, 0, 0], 16, AddressClass::Reserved),
    ([0x100, 0, 0], 8, AddressClass::Reserved),
    ([0x64, 0xff9b, 1], 48, AddressClass::Reserved),
    ([0, 0, 0], 8, AddressClass::Reserved),
];

fn class_v4(address: Ipv4Addr) -> Option<AddressClass> {
    if METADATA_V4.contains(&address) {
        return Some(AddressClass::Metadata);
    }
    let has = |(network, length, _): &&([u8; 4], u32, AddressClass)| {
        let mask = u32::MAX << (32 - length);
        address.to_bits() & mask == u32::from_be_bytes(*network)
    };
    V4.iter().find(has).map(|(_, _, class)| *class)
}

fn class_v6(address: Ipv6Addr) -> Option<AddressClass> {
    if METADATA_V6.contains(&address) {
        return Some(AddressClass::Metadata);
    }
    match address {
        Ipv6Addr::UNSPECIFIED => return Some(AddressClass::Unspecified),
        Ipv6Addr::LOCALHOST => return Some(AddressClass::Loopback),
        _ => {}
    }
    if let Some(embedded) = embedded_v4(address) {
        return class_v4(embedded);
    }
    let top = u64::from(address.segments()[0]) << 32
        | u64::from(address.segments()[1]) << 16
        | u64::from(address.segments()[2]);
    let has = |(groups, length, _): &&([u16; 3], u32, AddressClass)| {
        let network = groups.iter().fold(0, |network, group| network << 16 | u64::from(*group));
        top >> (48 - length) == network >> (48 - length)
    };
    if let Some((_, _, class)) = V6.iter().find(has) {
        return Some(*class);
    }
    // Only 2000::/3 is global unicast.
    (address.segments()[0] >> 13 != 1).then_some(AddressClass::Reserved)
}

/// Returns the IPv4 address in a mapped, compatible, NAT64 or 6to4 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let groups = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match groups {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(join(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// Returns whether an address is private only through a form other than the plain or mapped one.
fn embeds(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V6(address) if embedded_v4(address).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_refused() {
        use AddressClass::*;
        let rows: &[(AddressClass, &[&str])] = &[
            (
                Metadata,
                &[
                    "169.254.169.254",
                    "169.254.170.2",
                    "100.100.100.200",
                    "168.63.129.16",
                    "fd00:ec2::254",
                    "fd20:ce::254",
                    "::ffff:169.254.169.254",
                    "64:ff9b::a9fe:a9fe",
                    "2002:a9fe:a9fe::1",
                    "::169.254.169.254",
                ],
            ),
            (Unspecified, &["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]),
            (
                Loopback,
                &[
                    "127.0.0.1",
                    "127.64.0.1",
                    "127.255.255.255",
                    "::1",
                    "::ffff:127.0.0.1",
                    "::127.0.0.1",
                    "64:ff9b::7f00:1",
                    "2002:7f00:1::",
                    "::ffff:0:127.0.0.1",
                ],
            ),
            (
                Private,
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.0.1",
                    "fc00::1",
                    "fdff::1",
                    "fec0::1",
                    "::ffff:10.0.0.1",
                    "64:ff9b::a00:1",
                    "2002:c0a8:1::1",
                ],
            ),
            (Shared, &["100.64.0.0", "100.127.255.255"]),
            (LinkLocal, &["169.254.0.1", "fe80::1", "febf::1"]),
            (Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"]),
            (
                Documentation,
                &["192.0.2.1", "198.51.100.7", "203.0.113.9", "2001:db8::1", "3fff:fff::1"],
            ),
            (Benchmark, &["198.18.0.1", "198.19.255.255", "2001:2::1"]),
            (
                Reserved,
                &[
                    "192.0.0.170",
                    "192.88.99.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "100::1",
                    "2001::1",
                    "2001:10::1",
                    "2001:20::1",
                    "2001:1ff::1",
                    "64:ff9b:1::1",
                    "5f00::1",
                    "4000::1",
                    "1::1",
                    "e000::1",
                ],
            ),
        ];
        for (class, addresses) in rows {
            for address in *addresses {
                let of = AddressClass::of(address.parse().unwrap());
                assert_eq!(of, Some(*class), "{address}");
            }
        }
    }

    #[test]
    fn public_addresses_are_not() {
        let rows = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2620:fe::fe",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ];
        for address in rows {
            assert_eq!(AddressClass::of(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn rules_permit_by_option() {
        let rows = [
            ("a.example private", "10.0.0.1", true),
            ("a.example private", "::ffff:10.0.0.1", true),
            ("a.example private", "fd12::1", true),
            ("a.example private", "100.64.0.1", true),
            ("a.example private", "64:ff9b::a00:1", false),
            ("a.example private", "2002:a00:1::", false),
            ("a.example private", "127.0.0.1", false),
            ("a.example private", "169.254.169.254", false),
            ("a.example private", "fd00:ec2::254", false),
            ("a.example private", "169.254.0.1", false),
            ("a.example address=127.0.0.1", "127.0.0.1", true),
            ("a.example address=127.0.0.1", "::ffff:127.0.0.1", true),
            ("a.example address=127.0.0.1", "127.0.0.2", false),
            ("a.example address=10.0.0.1", "10.0.0.2", false),
            ("a.example address=10.0.0.1", "8.8.8.8", true),
            ("a.example", "10.0.0.1", false),
            ("a.example", "8.8.8.8", true),
        ];
        for (rule, address, permitted) in rows {
            let judged = judge_address(address.parse().unwrap(), &Rule::parse(rule).unwrap());
            assert_eq!(judged.is_ok(), permitted, "{rule} {address}");
        }
    }

    #[test]
    fn subnets_permit_what_is_of_a_network() {
        let all = ["0.0.0.0/0".parse().unwrap()];
        let benchmark = ["198.18.0.0/15".parse().unwrap()];
        let rule = Rule::parse("a.example").unwrap();
        let is_permitted = |address: &str, subnets: &[Subnet]| {
            judge_address_within(address.parse().unwrap(), &rule, subnets).is_ok()
        };
        for address in ["198.18.0.1", "198.19.255.255", "::ffff:198.18.0.1"] {
            assert!(is_permitted(address, &benchmark) && !is_permitted(address, &[]), "{address}");
        }
        for address in ["10.0.0.1", "100.64.0.1", "203.0.113.1", "240.0.0.1"] {
            assert!(is_permitted(address, &all) && !is_permitted(address, &benchmark), "{address}");
        }
        let never = [
            "127.0.0.1",
            "169.254.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "0.0.0.0",
            "224.0.0.1",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "64:ff9b::a00:1",
            "::ffff:127.0.0.1",
        ];
        for address in never {
            assert!(!is_permitted(address, &all), "{address}");
        }
    }
}
