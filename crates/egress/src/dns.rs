//! DNS messages (RFC 1035): parses a query, and encodes the response.
//!
//! In scope: one question per query, over UDP and TCP, with EDNS(0) (RFC 6891). Out of scope: other
//! servers, which no query ever reaches, and the sockets (`dns_server.rs`).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::name::Name;

/// The decision about one name of a query (`spec/network.md#dns`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// A rule permits the name. It has this address.
    Address(Ipv4Addr),
    /// A rule permits a name below which this service label is: there are no records.
    NoData,
    /// The address of the query has this name.
    Pointer(Name),
    /// No rule permits the name.
    NoName,
    /// The name is permitted, but the table of names is full.
    Full,
}

/// A question that the table of names decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsQuestion {
    /// Any type but PTR, for this name.
    Name {
        /// The name.
        name: Name,
        /// The name after the leading labels that begin with `_`, of queries for services.
        host: Option<Name>,
    },
    /// The name of an address.
    Pointer(Ipv4Addr),
}

/// The longest query in bytes. Stub resolvers send less than 300.
pub const MAX_QUERY: usize = 4096;

/// Seconds for which clients may cache an address.
pub const TTL: u32 = 30;

/// Answers a query of UDP, or one of TCP without its length. Calls `lookup` at most once.
///
/// Returns `None` for messages that get no response: shorter than a header, or responses.
pub fn answer(query: &[u8], lookup: impl FnOnce(&DnsQuestion) -> Lookup) -> Option<Vec<u8>> {
    let header = Header::parse(query).filter(|header| !header.is_response())?;
    let asked = match header.is_query().then(|| Asked::parse(query)) {
        None => return Some(header.respond(Rcode::NotImplemented, None, &[])),
        Some(None) => return Some(header.respond(Rcode::Malformed, None, &[])),
        Some(Some(asked)) => asked,
    };
    let (code, record) = asked.decide(lookup);
    Some(header.respond(code, Some(&asked), &record))
}

/// Splits the first message off a TCP stream: its length in two bytes, then the message.
///
/// Returns the message and the number of bytes that it takes; `None` if it is incomplete. A message
/// over [`MAX_QUERY`] is an error, after which the connection is of no use.
pub fn split_message(stream: &[u8]) -> Result<Option<(&[u8], usize)>, QueryTooLong> {
    let Some((length, rest)) = stream.split_first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length));
    if length > MAX_QUERY {
        return Err(QueryTooLong);
    }
    Ok(rest.get(..length).map(|message| (message, 2 + length)))
}

/// A query is longer than [`MAX_QUERY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a DNS query is longer than {MAX_QUERY} bytes")]
pub struct QueryTooLong;

/// Response codes.
#[derive(Clone, Copy, Debug)]
enum Rcode {
    NoError = 0,
    Malformed = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

struct Header {
    id: [u8; 2],
    flags: u16,
}

/// The question of a query.
struct Asked<'q> {
    /// Name, type and class as received. Clients compare the case of the name.
    bytes: &'q [u8],
    name: WireName,
    kind: u16,
    class: u16,
    edns: bool,
}

/// A question name.
enum WireName {
    Host(Name),
    /// A valid name with bytes that a host name has not, or an IP address.
    Other,
}

const HEADER: usize = 12;
const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const INTERNET: u16 = 1;

/// The size of UDP responses in OPT records, as servers commonly send it.
const UDP_SIZE: u16 = 1232;

impl Header {
    fn parse(message: &[u8]) -> Option<Header> {
        let [id0, id1, flags0, flags1, ..] = *message.get(..HEADER)? else { return None };
        Some(Header { id: [id0, id1], flags: u16::from_be_bytes([flags0, flags1]) })
    }

    fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    fn is_query(&self) -> bool {
        self.flags & 0x7800 == 0
    }

