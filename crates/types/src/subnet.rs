//! IPv4 subnets.

// From `core`: this crate must not use `std::net`.
use core::net::Ipv4Addr;
use std::fmt;
use std::str::FromStr;

/// An IPv4 subnet in CIDR notation: `10.89.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    first: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    /// Returns the first address.
    pub fn first(&self) -> Ipv4Addr {
        self.first
    }

    /// Returns the prefix length in bits, at most 32.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether the subnet contains `address`.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix) == self.first.to_bits()
    }
}

impl FromStr for Subnet {
    type Err = InvalidSubnet;

    /// Errors: the text is not an address and a prefix length, or the address has host bits set.
    fn from_str(word: &str) -> Result<Self, InvalidSubnet> {
        let subnet = || {
            let (first, prefix) = word.split_once('/')?;
            let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            let prefix = prefix.parse().ok().filter(|prefix| digits && *prefix <= 32)?;
            let first: Ipv4Addr = first.parse().ok()?;
            (first.to_bits() & !mask(prefix) == 0).then_some(Subnet { first, prefix })
        };
        subnet().ok_or_else(|| InvalidSubnet(word.to_owned()))
    }
}

/// Returns the netmask.
fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl fmt::Debug for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSubnet(String);

impl fmt::Display for InvalidSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid subnet '{}': expected the form 10.89.0.0/16", self.0)
    }
}

impl std::error::Error for InvalidSubnet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets() {
        let rows = [
            ("10.89.0.0/16", "10.89.255.255", "10.90.0.0"),
            ("10.128.0.0/9", "10.255.0.1", "10.127.255.255"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
        ];
        for (word, inside, outside) in rows {
            let subnet: Subnet = word.parse().unwrap();
            assert_eq!(subnet.to_string(), word);
            assert!(subnet.contains(subnet.first()), "{word}");
            assert!(subnet.contains(inside.parse().unwrap()), "{word} {inside}");
            assert!(!subnet.contains(outside.parse().unwrap()), "{word} {outside}");
        }
        let all: Subnet = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains(Ipv4Addr::BROADCAST));
    }

    #[test]
    fn invalid_subnets() {
        let rows =
            ["", "10.89.0.0", "10.89.0.1/16", "10.89.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "x/8"];
        for word in rows {
            assert_eq!(word.parse::<Subnet>(), Err(InvalidSubnet(word.to_owned())), "{word}");
        }
    }
}
