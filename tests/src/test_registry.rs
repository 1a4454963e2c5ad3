//! A registry of container images on localhost, with the requests of a push.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A registry without TLS. It keeps manifests, and discards the content of layers.
pub struct TestRegistry {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Required as the value of `Authorization`.
    login: Option<String>,
    blobs: Vec<String>,
    /// The size of each manifest by its path, `/v2/NAME/manifests/TAG`.
    manifests: HashMap<String, usize>,
}

impl TestRegistry {
    /// Starts a registry at a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        TestRegistry { address, state }
    }

    /// Its host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Demands HTTP Basic authentication with this base64 text from now on.
    pub fn require_login(&self, basic: &str) {
        lock(&self.state).login = Some(format!("Basic {basic}"));
    }

    /// The names and tags that were pushed, sorted: `team/image:tag`.
    pub fn images(&self) -> Vec<String> {
        let state = lock(&self.state);
        let paths = state.manifests.iter().filter(|(_, size)| **size > 0).map(|(path, _)| path);
        let name = |path: &String| path.trim_start_matches("/v2/").replace("/manifests/", ":");
        let mut names: Vec<_> = paths.map(name).filter(|name| !name.contains("sha256:")).collect();
        names.sort();
        names
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request; `None` at the end of the connection.
fn serve(mut stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(8 << 10).read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match (read, line.is_empty()) {
            (0, _) => return None,
            (_, true) => break,
            _ => lines.push(line),
        }
        // TLS is answered in plain text, as other servers do.
        if lines.len() == 1 && !lines.first()?.contains(" HTTP/1.") {
            _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
            return None;
        }
    }
    let header = |name: &str| {
        let header = lines.iter().filter_map(|line| line.split_once(": "));
        header.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    };
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let size = match header("transfer-encoding") {
        Some(_) => chunks(&mut reader)?,
        None => skip(&mut reader, header("content-length").map_or(Some(0), |it| it.parse().ok())?)?,
    };
    let mut state = lock(state);
    if state.login.is_some() && header("authorization") != state.login.as_deref() {
        return answer(stream, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let digest = query.split('&').find_map(|pair| pair.strip_prefix("digest="));
    let (status, headers) = match method {
        "GET" if path == "/v2/" => ("200 OK", String::new()),
        "HEAD" if path.contains("/blobs/") => {
            let known = path
                .rsplit('/')
                .next()
                .is_some_and(|it| state.blobs.iter().any(|known| known == it));
            (if known { "200 OK" } else { "404 Not Found" }, String::new())
        }
        "HEAD" | "GET" => ("404 Not Found", String::new()),
        "POST" => ("202 Accepted", format!("Location: {path}1\r\nRange: 0-0\r\n")),
        "PATCH" => ("202 Accepted", format!("Location: {path}\r\nRange: 0-{size}\r\n")),
        "PUT" if path.contains("/blobs/") => {
            let digest = digest.unwrap_or_default().replace("%3A", ":");
            state.blobs.push(digest.clone());
            ("201 Created", format!("Location: {path}\r\nDocker-Content-Digest: {digest}\r\n"))
        }
        "PUT" => {
            state.manifests.insert(path.to_owned(), size);
            // Docker requires a digest, and does not compare it.
            let digest = format!("Docker-Content-Digest: sha256:{:064}\r\n", 0);
            ("201 Created", format!("Location: {path}\r\n{digest}"))
        }
        _ => ("405 Method Not Allowed", String::new()),
    };
    answer(stream, status, &headers)
}

fn answer(mut stream: &TcpStream, status: &str, headers: &str) -> Option<()> {
    let version = "Docker-Distribution-Api-Version: registry/2.0\r\n";
    let text = format!("HTTP/1.1 {status}\r\n{version}{headers}Content-Length: 0\r\n\r\n");
    stream.write_all(text.as_bytes()).ok()
}

/// Reads a chunked body and returns its size.
fn chunks(reader: &mut impl BufRead) -> Option<usize> {
    let mut all = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
        // The line end after each chunk, and after the last.
        skip(reader, size + 2)?;
        all += size;
        if size == 0 {
            return Some(all);
        }
    }
}

fn skip(reader: &mut impl BufRead, size: usize) -> Option<usize> {
    let copied = std::io::copy(&mut reader.take(size as u64), &mut std::io::sink()).ok()?;
    (copied == size as u64).then_some(size)
}
