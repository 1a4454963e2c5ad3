//! Properties of all input: splits do not matter, and no bytes cause a panic or exceed the limits.

use aifo_egress::dns::{self, Lookup};
use aifo_egress::hello::{Hello, parse_hello};
use aifo_egress::http::parse_request;
use aifo_egress::{AddressClass, Name, NameVerdict, NetRules, judge_address};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Bytes, biased towards the protocols.
fn wire_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => vec(any::<u8>(), 0..12),
        2 => Just(b"GET / HTTP/1.1\r\n".to_vec()),
        2 => Just(b"Host: a.example\r\n".to_vec()),
        1 => Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        1 => Just(b"Content-Length: 3\r\n".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        2 => Just(b"2;x\r\nab\r\n0\r\n\r\n".to_vec()),
        2 => Just(b"\x07\x07\x01\0\0\x01\0\0\0\0\0\0".to_vec()),
        2 => Just(b"\x01a\x07example\0\0\x01\0\x01".to_vec()),
        1 => Just(b"\xc0\x0c".to_vec()),
        2 => Just(b"\x16\x03\x01\0\x20\x01\0\0\x1c\x03\x03".to_vec()),
        1 => Just(vec![7; 32]),
    ];
    vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_result_for_a_prefix_stays(bytes in wire_like(), end in any::<prop::sample::Index>()) {
        let prefix = &bytes[..end.index(bytes.len() + 1)];
        let early = parse_hello(prefix);
        prop_assert!(early == Hello::NeedMore || early == parse_hello(&bytes));
        let name = Name::parse(b"a.example").unwrap();
        let early = parse_request(prefix, &name, 80);
        prop_assert!(early == Ok(None) || early == parse_request(&bytes, &name, 80));
    }

    #[test]
    fn the_end_of_a_request_does_not_depend_on_splits(
        bytes in wire_like(),
        at in any::<prop::sample::Index>(),
    ) {
        let name = Name::parse(b"a.example").unwrap();
        let request = [b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat();
        let parse = || parse_request(&request, &name, 80).unwrap().unwrap();
        let rest = &request[parse().received..];
        let mut whole = parse().body;
        let expected = whole.take(rest).map(|taken| (taken, whole.is_complete()));
        let (first, second) = rest.split_at(at.index(rest.len() + 1));
        let mut split = parse().body;
        let taken = split.take(first).and_then(|taken| Ok(taken + split.take(second)?));
        prop_assert_eq!(taken.map(|taken| (taken, split.is_complete())), expected);
    }

    #[test]
    fn responses_are_short_and_get_no_response(query in wire_like()) {
        let address = "127.64.0.1".parse().unwrap();
        if let Some(response) = dns::answer(&query, |_| Lookup::Address(address)) {
            prop_assert!(response.len() <= query.len() + 27);
            prop_assert_eq!(&response[..2], &query[..2]);
            prop_assert!(dns::answer(&response, |_| Lookup::NoName).is_none());
        }
    }

    #[test]
    fn names_are_normal(text in "[a-cA-C0-9_.-]{0,70}") {
        if let Ok(name) = Name::parse(text.as_bytes()) {
            prop_assert_eq!(Name::parse(name.as_str().as_bytes()), Ok(name.clone()));
            prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
            prop_assert!(name.as_str().eq_ignore_ascii_case(text.trim_end_matches('.')));
        }
    }

    #[test]
    fn rules_are_a_set(
        list in vec(select(RULES), 0..6),
        away in vec(select(AWAY), 0..3),
        name in select(NAMES),
        port in select(&[22, 80, 443, 8443][..]),
    ) {
        let owned = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        let rules = |list: &[&str]| {
            NetRules::parse(&owned(list)).unwrap().take_away(&owned(&away)).unwrap()
        };
        let name = Name::parse(name.as_bytes()).unwrap();
        let verdict = rules(&list).judge(&name, port);
        let reversed: Vec<&str> = list.iter().rev().copied().collect();
        prop_assert_eq!(rules(&reversed).judge(&name, port), verdict.clone());
        // A rule more takes nothing away; a denial more adds nothing.
        let more = rules(&[&list[..], &["b.example private"]].concat()).judge(&name, port);
        prop_assert!(verdict == NameVerdict::Refused || more != NameVerdict::Refused);
        let less = rules(&list).take_away(&owned(&["*.b.example"])).unwrap().judge(&name, port);
        prop_assert!(less == NameVerdict::Refused || less == verdict);
        let permitted = rules(&list).permits_name(&name);
        prop_assert!(permitted || verdict == NameVerdict::Refused);
    }

    #[test]
    fn an_embedded_address_is_judged_as_itself(bits in any::<u32>()) {
        let v4 = std::net::Ipv4Addr::from_bits(bits);
        let class = AddressClass::of(v4.into());
        let [a, b, c, d] = v4.octets();
        for form in [
            format!("::ffff:{v4}"),
            format!("64:ff9b::{v4}"),
            format!("::ffff:0:{v4}"),
            format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
        ] {
            prop_assert_eq!(AddressClass::of(form.parse().unwrap()), class, "{}", form);
        }
    }

    #[test]
    fn private_rules_permit_no_other_class(address in any::<std::net::IpAddr>()) {
        let rules = NetRules::parse(&["a.example private".to_owned()]).unwrap();
        let name = Name::parse(b"a.example").unwrap();
        let NameVerdict::Allowed { rule } = rules.judge(&name, 443) else { panic!("refused") };
        let class = AddressClass::of(address);
        let is_private = matches!(class, Some(AddressClass::Private | AddressClass::Shared));
        prop_assert!(judge_address(address, &rule).is_err() || class.is_none() || is_private);
    }
}

const RULES: &[&str] = &[
    "a.example",
    "a.example:443",
    "*.example:443,8443",
    "b.example:22",
    "x.b.example raw",
    "*.b.example:443 tls",
    "a.example:8443 http private",
    "@rust",
];
const AWAY: &[&str] = &["a.example", "*.example", "b.example:22", "*.b.example:443", "@rust"];
const NAMES: &[&str] = &["a.example", "b.example", "x.b.example", "example", "crates.io"];
