//! A range of addresses.

// An address is a number; what opens sockets is in `std` alone.
use core::net::Ipv4Addr;
use std::fmt;
use std::str::FromStr;

/// A range of IPv4 addresses, as routes name it: `10.89.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    first: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    /// Its first address.
    pub fn first(&self) -> Ipv4Addr {
        self.first
    }

    /// How many bits its addresses have in common; at most 32.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix) == self.first.to_bits()
    }
}

impl FromStr for Subnet {
    type Err = InvalidSubnet;

    /// Errors: the word is no address and prefix, or the address is not the range's first.
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

/// The bits that all addresses have in common.
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

/// The word is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSubnet(String);

impl fmt::Display for InvalidSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no range of addresses such as 10.89.0.0/16", self.0)
    }
}

impl std::error::Error for InvalidSubnet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
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
    fn words_that_are_none() {
        let rows =
            ["", "10.89.0.0", "10.89.0.1/16", "10.89.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "x/8"];
        for word in rows {
            assert_eq!(word.parse::<Subnet>(), Err(InvalidSubnet(word.to_owned())), "{word}");
        }
    }
}
