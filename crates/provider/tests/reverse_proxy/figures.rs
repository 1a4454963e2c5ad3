//! The time that the proxy adds to the first byte of a response, in one run with connections directly to the
//! provider. `cargo test --release -p aifo-provider --test reverse_proxy -- --ignored --nocapture figures::`

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::NO_LIMITS;
use crate::agent::Agent;
use crate::provider::{TestProvider, json};

/// Requests on each side, alternately.
const PAIRS: usize = 2000;

/// The proxy may add this to the median.
const BOUND: Duration = Duration::from_micros(300);

#[test]
#[ignore = "figures: needs a calm machine and --release"]
fn the_first_byte_is_hardly_later_than_without_the_proxy() {
    let provider = TestProvider::start(json("{\"ok\":true}"));
    let agent = Agent::start(&provider, NO_LIMITS);
    let mut direct = tls(&provider);
    let mut proxied = agent.connect();
    proxied.set_nodelay(true).unwrap();
    let request = |path: &str, host: u16, key: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost:{host}\r\nauthorization: Bearer {key}\r\n\
             accept-encoding: identity\r\ncontent-length: 2\r\n\r\n{{}}"
        )
    };
    let to_provider = request("/v1/responses", provider.port, agent.phantom("openai"));
    let to_proxy = request("/openai/v1/responses", agent.port, agent.phantom("openai"));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        without.push(first_byte(&mut direct, &to_provider));
        with.push(first_byte(&mut proxied, &to_proxy));
    }
    // Connections and certificates are the first requests'.
    let [without, with] = [without.split_off(PAIRS / 10), with.split_off(PAIRS / 10)].map(middle);
    println!("first byte: {without:?} without the proxy, {with:?} with it, median of {PAIRS}");
    assert!(with < without + BOUND);
}

fn tls(provider: &TestProvider) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(provider.certificate.path()).unwrap()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(("127.0.0.1", provider.port)).unwrap();
    stream.set_nodelay(true).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// Sends a request, and returns the time to the first byte. Reads the whole response.
fn first_byte(stream: &mut (impl Read + Write), request: &str) -> Duration {
    let begin = Instant::now();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut part, mut text, mut first) = ([0; 4096], String::new(), None);
    while !text.ends_with("{\"ok\":true}") {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{text}");
        first.get_or_insert_with(|| begin.elapsed());
        text += std::str::from_utf8(&part[..count]).unwrap();
    }
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    first.unwrap()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
