//! Permitted connections through a served stack.

mod harness;

use std::time::Duration;

use aifo_egress::{ConnectionError, Limits, NameVerdict, ParentProxy, Phase};
use harness::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn tls_passes_end_to_end() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT tls"], &outside).await;
    let mut client = world.connect("a.test").await;
    let hello = client_hello(&["a.test"], 300);
    client.write_all(&hello[..40]).await.unwrap();
    client.write_all(&hello[40..]).await.unwrap();
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    let mut received = vec![0; hello.len()];
    soon(host.read_exact(&mut received)).await.unwrap();
    assert_eq!(received, hello);
    let opened = world.event().await;
    assert_eq!(opened.phase, Phase::Opened);
    assert_eq!((opened.name.as_str(), opened.port), ("a.test", Some(world.port)));
    assert_eq!(opened.stack, "tools");
    assert_eq!(opened.peer, Some(client.local_addr().unwrap()));
    assert_eq!(opened.address, Some(format!("{PUBLIC}:{}", world.port).parse().unwrap()));
    assert_eq!(opened.verdict.to_string(), format!("allowed by 'a.test:{} tls'", world.port));

    // Each side closes its half.
    client.write_all(b"ping").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut host).await, b"ping");
    host.write_all(b"pong").await.unwrap();
    host.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, b"pong");
    let closed = world.event().await;
    assert_eq!((closed.phase, closed.id), (Phase::Closed, opened.id));
    assert_eq!((closed.sent, closed.received), (hello.len() as u64 + 4, 4));
    assert_eq!(closed.error, None);
    assert!(matches!(closed.verdict, NameVerdict::Allowed { .. }));
}

#[tokio::test]
async fn a_host_may_speak_first_without_inspection() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("git.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["git.test:PORT"], &outside).await;
    let mut client = world.connect("git.test").await;
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    host.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    assert_eq!(read_until(&mut client, "\n").await, b"SSH-2.0-test\r\n");
    // The host closes first; the client may still send.
    host.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, b"");
    client.write_all(b"late").await.unwrap();
    drop(client);
    assert_eq!(read_all(&mut host).await, b"late");
}

#[tokio::test]
async fn bulk_passes_unchanged_in_both_directions() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["a.test:PORT"], &outside).await;
    let client = world.connect("a.test").await;
    let (host, _) = soon(listener.accept()).await.unwrap();
    let data: Vec<u8> = (0..8_000_000_u32).map(|index| (index % 251) as u8).collect();
    let exchange = |stream: TcpStream, data: Vec<u8>| async move {
        let (mut read, mut write) = stream.into_split();
        let writing = tokio::spawn(async move {
            write.write_all(&data).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        read.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        received
    };
    let reversed: Vec<u8> = data.iter().rev().copied().collect();
    let (to_client, to_host) = soon(async {
        tokio::join!(exchange(client, data.clone()), exchange(host, reversed.clone()))
    })
    .await;
    assert!(to_client == reversed && to_host == data);
}

#[tokio::test]
async fn http_serves_one_request() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT http"], &outside).await;
    let mut client = world.connect("a.test").await;
    let port = world.port;
    let head = format!("POST /x HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 6\r\n");
    client.write_all(format!("{head}Connection: keep-alive\r\n\r\nabc").as_bytes()).await.unwrap();
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    let received = read_until(&mut host, "abc").await;
    assert_eq!(String::from_utf8(received).unwrap(), format!("{head}Connection: close\r\n\r\nabc"));
    client.write_all(b"def").await.unwrap();
    assert_eq!(read_until(&mut host, "def").await, b"def");
    host.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").await.unwrap();
    drop(host);
    let response = read_all(&mut client).await;
    assert!(response.ends_with(b"\r\n\r\nhello"));
    drop(client);
    assert_eq!(world.event().await.phase, Phase::Opened);
    assert_eq!(world.event().await.error, None);
}

