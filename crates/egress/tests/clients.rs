//! Programs through a served stack: curl and openssl against a TLS server of openssl.
//!
//! A test is skipped, by name on stderr, if its programs are missing.

mod harness;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use harness::*;
use tokio::net::TcpStream;

/// Returns whether programs are there; otherwise names the skipped test.
fn has(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing =
        |program: &&&str| !std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let missing = programs.iter().find(is_missing);
    if let Some(program) = missing {
        eprintln!("{test}: skipped without {program}");
    }
    missing.is_none()
}

/// Kills the server at the end of a test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a TLS server for `a.test`, with its certificate as `ca.pem`.
async fn tls_server(dir: &Path) -> (Server, SocketAddr) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test"])
        .args(["-keyout", "key.pem", "-out", "ca.pem"])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let server = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-key", "key.pem", "-cert", "ca.pem"])
        .args(["-accept", &address.to_string()])
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    soon(async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    (server, address)
}

/// Runs a program while the gateway serves.
async fn run(mut command: Command) -> Output {
    soon(tokio::task::spawn_blocking(move || command.output().unwrap())).await.unwrap()
}

async fn curl(world: &World, dir: &Path, host: &str, url: &str) -> Output {
    let address = world.look_up("a.test").await.unwrap();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-m", "15", "--noproxy", "*", "--cacert", "ca.pem", "--resolve"])
        .arg(format!("{host}:{}:{address}", world.port))
        .arg(url.replace("PORT", &world.port.to_string()))
        .current_dir(dir);
    run(curl).await
}

#[tokio::test]
async fn curl_over_tls() {
    if !has("curl_over_tls", &["curl", "openssl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = tls_server(dir.path()).await;
    let outside = Outside::default();
    outside.name("a.test", &[PUBLIC]).server(PUBLIC, address);
    let mut world = start(&["a.test:PORT tls"], &outside).await;
    let output = curl(&world, dir.path(), "a.test", "https://a.test:PORT/").await;
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("s_server"), "{output:?}");
    assert!(world.event().await.address.is_some());
    world.event().await;

    // The address of a.test with another server name.
    let output = curl(&world, dir.path(), "evil.test", "https://evil.test:PORT/").await;
    assert_eq!(output.status.code(), Some(35), "{output:?}");
    let cause = world.refused().await;
    assert_eq!(cause.to_string(), "its ClientHello has the server name 'evil.test'");
    // Without a server name, as for an address.
    let address = world.look_up("a.test").await.unwrap();
    let output = curl(&world, dir.path(), "a.test", &format!("https://{address}:PORT/")).await;
    assert_eq!(output.status.code(), Some(35), "{output:?}");
    assert_eq!(world.refused().await.to_string(), "its ClientHello has no server name");
    assert_eq!(outside.dialled().len(), 1);
}

#[tokio::test]
async fn openssl_reads_the_cause() {
    if !has("openssl_reads_the_cause", &["openssl"]) {
        return;
    }
    let outside = Outside::default();
    let mut world = start(&["a.test:PORT tls"], &outside).await;
    let address = world.look_up("a.test").await.unwrap();
    for arguments in [&["-noservername"][..], &["-servername", "evil.test"]] {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-connect", &format!("{address}:{}", world.port)]);
        client.args(arguments).stdin(Stdio::null());
        let output = run(client).await;
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("unrecognized name"), "{arguments:?}: {text}");
        world.refused().await;
    }
    assert_eq!(outside.dialled(), []);
}

#[tokio::test]
async fn curl_over_http() {
    if !has("curl_over_http", &["curl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "").unwrap();
    let outside = Outside::default();
    outside.name("a.test", &["10.0.0.1"]);
    let mut world = start(&["a.test:PORT http"], &outside).await;
    let output = curl(&world, dir.path(), "a.test", "http://a.test:PORT/").await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, format!("aifo: a.test:{}: its address 10.0.0.1 is private\n", world.port));
    world.refused().await;
    let output = curl(&world, dir.path(), "evil.test", "http://evil.test:PORT/").await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("its request names the host 'evil.test:"), "{text}");
}