    fn respond(&self, code: Rcode, asked: Option<&Asked<'_>>, record: &[u8]) -> Vec<u8> {
        // QR, the query's opcode and RD, RA.
        let flags = 0x8080 | (self.flags & 0x7900) | code as u16;
        let edns = asked.is_some_and(|asked| asked.edns);
        let counts =
            [u16::from(asked.is_some()), u16::from(!record.is_empty()), 0, u16::from(edns)];
        let mut response = Vec::with_capacity(HEADER + record.len() + 300);
        response.extend(self.id);
        response.extend(flags.to_be_bytes());
        counts.iter().for_each(|count| response.extend(count.to_be_bytes()));
        response.extend(asked.map_or(&[][..], |asked| asked.bytes));
        response.extend(record);
        if edns {
            response.push(0);
            response.extend(OPT.to_be_bytes());
            response.extend(UDP_SIZE.to_be_bytes());
            response.extend([0; 6]);
        }
        response
    }
}

impl<'q> Asked<'q> {
    /// Parses the only question; `None` if there is another number, or it is malformed.
    fn parse(message: &'q [u8]) -> Option<Asked<'q>> {
        let count = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk::<2>()?));
        let (questions, answers, authorities, additions) =
            (count(4)?, count(6)?, count(8)?, count(10)?);
        let rest = message.get(HEADER..).filter(|_| questions == 1)?;
        let (name, length) = parse_name(rest)?;
        let [kind0, kind1, class0, class1] = *rest.get(length..)?.first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at(length + 4);
        // Stub resolvers send the OPT record first, and no other.
        let opt = [&[0][..], &OPT.to_be_bytes()].concat();
        let edns = answers == 0 && authorities == 0 && additions > 0 && rest.starts_with(&opt);
        let (kind, class) =
            (u16::from_be_bytes([kind0, kind1]), u16::from_be_bytes([class0, class1]));
        Some(Asked { bytes, name, kind, class, edns })
    }

    /// Returns the response code, and the only record or nothing.
    fn decide(&self, lookup: impl FnOnce(&DnsQuestion) -> Lookup) -> (Rcode, Vec<u8>) {
        let none = |code| (code, Vec::new());
        if self.class != INTERNET {
            return none(Rcode::Refused);
        }
        let WireName::Host(name) = &self.name else { return none(Rcode::NoSuchName) };
        if name.is_localhost() {
            return (Rcode::NoError, self.localhost());
        }
        let question = match (self.kind, pointer_address(name)) {
            (PTR, Some(address)) if address.is_loopback() => match address {
                Ipv4Addr::LOCALHOST => return (Rcode::NoError, self.pointer("localhost")),
                _ => DnsQuestion::Pointer(address),
            },
            (PTR, _) => return none(Rcode::NoSuchName),
            _ => DnsQuestion::Name { name: name.clone(), host: host_of_service(name) },
        };
        match lookup(&question) {
            Lookup::Address(address) if self.kind == A => {
                (Rcode::NoError, self.record(&address.octets()))
            }
            Lookup::Pointer(name) if self.kind == PTR => {
                (Rcode::NoError, self.pointer(name.as_str()))
            }
            Lookup::Address(_) | Lookup::NoData | Lookup::Pointer(_) => none(Rcode::NoError),
            Lookup::NoName => none(Rcode::NoSuchName),
            Lookup::Full => none(Rcode::ServerFailure),
        }
    }

    fn localhost(&self) -> Vec<u8> {
        match self.kind {
            A => self.record(&Ipv4Addr::LOCALHOST.octets()),
            AAAA => self.record(&Ipv6Addr::LOCALHOST.octets()),
            _ => Vec::new(),
        }
    }

    fn pointer(&self, name: &str) -> Vec<u8> {
        let mut data = Vec::with_capacity(name.len() + 2);
        for label in name.split('.') {
            data.push(label.len() as u8);
            data.extend(label.as_bytes());
        }
        data.push(0);
        self.record(&data)
    }

    /// Returns a record for the question name, which is the first after the header.
    fn record(&self, data: &[u8]) -> Vec<u8> {
        let mut record = vec![0xc0, HEADER as u8];
        record.extend(self.kind.to_be_bytes());
        record.extend(INTERNET.to_be_bytes());
        record.extend(TTL.to_be_bytes());
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        record
    }
}

/// Parses a name at the front, and returns its length in bytes. The first name of a message has no
/// compression pointers, since nothing stands before it.
fn parse_name(bytes: &[u8]) -> Option<(WireName, usize)> {
    let mut text = Vec::new();
    let mut at = 0;
    let mut is_host = true;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        if length > Name::MAX_LABEL {
            return None;
        }
        let label = bytes.get(at..at + length)?;
        at += length;
        // 255 bytes with the final zero.
        if at > 254 {
            return None;
        }
        if !text.is_empty() {
            text.push(b'.');
        }
        is_host &= !label.contains(&b'.');
        text.extend(label);
    }
    let name = Name::parse(&text).ok().filter(|_| is_host);
    Some((name.map_or(WireName::Other, WireName::Host), at))
}