#[tokio::test]
async fn a_response_without_end_does_not_wait_after_a_second_request() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let limits = Limits { response_idle: Duration::from_millis(50), ..Limits::default() };
    let mut world =
        start_with(&["a.test:PORT http"], &outside, |gateway| gateway.with_limits(limits)).await;
    let mut client = world.connect("a.test").await;
    let request = format!("GET / HTTP/1.1\r\nHost: a.test:{}\r\n\r\n", world.port);
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    read_until(&mut host, "\r\n\r\n").await;
    // A server that ignores `Connection: close`.
    host.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    read_until(&mut client, "ok").await;
    assert_eq!(world.event().await.phase, Phase::Opened);
    client.write_all(request.as_bytes()).await.unwrap();
    read_all(&mut client).await;
    assert_eq!(read_all(&mut host).await, b"");
    let closed = world.event().await;
    assert_eq!(closed.error, Some(ConnectionError::HalfClosed(limits.response_idle)));
}

#[tokio::test]
async fn a_half_closed_connection_ends_when_it_is_idle() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let limits = Limits { half_closed: Duration::from_millis(50), ..Limits::default() };
    let mut world =
        start_with(&["a.test:PORT"], &outside, |gateway| gateway.with_limits(limits)).await;
    let mut client = world.connect("a.test").await;
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut host).await, b"");
    assert_eq!(world.event().await.error, Some(ConnectionError::HalfClosed(limits.half_closed)));
}

#[tokio::test]
async fn a_stalled_client_holds_no_other() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["a.test:PORT"], &outside).await;
    let stalled = world.connect("a.test").await;
    let (mut flooding, _) = soon(listener.accept()).await.unwrap();
    let flood = tokio::spawn(async move {
        let chunk = vec![0; 1 << 20];
        while flooding.write_all(&chunk).await.is_ok() {}
    });
    for _ in 0..20 {
        let mut client = world.connect("a.test").await;
        let (mut host, _) = soon(listener.accept()).await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(read_until(&mut host, "x").await, b"x");
    }
    assert!(!flood.is_finished(), "the host is held by back-pressure");
    drop(stalled);
    soon(flood).await.unwrap();
}

#[tokio::test]
async fn an_early_response_arrives_while_the_client_still_sends() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT"], &outside).await;
    let client = world.connect("a.test").await;
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    let (mut read, mut write) = client.into_split();
    let sending = tokio::spawn(async move {
        let chunk = vec![0; 1 << 20];
        while write.write_all(&chunk).await.is_ok() {}
    });
    let mut some = vec![0; 1000];
    soon(host.read_exact(&mut some)).await.unwrap();
    host.write_all(b"413 too large").await.unwrap();
    host.shutdown().await.unwrap();
    let mut response = Vec::new();
    soon(read.read_to_end(&mut response)).await.unwrap();
    assert_eq!(response, b"413 too large");
    drop(host);
    soon(sending).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    assert_eq!(world.event().await.received, 13);
}

#[tokio::test]
async fn a_reset_is_relayed() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT"], &outside).await;
    let mut client = world.connect("a.test").await;
    let (host, _) = soon(listener.accept()).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    host.set_zero_linger().unwrap();
    drop(host);
    let error = soon(client.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(matches!(world.event().await.error, Some(ConnectionError::Broken(_))));
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["a.test:PORT"], &outside).await;
    let mut pairs = Vec::new();
    for _ in 0..200 {
        let client = world.connect("a.test").await;
        pairs.push((client, soon(listener.accept()).await.unwrap().0));
    }
    for (index, (client, host)) in pairs.iter_mut().enumerate() {
        let text = format!("<{index}>");
        host.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(read_until(client, ">").await, text.as_bytes());
    }
}

#[tokio::test]
async fn further_addresses_are_dialled() {
    let (_listener, address) = server().await;
    let outside = Outside::default();
    outside.name("refused.test", &["93.184.216.1", PUBLIC]).server(PUBLIC, address);
    outside.name("silent.test", &["93.184.216.2", PUBLIC]).silent("93.184.216.2");
    let rules = ["refused.test:PORT", "silent.test:PORT"];
    for name in ["refused.test", "silent.test"] {
        let mut world = start(&rules, &outside).await;
        let _client = world.connect(name).await;
        let opened = world.event().await;
        assert_eq!(opened.address.unwrap().ip().to_string(), PUBLIC, "{name}");
    }
    let dialled: Vec<String> =
        outside.dialled().iter().map(|address| address.ip().to_string()).collect();
    assert_eq!(dialled, ["93.184.216.1", PUBLIC, "93.184.216.2", PUBLIC]);
}

