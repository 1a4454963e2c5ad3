//! DNS queries of a stack, as datagrams and as a stream.

#![no_main]

use std::net::Ipv4Addr;

use aifo_egress::dns::{self, DnsQuestion, Lookup, MAX_QUERY};
use aifo_egress::{Name, NameTable, NetRules};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    check(input.wire);
    let responses = input.check_splits(|pieces| answer_stream(pieces));
    assert!(responses.len() <= input.wire.len() / 2 + 1);
});

/// Answers a datagram, and checks the response.
fn check(query: &[u8]) {
    let mut table = table();
    let mut questions = Vec::new();
    let response = dns::answer(query, |question| {
        questions.push(question.clone());
        look_up(&mut table, question)
    });
    assert!(questions.len() <= 1);
    let Some(response) = response else { return };
    assert_eq!(response[..2], query[..2], "the id");
    assert!(response[2] & 0x80 != 0, "a response gets no response");
    assert!(response.len() <= 12 + 255 + 4 + 12 + 255 + 11, "{}", response.len());
    assert!(dns::answer(&response, |_| panic!("a response was looked up")).is_none());
    // Only a permitted name has an address.
    let answers = u16::from_be_bytes([response[6], response[7]]);
    let is_permitted = questions.iter().any(|question| match question {
        DnsQuestion::Name { name, .. } => name.as_str().ends_with("registry.example"),
        DnsQuestion::Pointer(address) => address.octets()[0] == 127,
    });
    assert!(answers == 0 || is_permitted || questions.is_empty(), "{questions:?}");
}

/// Answers a stream up to its end, or to a query that is too long.
fn answer_stream(pieces: &mut dyn Iterator<Item = &[u8]>) -> Vec<Option<Vec<u8>>> {
    let mut table = table();
    let (mut received, mut responses) = (Vec::new(), Vec::new());
    for piece in pieces {
        received.extend(piece);
        loop {
            let Ok(message) = dns::split_message(&received) else { return responses };
            let Some((query, length)) = message else { break };
            assert!(query.len() <= MAX_QUERY && length == query.len() + 2);
            responses.push(dns::answer(query, |question| look_up(&mut table, question)));
            received.drain(..length);
        }
    }
    responses
}

fn table() -> NameTable {
    let list = ["registry.example", "*.registry.example"].map(str::to_owned);
    NameTable::new(&NetRules::parse(&list).expect("rules"))
}

fn look_up(table: &mut NameTable, question: &DnsQuestion) -> Lookup {
    let parent = Name::parse(b"registry.example").expect("a name");
    let is_permitted = |name: &Name| *name == parent || name.is_below(&parent);
    match question {
        DnsQuestion::Name { name, .. } if is_permitted(name) => {
            let address = table.address(name).expect("a free address");
            assert_eq!(table.name(address), Some(name));
            assert!(address >= Ipv4Addr::new(127, 64, 0, 1) && address.is_loopback());
            Lookup::Address(address)
        }
        DnsQuestion::Name { host: Some(host), .. } if is_permitted(host) => Lookup::NoData,
        DnsQuestion::Name { .. } => Lookup::NoName,
        DnsQuestion::Pointer(address) => match table.name(*address) {
            Some(name) => Lookup::Pointer(name.clone()),
            None => Lookup::NoName,
        },
    }
}
