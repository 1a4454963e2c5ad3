//! A client that reaches one name, and nothing else: its stack is sockets of this program, and the world
//! outside is a server of this program.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use aifo_egress::{BoxFuture, Dial, Gateway, NetRules, Resolve, Stack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

/// The outside: every name has this address, and every address leads to the server.
#[derive(Clone, Copy)]
struct Outside(SocketAddr);

impl Resolve for Outside {
    fn resolve(&self, _: &str) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::new(93, 184, 215, 14).into()]) })
    }
}

impl Dial for Outside {
    fn dial(&self, _: SocketAddr) -> BoxFuture<io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(self.0))
    }
}

/// Asks the stack's DNS server for the address of a name.
fn lookup(server: SocketAddr, name: &str) -> io::Result<Option<Ipv4Addr>> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).map_err(io::Error::other)?);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(&query, server)?;
    let mut answer = [0; 512];
    let count = socket.recv(&mut answer)?;
    let address = answer.get(..count).and_then(|answer| answer.last_chunk::<4>());
    Ok(address.copied().map(Ipv4Addr::from).filter(|_| count > query.len()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let outside = Outside(server.local_addr()?);
    let listener = TcpListener::bind("0.0.0.0:0")?;
    let port = listener.local_addr()?.port();
    let dns_udp = UdpSocket::bind("127.0.0.1:0")?;
    let dns = dns_udp.local_addr()?;
    let dns_tcp = TcpListener::bind(dns)?;

    let rules = NetRules::parse(&[format!("registry.example:{port}")])?;
    let gateway = Gateway::new(Arc::new(rules), |event| println!("event: {event:?}"));
    let gateway = gateway.with_resolver(outside).with_dialer(outside);
    let stack = Stack { dns_udp, dns_tcp, listeners: vec![listener] };
    tokio::spawn(gateway.serve("example".to_owned(), stack));

    let other = spawn_blocking(move || lookup(dns, "other.example")).await??;
    println!("other.example has the address {other:?}");
    let address = spawn_blocking(move || lookup(dns, "registry.example")).await??;
    let mut client = TcpStream::connect((address.ok_or("no address")?, port)).await?;
    client.write_all(b"GET / HTTP/1.1\r\nHost: registry.example\r\n\r\n").await?;
    let (mut reached, _) = server.accept().await?;
    let mut request = [0; 100];
    let count = reached.read(&mut request).await?;
    println!("the server gets: {}", String::from_utf8_lossy(request.get(..count).unwrap_or(&[])));
    Ok(())
}