#[tokio::test]
async fn failures_are_answered() {
    let outside = Outside::default();
    outside.name("down.test", &[PUBLIC]);
    let rules = ["down.test:PORT tls", "none.test:PORT http"];
    let mut world = start(&rules, &outside).await;
    let (cause, alert) = world.send_refused("down.test", &client_hello(&["down.test"], 0)).await;
    assert!(matches!(cause, ConnectionError::Connect(_)), "{cause}");
    assert_eq!(alert, [21, 3, 1, 0, 2, 2, 80]);
    let request = format!("GET / HTTP/1.1\r\nHost: none.test:{}\r\n\r\n", world.port);
    let (cause, response) = world.send_refused("none.test", request.as_bytes()).await;
    assert_eq!(cause.to_string(), "cannot resolve it: no such name");
    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{response}");
    let text = format!("aifo: none.test:{}: cannot resolve it: no such name\n", world.port);
    assert!(response.ends_with(&text), "{response}");
}

#[tokio::test]
async fn dns_is_answered_over_tcp() {
    let world = start(&["a.test:PORT", "*.b.test:PORT"], &Outside::default()).await;
    let mut dns = world.connect_dns().await;
    // Two queries in pieces, and an address that stays.
    let one = world.look_up("x.b.test").await.unwrap();
    for name in ["a.test", "x.b.test"] {
        let query = query(name, A);
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        for piece in framed.chunks(7) {
            dns.write_all(piece).await.unwrap();
        }
        let mut response = vec![0; 2 + query.len() + 16];
        soon(dns.read_exact(&mut response)).await.unwrap();
        assert_eq!(usize::from(response[1]), response.len() - 2);
        let address = &response[response.len() - 4..];
        assert_eq!(address == one.octets(), name == "x.b.test", "{name} {address:?}");
    }
}

#[tokio::test]
async fn a_parent_proxy_is_asked_by_name() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("proxy.test", &["10.0.0.9"]).server("10.0.0.9", address);
    outside.name("direct.test", &[PUBLIC]);
    let parent = ParentProxy::parse("http://me:secret@proxy.test:3128").unwrap();
    let parent = parent.with_bypass("direct.test");
    let mut world =
        start_with(&["a.test:PORT", "no.test:PORT tls", "direct.test:PORT"], &outside, |gateway| {
            gateway.with_parent_proxy(parent)
        })
        .await;
    let mut client = world.connect("a.test").await;
    let (mut proxy, _) = soon(listener.accept()).await.unwrap();
    let request = String::from_utf8(read_until(&mut proxy, "\r\n\r\n").await).unwrap();
    assert!(request.starts_with(&format!("CONNECT a.test:{} HTTP/1.1\r\n", world.port)));
    assert!(request.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"));
    proxy.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst").await.unwrap();
    assert_eq!(read_until(&mut client, "first").await, b"first");
    client.write_all(b"ping").await.unwrap();
    assert_eq!(read_until(&mut proxy, "ping").await, b"ping");
    let opened = world.event().await;
    assert!(opened.via_parent && opened.address.is_none(), "{opened:?}");
    assert!(!format!("{opened:?}").contains("secret"));
    assert_eq!(outside.resolved(), ["proxy.test"]);
    assert_eq!(outside.dialled(), ["10.0.0.9:3128".parse().unwrap()]);
    drop((client, proxy));
    assert_eq!(world.event().await.received, 5);

    // The proxy refuses.
    let mut client = world.connect("no.test").await;
    client.write_all(&client_hello(&["no.test"], 0)).await.unwrap();
    let (mut proxy, _) = soon(listener.accept()).await.unwrap();
    read_until(&mut proxy, "\r\n\r\n").await;
    proxy.write_all(b"HTTP/1.1 407 Login\r\n\r\n").await.unwrap();
    let cause = world.refused().await;
    assert_eq!(cause.to_string(), "the parent proxy answered with status 407");
    assert_eq!(read_all(&mut client).await, [21, 3, 1, 0, 2, 2, 80]);

    // This name bypasses it.
    let _client = world.connect("direct.test").await;
    assert!(matches!(world.refused().await, ConnectionError::Connect(_)));
    assert_eq!(outside.dialled().last().unwrap().ip().to_string(), PUBLIC);
}

