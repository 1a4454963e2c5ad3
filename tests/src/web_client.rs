//! `aifo-coder web` and its browsers, without a browser.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{DEADLINE, Signal, send_signal};

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct WebServer {
    child: Child,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its host name with the port.
    pub host: String,
    /// The secret of its first link.
    pub secret: String,
}

/// A signed-in browser.
#[derive(Clone, Debug)]
pub struct WebBrowser {
    /// The server port.
    pub port: u16,
    /// The value of `Host`.
    pub host: String,
    /// The value of `Cookie`.
    pub cookie: String,
    /// The page key.
    pub key: String,
}

/// A response.
#[derive(Debug)]
pub struct WebAnswer {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebEvent {
    /// Its name, `""` if it has none.
    pub name: String,
    /// Its id, `""` if it has none.
    pub id: String,
    /// Its data.
    pub data: String,
}

/// An open stream of events.
#[derive(Debug)]
pub struct WebStream {
    reader: BufReader<TcpStream>,
    status: u16,
    /// Decoded bytes that are not a whole event.
    rest: Vec<u8>,
    /// Bytes of the current chunk that are unread.
    chunk: usize,
}

/// What a page shows, as `blocks.js` and `stream.js` do.
#[derive(Clone, Debug, Default)]
pub struct WebPage {
    /// HTML by key.
    pub shown: BTreeMap<String, String>,
    /// The last event's id.
    pub last: String,
    /// The server's start.
    pub instance: String,
    /// True if it is up to date.
    pub is_synced: bool,
    stale: BTreeSet<String>,
}

/// Returns a port that is free now.
#[track_caller]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

impl WebServer {
    /// Starts a server and waits for its link.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{e}: {command:?}"));
        let stdout = child.stdout.take().expect("it is a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let link = line.trim().strip_prefix("http").unwrap_or_else(|| panic!("no link: {line:?}"));
        let link = link.trim_start_matches('s').trim_start_matches("://");
        let (host, secret) = link.split_once("/#").unwrap_or_else(|| panic!("no link: {line:?}"));
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
        WebServer { child, port, host: host.to_owned(), secret: secret.to_owned() }
    }

