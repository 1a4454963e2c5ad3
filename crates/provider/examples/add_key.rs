//! A client without a key asks a model provider, here a server in this program, through the reverse proxy.

use std::future::{Future, ready};
use std::pin::Pin;

use aifo_egress::Connector;
use aifo_provider::{
    FreshKey, Key, KeySource, Provider, ReverseProxy, Upstream, UpstreamUrl, UsageLimits,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The user's key, wherever it is kept.
struct FromUser;

impl KeySource for FromUser {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        let key = Key::parse("sk-of-the-user").map_err(|error| error.to_string());
        Box::pin(ready(key.map(|key| FreshKey { key, lifetime: None })))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = TcpListener::bind("127.0.0.1:0").await?;
    let url = UpstreamUrl::parse(&format!("http://{}", provider.local_addr()?))?;
    tokio::spawn(async move {
        let (mut client, _) = provider.accept().await?;
        let mut request = vec![0; 4096];
        let count = client.read(&mut request).await?;
        println!("the provider gets:\n{}", String::from_utf8_lossy(&request[..count]));
        client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await
    });

    let openai = Provider::of("openai").ok_or("no such provider")?;
    let upstream = Upstream::new("openai", openai, Some(url), Box::new(FromUser))?;
    let phantom = upstream.phantom().as_str().to_owned();
    let no_limits = UsageLimits { requests: None, tokens: None };
    let proxy = ReverseProxy::new(vec![upstream], Connector::new(None), &[], no_limits);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut client = TcpStream::connect(address).await?;
    let request = format!(
        "POST /openai/v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer \
         {phantom}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    client.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tokio::select! {
        () = proxy.serve(listener) => {}
        read = client.read_to_string(&mut answer) => { read?; }
    }
    println!("the client, which has {phantom}, gets:\n{answer}");
    Ok(())
}
