//! The refs that a forge tells before a push (gitprotocol-http(5)).

use std::collections::HashSet;

use crate::oid::Oid;
use crate::pkt_line::{self, Packet};

/// Returns the ids of branches and tags; of other bytes, those before them. Pull requests and `.have`, which are of forks,
/// can be anyone's.
pub fn advertised_ids(mut bytes: &[u8]) -> HashSet<Oid> {
    let mut ids = HashSet::new();
    while let Ok(Some((packet, rest))) = pkt_line::take(bytes) {
        bytes = rest;
        // A service's name ends with a flush, too.
        let Packet::Data(line) = packet else { continue };
        let mut parts = line.splitn(2, |&byte| byte == b' ');
        let (id, name) = (parts.next().and_then(Oid::parse), parts.next().unwrap_or_default());
        let is_own = name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/");
        ids.extend(id.filter(|_| is_own));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pkt_line::{flush, put};

    #[test]
    fn ids_are_those_of_branches_and_tags() {
        let id = |digit: &str| digit.repeat(40);
        let mut bytes = Vec::new();
        put(&mut bytes, &[b"# service=git-receive-pack\n"]);
        flush(&mut bytes);
        put(&mut bytes, &[format!("{} refs/heads/a\0report-status\n", id("1")).as_bytes()]);
        for (digit, name) in [("2", "refs/tags/b"), ("3", ".have"), ("4", "refs/pull/1/head")] {
            put(&mut bytes, &[format!("{} {name}\n", id(digit)).as_bytes()]);
        }
        put(&mut bytes, &[format!("{} capabilities^{{}}\n", id("0")).as_bytes()]);
        flush(&mut bytes);
        let expected = ["1", "2"].map(|digit| Oid::parse(id(digit).as_bytes()).unwrap());
        assert_eq!(advertised_ids(&bytes), HashSet::from(expected));
        assert_eq!(advertised_ids(b"<html>"), HashSet::new());
    }
}