    /// Signs a browser in with the first link.
    #[track_caller]
    pub fn sign_in(&self) -> WebBrowser {
        WebBrowser::sign_in(self.port, &self.host, &self.secret)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Sends a signal and waits for the end.
    #[track_caller]
    pub fn end_by(mut self, signal: Signal) -> ExitStatus {
        send_signal(self.pid(), signal);
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return status;
            }
            assert!(begin.elapsed() < DEADLINE, "the server did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it at once.
    #[track_caller]
    pub fn kill(self) {
        let status = self.end_by(Signal::SIGKILL);
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl WebBrowser {
    /// Exchanges a link's secret.
    #[track_caller]
    pub fn sign_in(port: u16, host: &str, secret: &str) -> Self {
        let answer = request(port, "POST", "/sign-in", &[("Host", host)], secret.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.headers["set-cookie"].split(';').next().unwrap_or_default().to_owned();
        let key = answer.json()["key"].as_str().expect("a key").to_owned();
        WebBrowser { port, host: host.to_owned(), cookie, key }
    }

    /// The headers of a signed-in page.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        vec![("Host", &self.host), ("Cookie", &self.cookie), ("X-Aifo-Key", &self.key)]
    }

    /// Sends a request.
    #[track_caller]
    pub fn get(&self, path: &str) -> WebAnswer {
        request(self.port, "GET", path, &self.headers(), b"")
    }

    /// Sends a command with an idempotency key.
    #[track_caller]
    pub fn post_as(&self, key: &str, path: &str, body: &Value) -> WebAnswer {
        let mut headers = self.headers();
        headers.push(("Idempotency-Key", key));
        request(self.port, "POST", path, &headers, body.to_string().as_bytes())
    }

    /// Sends a command with a new idempotency key, which must succeed.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.post_as(&format!("request-{}", crate::fresh_id()), path, body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Creates a session and returns its id.
    #[track_caller]
    pub fn new_session(&self) -> String {
        self.post("/api/sessions", &Value::Null)["session"].as_str().expect("an id").to_owned()
    }

    /// Sends a prompt.
    #[track_caller]
    pub fn prompt(&self, session: &str, text: &str) {
        self.post(&format!("/api/sessions/{session}/prompt"), &serde_json::json!({"text": text}));
    }

    /// Opens a stream.
    #[track_caller]
    pub fn stream(&self, path: &str, last: &str) -> WebStream {
        let mut headers = self.headers();
        if !last.is_empty() {
            headers.push(("Last-Event-ID", last));
        }
        WebStream::open(self.port, path, &headers)
    }

    /// Opens the stream of a page where it stopped.
    #[track_caller]
    pub fn page_stream(&self, session: &str, page: &WebPage) -> WebStream {
        let instance = match page.instance.as_str() {
            "" => String::new(),
            instance => format!("&instance={instance}"),
        };
        self.stream(&format!("/api/stream?session={session}{instance}"), &page.last)
    }

    /// Reads a page until this condition holds when it is up to date.
    #[track_caller]
    pub fn page_when(
        &self,
        session: &str,
        what: &str,
        holds: impl Fn(&WebPage) -> bool,
    ) -> WebPage {
        self.page_of(&format!("/api/stream?session={session}"), what, holds)
    }

    /// Reads the page of a stream until this condition holds when it is up to date.
    #[track_caller]
    pub fn page_of(&self, path: &str, what: &str, holds: impl Fn(&WebPage) -> bool) -> WebPage {
        let mut page = WebPage::default();
        let mut stream = self.stream(path, "");
        let begin = Instant::now();
        loop {
            let event = stream.next().unwrap_or_else(|| panic!("the stream ended: {page:?}"));
            page.apply(&event);
            if page.is_synced && holds(&page) {
                return page;
            }
            assert!(begin.elapsed() < DEADLINE, "{what}: {page:?}");
        }
    }

    /// A snapshot of a page.
    #[track_caller]
    pub fn snapshot(&self, session: &str) -> WebPage {
        self.page_when(session, "a snapshot", |_| true)
    }
}

impl WebAnswer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

impl WebPage {
    /// Applies an event.
    pub fn apply(&mut self, event: &WebEvent) {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.name.as_str() {
            "hello" => self.instance = data["instance"].as_str().unwrap_or_default().to_owned(),
            "reset" => {
                self.stale = self.shown.keys().cloned().collect();
                self.is_synced = false;
            }
            "synced" => {
                for key in std::mem::take(&mut self.stale) {
                    self.shown.remove(&key);
                }
                self.is_synced = true;
                if self.last.is_empty() {
                    self.last.clone_from(&event.data);
                }
            }
            _ => {
                let key = data["key"].as_str().unwrap_or_default();
                self.stale.remove(key);
                self.is_synced = false;
                match data["html"].as_str() {
                    Some(html) => _ = self.shown.insert(key.to_owned(), html.to_owned()),
                    None => _ = self.shown.remove(key),
                }
            }
        }
        if !event.id.is_empty() {
            self.last.clone_from(&event.id);
        }
    }

    /// The HTML of a region's keys in the order of their numbers.
    pub fn region(&self, name: &str) -> String {
        let numbers = |key: &str| -> Option<Vec<u64>> {
            let rest = key.strip_prefix(name)?.strip_prefix('.')?;
            rest.split('.').map(|number| number.parse().ok()).collect()
        };
        let mut found: Vec<(Vec<u64>, &str)> = self
            .shown
            .iter()
            .filter_map(|(key, html)| Some((numbers(key)?, html.as_str())))
            .collect();
        found.sort();
        found.into_iter().map(|(_, html)| html).collect()
    }

    /// Returns whether the session has no turn.
    pub fn is_idle(&self) -> bool {
        self.region("status").contains("data-state=\"idle\"")
    }
}

impl WebStream {
    /// Opens a stream with these headers.
    #[track_caller]
    pub fn open(port: u16, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = connect(port);
        stream.write_all(&head("GET", path, headers, None)).expect("a request");
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader);
        WebStream { reader, status, rest: Vec::new(), chunk: 0 }
    }

    /// The status of the response.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Reads at most so many bytes of events into a page, and no longer than there are any, then
    /// cuts the connection.
    pub fn cut_after(mut self, bytes: usize, page: &mut WebPage) {
        let pause = Some(Duration::from_millis(10));
        self.reader.get_ref().set_read_timeout(pause).expect("a timeout");
        let mut left = bytes;
        while left > 0 {
            let Some(read) = self.read_some(left) else { break };
            left = left.saturating_sub(read);
            while let Some(at) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.rest.drain(..at + 2).collect();
                let event = WebEvent::parse(&String::from_utf8_lossy(&text));
                if !event.data.is_empty() {
                    page.apply(&event);
                }
            }
        }
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }

    /// Decodes a part of a chunk. `None` at the end.
    fn read_some(&mut self, most: usize) -> Option<usize> {
        if self.chunk == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            if line == "\r\n" {
                line.clear();
                self.reader.read_line(&mut line).ok()?;
            }
            self.chunk = usize::from_str_radix(line.trim(), 16).ok().filter(|size| *size > 0)?;
        }
        let mut buffer = vec![0; self.chunk.min(most).min(64 * 1024)];
        let read = match self.reader.read(&mut buffer) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Some(0),
            Err(_) => return None,
        };
        self.chunk -= read;
        self.rest.extend_from_slice(buffer.get(..read)?);
        Some(read)
    }
}

/// The events, without comments.
impl Iterator for WebStream {
    type Item = WebEvent;

    fn next(&mut self) -> Option<WebEvent> {
        loop {
            if let Some(at) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.rest.drain(..at + 2).collect();
                let event = WebEvent::parse(&String::from_utf8_lossy(&text));
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            self.read_some(usize::MAX)?;
        }
    }
}

impl WebEvent {
    fn parse(text: &str) -> Self {
        let mut event = WebEvent::default();
        for line in text.lines() {
            if let Some(data) = line.strip_prefix("data: ") {
                event.data.push_str(data);
            } else if let Some(name) = line.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = id.to_owned();
            }
        }
        event
    }
}

/// Sends a request with exactly these headers.
#[track_caller]
pub fn request(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> WebAnswer {
    let mut stream = connect(port);
    stream.write_all(&head(method, path, headers, Some(body.len()))).expect("a request");
    // A refused body may be left unread.
    let _ = stream.write_all(body);
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader);
    let mut body = Vec::new();
    match headers.get("content-length").and_then(|length| length.parse().ok()) {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).expect("a whole body");
        }
        None => _ = reader.read_to_end(&mut body),
    }
    WebAnswer { status, headers, body }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream
}

fn head(method: &str, path: &str, headers: &[(&str, &str)], length: Option<usize>) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length {
        head.push_str(&format!("Content-Length: {length}\r\nConnection: close\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[track_caller]
fn read_head(reader: &mut impl BufRead) -> (u16, BTreeMap<String, String>) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {line:?}"));
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    (status, headers)
}
