//! Faults: a gateway that ends at any moment, and many stalled connections.

mod harness;

use std::io::ErrorKind;
use std::sync::Arc;

use aifo_egress::{ConnectionError, Phase};
use harness::*;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// The moment of a connection at which the gateway ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The client has connected; the gateway may not have accepted.
    Accept,
    /// The gateway has a part of the ClientHello.
    FirstBytes,
    /// The host outside does not answer.
    Dial,
    /// The connection is relayed.
    Relay,
    /// The client does not read, and the host sends more.
    Stall,
}

#[tokio::test]
async fn the_end_at_any_moment_closes_everything() {
    use Moment::*;
    for moment in [Accept, FirstBytes, Dial, Relay, Stall] {
        let (listener, address) = server().await;
        let outside = Outside::default();
        outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
        if moment == Dial {
            outside.silent(PUBLIC);
        }
        let mut world = start(&["a.test:PORT tls"], &outside).await;
        let synthetic = world.look_up("a.test").await.unwrap();
        let mut client = world.connect("a.test").await;
        let hello = client_hello(&["a.test"], 0);
        let sent = match moment {
            Accept => 0,
            FirstBytes => 20,
            Dial | Relay | Stall => hello.len(),
        };
        client.write_all(&hello[..sent]).await.unwrap();
        let host = reach(moment, &listener, &outside, &mut world).await;

        world.serving.abort();
        let _ = soon(&mut world.serving).await;
        let host_sees_end = async {
            if let Some(host) = host {
                soon(host).await.unwrap();
            }
        };
        // A reset, or the end.
        let _ = read_all(&mut client).await;
        host_sees_end.await;
        let refused = soon(TcpStream::connect((synthetic, world.port))).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{moment:?}: no listener");
        // The connection was reported once, unless it was still in the queue.
        let events: Vec<_> = std::iter::from_fn(|| world.try_event()).collect();
        let ended = events.iter().filter(|event| event.phase == Phase::Closed);
        let ended: Vec<_> = ended.map(|event| event.error.clone()).collect();
        match moment {
            Accept => assert!(ended.len() <= 1, "{events:?}"),
            _ => assert_eq!(ended, [Some(ConnectionError::GatewayEnded)], "{moment:?}"),
        }
    }
}

/// Waits for a moment; returns a task that ends with the connection outside, if there is one.
async fn reach(
    moment: Moment,
    listener: &TcpListener,
    outside: &Outside,
    world: &mut World,
) -> Option<tokio::task::JoinHandle<()>> {
    match moment {
        Moment::Accept | Moment::FirstBytes => {
            // The gateway's turn; for FirstBytes it reads what is there.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            None
        }
        Moment::Dial => {
            soon(async {
                while outside.dialled().is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            None
        }
        Moment::Relay | Moment::Stall => {
            let (mut host, _) = soon(listener.accept()).await.unwrap();
            assert_eq!(world.event().await.phase, Phase::Opened);
            Some(tokio::spawn(async move {
                if moment == Moment::Stall {
                    let block = vec![0; 1 << 20];
                    while host.write_all(&block).await.is_ok() {}
                } else {
                    read_all(&mut host).await;
                }
            }))
        }
    }
}

/// Clients that do not read: the gateway's memory is bounded, and others are served.
#[tokio::test]
async fn stalled_connections_take_bounded_memory() {
    // Four descriptors each, within a soft limit of 1,024.
    const STALLED: usize = 200;
    let (listener, address) = server().await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let world = start(&["a.test:PORT"], &outside).await;
    let block: Arc<[u8]> = vec![0; 1 << 20].into();
    let before = anonymous_memory();
    let (mut clients, mut floods) = (Vec::new(), Vec::new());
    for _ in 0..STALLED {
        clients.push(world.connect("a.test").await);
        let (mut host, _) = soon(listener.accept()).await.unwrap();
        let block = Arc::clone(&block);
        floods.push(tokio::spawn(async move { while host.write_all(&block).await.is_ok() {} }));
    }
    // Every flood is held back: the gateway serves another connection, again and again.
    for _ in 0..50 {
        let mut client = world.connect("a.test").await;
        let (mut host, _) = soon(listener.accept()).await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(read_until(&mut host, "x").await, b"x");
    }
    assert!(floods.iter().all(|flood| !flood.is_finished()));
    let grown = anonymous_memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{STALLED} stalled connections take {} KiB", grown >> 10);
    drop(clients);
    for flood in floods {
        soon(flood).await.unwrap();
    }
}

/// Returns the process's own memory in bytes.
fn anonymous_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