/// Returns the name after leading labels that begin with `_`; `None` if there are no such labels.
fn host_of_service(name: &Name) -> Option<Name> {
    let mut rest = name.as_str();
    while rest.starts_with('_') {
        rest = rest.split_once('.')?.1;
    }
    (rest.len() < name.as_str().len()).then(|| Name::parse(rest.as_bytes()).ok()).flatten()
}

/// Returns the address of a name below `in-addr.arpa`.
fn pointer_address(name: &Name) -> Option<Ipv4Addr> {
    let digits = name.as_str().strip_suffix(".in-addr.arpa")?;
    let address: Ipv4Addr = digits.parse().ok()?;
    let [a, b, c, d] = address.octets();
    Some(Ipv4Addr::new(d, c, b, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTHETIC: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 1);
    const TXT: u16 = 16;
    const MX: u16 = 15;
    const SRV: u16 = 33;
    const SVCB: u16 = 64;
    const HTTPS: u16 = 65;
    const ANY: u16 = 255;

    fn wire_name(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    fn query(name: &[u8], kind: u16, class: u16) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(name);
        query.extend(kind.to_be_bytes());
        query.extend(class.to_be_bytes());
        query
    }

    /// Permits `registry.example` at an address.
    fn table(question: &DnsQuestion) -> Lookup {
        let permitted = |name: &Name| name.as_str() == "registry.example";
        match question {
            DnsQuestion::Name { name, .. } if permitted(name) => Lookup::Address(SYNTHETIC),
            DnsQuestion::Name { name, .. } if name.as_str() == "full.example" => Lookup::Full,
            DnsQuestion::Name { host: Some(host), .. } if permitted(host) => Lookup::NoData,
            DnsQuestion::Pointer(SYNTHETIC) => {
                Lookup::Pointer(Name::parse(b"registry.example").unwrap())
            }
            _ => Lookup::NoName,
        }
    }

    /// Returns the response code, and the data of the only record.
    fn ask(name: &str, kind: u16) -> (u8, Vec<u8>) {
        let query = query(&wire_name(name), kind, INTERNET);
        let response = answer(&query, table).unwrap();
        assert_eq!(&response[..2], [0xab, 0xcd], "the id");
        assert_eq!(response[2], 0x81, "a response, with recursion desired");
        assert_eq!(response[3] & 0xf0, 0x80, "recursion available");
        assert_eq!(response[HEADER..query.len()], query[HEADER..], "the question");
        assert_eq!(&response[4..6], [0, 1]);
        assert_eq!(&response[8..12], [0; 4]);
        let data = &response[query.len()..];
        if data.is_empty() {
            assert_eq!(&response[6..8], [0, 0]);
            return (response[3] & 0xf, Vec::new());
        }
        assert_eq!(&response[6..8], [0, 1]);
        let fixed = [&[0xc0, 12][..], &kind.to_be_bytes(), &[0, 1], &TTL.to_be_bytes()].concat();
        assert_eq!(data[..10], fixed);
        assert_eq!(usize::from(data[11]), data.len() - 12);
        (response[3] & 0xf, data[12..].to_vec())
    }

    #[test]
    fn queries_are_answered_by_the_table() {
        let none = Vec::new;
        let synthetic = SYNTHETIC.octets().to_vec();
        let localhost = Ipv4Addr::LOCALHOST.octets().to_vec();
        let rows = [
            ("registry.example", A, 0, synthetic.clone()),
            ("ReGiStRy.EXAMPLE", A, 0, synthetic),
            ("registry.example", AAAA, 0, none()),
            ("registry.example", TXT, 0, none()),
            ("registry.example", MX, 0, none()),
            ("registry.example", HTTPS, 0, none()),
            ("registry.example", SVCB, 0, none()),
            ("registry.example", ANY, 0, none()),
            ("_http._tcp.registry.example", SRV, 0, none()),
            ("_8443._https.registry.example", HTTPS, 0, none()),
            ("other.example", A, 3, none()),
            ("other.example", AAAA, 3, none()),
            ("other.example", TXT, 3, none()),
            ("x.registry.example", A, 3, none()),
            ("_http._tcp.other.example", SRV, 3, none()),
            ("full.example", A, 2, none()),
            ("localhost", A, 0, localhost.clone()),
            ("a.localhost", A, 0, localhost),
            ("localhost", AAAA, 0, Ipv6Addr::LOCALHOST.octets().to_vec()),
            ("localhost", TXT, 0, none()),
            ("1.0.64.127.in-addr.arpa", PTR, 0, wire_name("registry.example")),
            ("1.0.64.127.in-addr.arpa", TXT, 3, none()),
            ("2.0.64.127.in-addr.arpa", PTR, 3, none()),
            ("1.0.0.127.in-addr.arpa", PTR, 0, wire_name("localhost")),
            ("8.8.8.8.in-addr.arpa", PTR, 3, none()),
            ("254.169.254.169.in-addr.arpa", PTR, 3, none()),
            ("registry.example", PTR, 3, none()),
            ("127.0.0.1", A, 3, none()),
            ("", A, 3, none()),
            ("a b.example", A, 3, none()),
        ];
        for (name, kind, code, data) in rows {
            assert_eq!(ask(name, kind), (code, data), "{name} {kind}");
        }
    }

    #[test]
    fn a_dot_within_a_label_is_no_separator() {
        let mut name = vec![16];
        name.extend(b"registry.example");
        name.push(0);
        let response = answer(&query(&name, A, INTERNET), table).unwrap();
        assert_eq!(response[3] & 0xf, 3);
    }

    #[test]
    fn long_names_are_bounded() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(ask(&longest, TXT), (3, Vec::new()));
        for name in [format!("{longest}a"), "a.".repeat(128), "a".repeat(64)] {
            let response = answer(&query(&wire_name(&name), TXT, INTERNET), table).unwrap();
            assert_eq!(response[3] & 0xf, 1, "{name}");
        }
    }

    #[test]
    fn malformed_queries_are_refused() {
        let good = query(&wire_name("registry.example"), A, INTERNET);
        let with = |at: usize, byte: u8| {
            let mut query = good.clone();
            query[at] = byte;
            query
        };
        let rows = [
            ("shorter than a header", good[..11].to_vec(), None),
            ("a response", with(2, 0x81), None),
            ("an update", with(2, 0x28), Some(4)),
            ("no question", with(5, 0), Some(1)),
            ("two questions", with(5, 2), Some(1)),
            ("a name without an end", good[..20].to_vec(), Some(1)),
            ("no class", good[..good.len() - 1].to_vec(), Some(1)),
            ("a pointer to itself", query(&[0xc0, 12], A, INTERNET), Some(1)),
            ("a pointer after a label", query(&[1, b'a', 0xc0, 12], A, INTERNET), Some(1)),
            ("a label of an unknown type", query(&[0x41, 0], A, INTERNET), Some(1)),
            ("another class", query(&wire_name("version.bind"), TXT, 3), Some(5)),
        ];
        for (what, query, code) in rows {
            let refuse = |_: &DnsQuestion| panic!("{what}: the table was asked");
            let response = answer(&query, refuse);
            assert_eq!(response.map(|response| response[3] & 0xf), code, "{what}");
        }
    }

    #[test]
    fn edns_is_answered() {
        let mut query = query(&wire_name("registry.example"), AAAA, INTERNET);
        query[11] = 1;
        query.extend([0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0]);
        let response = answer(&query, table).unwrap();
        assert_eq!(&response[6..12], [0, 0, 0, 0, 0, 1]);
        assert!(response.ends_with(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn messages_of_a_stream_are_split() {
        assert_eq!(split_message(&[0]), Ok(None));
        assert_eq!(split_message(&[0, 2, 7]), Ok(None));
        assert_eq!(split_message(&[0, 2, 7, 8, 9]), Ok(Some((&[7, 8][..], 4))));
        assert_eq!(split_message(&[0, 0, 9]), Ok(Some((&[][..], 2))));
        assert_eq!(split_message(&[0x10, 0]), Ok(None));
        assert_eq!(split_message(&[0x10, 1]), Err(QueryTooLong));
    }
}
