//! Synthetic addresses: one loopback address per name.
//!
//! The address that a client dials identifies the name. An address keeps its name for the table's
//! whole life: a client that remembers an address never reaches another name.
//!
//! Proves `spec/network.md#names`.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::name::Name;
use crate::rules::NetRules;

/// Names and their addresses in 127.64.0.0/10.
///
/// Names of rules without a wildcard have the first addresses, in order, so the same rules always give
/// the same addresses. A name below a wildcard gets an address with its first query.
#[derive(Debug, Default)]
pub struct NameTable {
    by_name: HashMap<Name, Ipv4Addr>,
    by_index: Vec<Name>,
}

/// The table has no address left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} names were looked up in this session", NameTable::MAX_NAMES)]
pub struct TableFull;

impl NameTable {
    /// The maximum number of names that queries add. One takes at most some 600 bytes.
    pub const MAX_NAMES: usize = 16_384;

    /// Creates a table with the names of rules without a wildcard.
    pub fn new(rules: &NetRules) -> NameTable {
        let mut table = NameTable::default();
        rules.exact_names().take(LAST - FIRST).for_each(|name| {
            table.insert(name);
        });
        table
    }

    /// Returns the address of a permitted name, which may be a new one.
    pub fn address(&mut self, name: &Name) -> Result<Ipv4Addr, TableFull> {
        match self.by_name.get(name) {
            Some(address) => Ok(*address),
            None if self.by_index.len() >= NameTable::MAX_NAMES => Err(TableFull),
            None => Ok(self.insert(name)),
        }
    }

    /// Returns the name of an address; `None` if no name has it.
    pub fn name(&self, address: Ipv4Addr) -> Option<&Name> {
        let index = (address.to_bits() as usize).checked_sub(FIRST)?;
        self.by_index.get(index)
    }

    fn insert(&mut self, name: &Name) -> Ipv4Addr {
        let address = Ipv4Addr::from_bits((FIRST + self.by_index.len()) as u32);
        self.by_index.push(name.clone());
        self.by_name.insert(name.clone(), address);
        address
    }
}

/// 127.64.0.1.
const FIRST: usize = 0x7f40_0001;

/// 127.127.255.255, the last address of 127.64.0.0/10.
const LAST: usize = 0x7f7f_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text.as_bytes()).unwrap()
    }

    fn table(rules: &[&str]) -> NameTable {
        let list: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        NameTable::new(&NetRules::parse(&list).unwrap())
    }

    #[test]
    fn an_address_identifies_a_name() {
        let mut table = table(&["b.example:443", "a.example", "*.c.example"]);
        let first = Ipv4Addr::new(127, 64, 0, 1);
        assert_eq!(table.address(&name("a.example")), Ok(first));
        assert_eq!(table.name(first), Some(&name("a.example")));
        assert_eq!(table.address(&name("b.example")), Ok(Ipv4Addr::new(127, 64, 0, 2)));
        let third = Ipv4Addr::new(127, 64, 0, 3);
        assert_eq!(table.name(third), None);
        assert_eq!(table.address(&name("x.c.example")), Ok(third));
        assert_eq!(table.address(&name("x.c.example")), Ok(third));
        assert_eq!(table.name(third), Some(&name("x.c.example")));
    }

    #[test]
    fn other_addresses_have_no_name() {
        let table = table(&["a.example"]);
        for address in ["127.0.0.1", "127.64.0.0", "127.64.0.2", "0.0.0.0", "255.255.255.255"] {
            assert_eq!(table.name(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn a_full_table_keeps_its_names() {
        let mut table = table(&["a.example"]);
        for index in 1..NameTable::MAX_NAMES {
            table.address(&name(&format!("n{index}.b.example"))).unwrap();
        }
        assert_eq!(table.address(&name("new.b.example")), Err(TableFull));
        assert_eq!(table.address(&name("a.example")), Ok(Ipv4Addr::new(127, 64, 0, 1)));
        let last = table.address(&name("n16383.b.example")).unwrap();
        assert_eq!(last, Ipv4Addr::new(127, 64, 64, 0));
        assert_eq!(table.name(last), Some(&name("n16383.b.example")));
    }
}
