//! Work before a refusal is answered, and rules that change while a stack is served.

mod harness;

use std::sync::Arc;

use aifo_egress::{BoxFuture, ConnectionError, ConnectionEvent, NameVerdict, NetRules};
use harness::*;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, mpsc};

/// A hook that waits until `release` is notified, and sends the events.
fn hook(
    release: &Arc<Notify>,
) -> (
    impl Fn(&ConnectionEvent) -> Option<BoxFuture<()>> + Send + Sync + 'static,
    mpsc::UnboundedReceiver<ConnectionEvent>,
) {
    let (sender, called) = mpsc::unbounded_channel();
    let release = Arc::clone(release);
    let hook = move |event: &ConnectionEvent| -> Option<BoxFuture<()>> {
        sender.send(event.clone()).unwrap();
        let release = Arc::clone(&release);
        Some(Box::pin(async move { release.notified().await }))
    };
    (hook, called)
}

#[tokio::test]
async fn only_the_refused_client_waits() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let release = Arc::new(Notify::new());
    let (hook, mut called) = hook(&release);
    let rules = ["a.test:PORT", "tls.test:PORT tls"];
    let mut world = start_with(&rules, &outside, |gateway| gateway.with_refusal_hook(hook)).await;
    let refused_query = query("other.test", A);
    let connected;
    {
        let mut refused = std::pin::pin!(world.exchange(&refused_query));
        let before = tokio::select! {
            _ = &mut refused => panic!("it was answered before"),
            before = called.recv() => before.unwrap(),
        };
        assert_eq!((before.name.as_str(), before.port), ("other.test", None));
        assert_eq!(before.error, Some(ConnectionError::NoRule));
        // Other queries, connections and the same client's next query are served meanwhile.
        assert!(world.look_up("a.test").await.is_ok());
        let mut client = world.connect("a.test").await;
        let (mut host, _) = soon(listener.accept()).await.unwrap();
        host.write_all(b"hello\n").await.unwrap();
        read_until(&mut client, "hello").await;
        connected = (client, host);
        release.notify_one();
        assert_eq!(soon(refused).await[3] & 0xf, 3, "NXDOMAIN");
    }
    assert!(matches!(world.event().await.verdict, NameVerdict::Allowed { .. }));
    let reported = world.event().await;
    assert_eq!(
        (reported.name.as_str(), reported.error),
        ("other.test", Some(ConnectionError::NoRule))
    );

    // A refused connection, and one whose name has no address.
    let mut client = world.connect("tls.test").await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let before = soon(called.recv()).await.unwrap();
    assert_eq!((before.peer, before.verdict), (client.local_addr().ok(), NameVerdict::Refused));
    assert_eq!(world.count_events(), 0, "the event follows the hook");
    release.notify_one();
    assert_eq!(world.refused().await, ConnectionError::NotTls);
    read_all(&mut client).await;
    let mut unresolved = world.connect("tls.test").await;
    unresolved.write_all(&client_hello(&["tls.test"], 0)).await.unwrap();
    let before = soon(called.recv()).await.unwrap();
    assert!(matches!(before.error, Some(ConnectionError::Resolve(_))), "{before:?}");
    release.notify_one();
    assert!(matches!(world.refused().await, ConnectionError::Resolve(_)));
    assert!(called.try_recv().is_err());
    drop(connected);
}

#[tokio::test]
async fn rules_change_while_a_stack_is_served() {
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("b.test", &[PUBLIC]).server(PUBLIC, address);
    let mut gateways = Vec::new();
    let mut world = start_with(&["a.test:PORT"], &outside, |gateway| {
        gateways.push(gateway.clone());
        gateway
    })
    .await;
    assert_eq!(world.look_up("b.test").await, Err(3));
    assert_eq!(world.refused().await, ConnectionError::NoRule);
    let before = world.look_up("a.test").await.unwrap();
    let rules = NetRules::parse(&[format!("b.test:{}", world.port)]).unwrap();
    gateways[0].set_rules(Arc::new(rules));
    let _client = world.connect("b.test").await;
    soon(listener.accept()).await.unwrap();
    assert_ne!(world.look_up("b.test").await, Ok(before), "an address keeps its name");
    // The first rule is gone, also for a client that remembers the address.
    assert_eq!(world.look_up("a.test").await, Err(3));
    let mut client = tokio::net::TcpStream::connect((before, world.port)).await.unwrap();
    read_all(&mut client).await;
    let mut causes = Vec::new();
    while causes.len() < 2 {
        let event = world.event().await;
        causes.extend(event.error.map(|error| (event.name, error)));
    }
    assert_eq!(causes, ["a.test", "a.test"].map(|name| (name.to_owned(), ConnectionError::NoRule)));
}
