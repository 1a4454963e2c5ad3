//! A git server over HTTP, which requires a login for pushes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Serves the bare repositories of a directory. Everyone can fetch.
#[derive(Debug)]
pub struct GitServer {
    url: String,
}

#[derive(Clone)]
struct Repositories {
    directory: PathBuf,
    /// The value of `Authorization` that a push needs.
    login: String,
}

impl GitServer {
    /// Starts a server at this machine's address, where containers reach it too. `login` is the base64 text of
    /// HTTP Basic authentication.
    pub fn start(directory: &Path, login: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let directory = directory.to_owned();
        let repositories = Repositories { directory, login: format!("Basic {login}") };
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let repositories = repositories.clone();
                thread::spawn(move || repositories.serve(&stream));
            }
        });
        GitServer { url: format!("http://{}:{port}", own_address()) }
    }

    /// A repository URL.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }
}

/// The address of this machine's default route.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
    // Nothing is sent.
    socket.connect("192.0.2.1:9").expect("this machine has a route");
    socket.local_addr().expect("it is connected").ip()
}

impl Repositories {
    /// Answers one request; `None` if the client ends before.
    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            (&mut reader).take(8 << 10).read_line(&mut line).ok()?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let field = |name: &str| {
            lines.iter().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then_some(value)
            })
        };
        let target = lines.first()?.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (repository, service) = match path.strip_suffix("/info/refs") {
            Some(repository) => (repository, query.strip_prefix("service=git-")?),
            None => path.rsplit_once("/git-")?,
        };
        let is_push = service == "receive-pack";
        let (status, content_type, body) = if is_push && field("authorization") != Some(&self.login)
        {
            ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"", String::new(), Vec::new())
        } else {
            let length = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            let mut input = vec![0; length];
            reader.read_exact(&mut input).ok()?;
            let directory = self.directory.join(repository.trim_start_matches('/'));
            let is_list = query.starts_with("service=");
            let output = run(service, &directory, is_list, &input)?;
            let kind = if is_list { "advertisement" } else { "result" };
            ("200 OK", format!("application/x-git-{service}-{kind}"), output)
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()
    }
}

/// Runs `git upload-pack` or `git receive-pack` for one request.
fn run(service: &str, repository: &Path, is_list: bool, input: &[u8]) -> Option<Vec<u8>> {
    let mut git = Command::new("git");
    git.args([service, "--stateless-rpc"]).args(is_list.then_some("--advertise-refs"));
    git.arg(repository).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut git = git.env("GIT_CONFIG_GLOBAL", "/dev/null").spawn().ok()?;
    git.stdin.take()?.write_all(input).ok()?;
    let output = git.wait_with_output().ok()?.stdout;
    let line = format!("# service=git-{service}\n");
    let head = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    Some(if is_list { [head, output].concat() } else { output })
}