/// `http_proxy` alone: other protocols are dialled directly.
#[tokio::test]
async fn a_request_proxy_serves_only_requests() {
    let (proxy, proxy_address) = server().await;
    let (direct, direct_address) = server().await;
    let outside = Outside::default();
    outside.server("10.0.0.9", proxy_address);
    outside.name("b.test", &[PUBLIC]);
    outside.server(PUBLIC, direct_address);
    let parent = ParentProxy::parse("http://10.0.0.9:3128").unwrap();
    let rules = ["a.test:PORT http", "b.test:PORT raw"];
    let mut world =
        start_with(&rules, &outside, |gateway| gateway.with_request_proxy(parent)).await;
    let mut client = world.connect("a.test").await;
    let host = format!("a.test:{}", world.port);
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut accepted, _) = soon(proxy.accept()).await.unwrap();
    let received = String::from_utf8(read_until(&mut accepted, "\r\n\r\n").await).unwrap();
    assert!(received.starts_with(&format!("GET http://{host}/ HTTP/1.1\r\n")), "{received}");
    let opened = world.event().await;
    assert!(opened.via_parent, "{opened:?}");
    let mut client = world.connect("b.test").await;
    client.write_all(b"raw").await.unwrap();
    let (mut accepted, _) = soon(direct.accept()).await.unwrap();
    assert_eq!(read_until(&mut accepted, "raw").await, b"raw");
    let opened = world.event().await;
    assert!(!opened.via_parent && opened.address.is_some(), "{opened:?}");
}

/// A proxy that permits CONNECT only to port 443 serves plain requests.
#[tokio::test]
async fn a_parent_proxy_gets_plain_requests() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.server("10.0.0.9", address);
    let parent = ParentProxy::parse("http://me:secret@10.0.0.9:3128").unwrap();
    let mut world =
        start_with(&["a.test:PORT http"], &outside, |gateway| gateway.with_parent_proxy(parent))
            .await;
    let mut client = world.connect("a.test").await;
    let host = format!("a.test:{}", world.port);
    let second = "GET /second HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let request =
        format!("POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody{second}");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut proxy, _) = soon(listener.accept()).await.unwrap();
    let received = String::from_utf8(read_until(&mut proxy, "body").await).unwrap();
    let expected = format!(
        "POST http://{host}/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nConnection: close\r\n\
         Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\nbody"
    );
    assert_eq!(received, expected);
    proxy.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    assert!(read_until(&mut client, "ok").await.starts_with(b"HTTP/1.1 200 OK"));
    let opened = world.event().await;
    assert!(opened.via_parent && opened.address.is_none(), "{opened:?}");
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut proxy).await, b"", "no second request");
    drop(proxy);
    assert_eq!(world.event().await.error, None);
    // Another host is refused before the proxy is dialled.
    let request = format!("GET http://evil.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let (cause, _) = world.send_refused("a.test", request.as_bytes()).await;
    assert!(cause.to_string().contains("names the host"), "{cause}");
    assert_eq!(outside.dialled().len(), 1);
}

#[tokio::test]
async fn the_end_of_serving_closes_everything() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT"], &outside).await;
    let synthetic = world.look_up("a.test").await.unwrap();
    let mut client = world.connect("a.test").await;
    let (mut host, _) = soon(listener.accept()).await.unwrap();
    assert_eq!(world.event().await.phase, Phase::Opened);
    world.serving.abort();
    assert!(soon(&mut world.serving).await.unwrap_err().is_cancelled());
    let closed = world.event().await;
    assert_eq!(closed.error, Some(ConnectionError::GatewayEnded));
    assert_eq!(read_all(&mut client).await, b"");
    assert_eq!(read_all(&mut host).await, b"");
    let refused = soon(TcpStream::connect((synthetic, world.port))).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
