//! A running `aifo-coder serve` with its directories.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::procfs::{in_containers, numbered_in_containers};
use crate::{
    Address, Answer, Backend, Connection, Request, Scratch, SessionSetup, Sidecar, Signal,
    binaries, descendants, eventually, send_signal,
};

/// A session for one test. Drop sends SIGTERM, then SIGKILL, then removes the directories.
#[derive(Debug)]
pub struct Session {
    // Fields drop in order, after `drop` below: the directories outlive the process.
    serve: Child,
    url: String,
    token: String,
    address: Address,
    kinds: usize,
    scratch: Scratch,
}

impl Session {
    /// Starts a session with the defaults of [`SessionSetup::new`].
    #[track_caller]
    pub fn start() -> Self {
        SessionSetup::new().start()
    }

    #[track_caller]
    pub(crate) fn spawn(mut serve: Command, scratch: Scratch, kinds: usize) -> Self {
        let (out, log) = (scratch.path().join("serve.out"), scratch.path().join("serve.log"));
        serve.stdout(File::create(&out).expect("the scratch directory is writable"));
        serve.stderr(File::create(&log).expect("the scratch directory is writable"));
        let mut serve = serve.spawn().expect("aifo-coder can be started");
        let mut said = String::new();
        eventually("serve prints its address", || {
            said = fs::read_to_string(&out).unwrap_or_default();
            if let Ok(Some(status)) = serve.try_wait() {
                let log = fs::read_to_string(&log).unwrap_or_default();
                panic!("serve ended with {status} at start: {log}");
            }
            said.ends_with('\n') && said.lines().count() >= 3
        });
        let value = |name: &str| {
            let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("serve did not print {name}: {said}")).to_owned()
        };
        let (url, token) = (value("AIFO_TOOLEEXEC_URL"), value("AIFO_TOOLEEXEC_TOKEN"));
        let address = Address::parse(&url).unwrap_or_else(|| panic!("invalid URL '{url}'"));
        Session { serve, url, token, address, kinds, scratch }
    }

    /// `AIFO_TOOLEEXEC_URL`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `AIFO_TOOLEEXEC_TOKEN`
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The proxy address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The project directory by its canonical path.
    pub fn workspace(&self) -> PathBuf {
        self.scratch.path().join("workspace")
    }

    /// The project directory as tools see it by default.
    pub fn root(&self) -> PathBuf {
        match Backend::chosen() {
            Backend::Local => self.workspace(),
            Backend::Engine { .. } => "/workspace".into(),
        }
    }

    /// The temporary directory of agent and tools.
    #[track_caller]
    pub fn tmp(&self) -> PathBuf {
        let name = format!("{}-tmp", self.name().expect("a session has a directory"));
        match Backend::chosen() {
            Backend::Local => self.scratch.path().join("run").join(name),
            Backend::Engine { .. } => Path::new("/var/tmp").join(name),
        }
    }

    /// The name of the session directory, `aifo-<16 hex digits>`, if it exists.
    fn name(&self) -> Option<String> {
        let entries = fs::read_dir(self.scratch.path().join("run")).ok()?.flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.find(|name| name.starts_with("aifo-") && !name.ends_with("-tmp"))
    }

    /// A path in the project directory, as an argument.
    pub fn file(&self, name: &str) -> String {
        let path = self.workspace().join(name);
        path.into_os_string().into_string().expect("the scratch path is text")
    }

    /// The parent of all of this session's directories.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The proxy's stdout.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.scratch.path().join("serve.out")).unwrap_or_default()
    }

    /// The proxy log so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.scratch.path().join("serve.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The log lines that contain all of `parts`.
    pub fn log_lines(&self, parts: &[&str]) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        lines.map(str::to_owned).collect()
    }

    /// Sends a call and waits until its tool has printed `ready`.
    #[track_caller]
    pub fn send_ready(&self, call: &Request) -> Connection {
        let mut connection = self.send(call);
        connection.read_until(b"ready\n");
        connection
    }

    /// Starts `count` calls with endless output that is not read.
    pub fn unread_calls(&self, count: usize) -> Vec<Connection> {
        let endless = (1u64 << 40).to_string();
        let start = |_| {
            let mut call = self.send(&self.exec("make", ["emit", &endless, "1"]));
            call.read_until(b"\r\n\r\n");
            call
        };
        (0..count).map(start).collect()
    }

    /// The proxy's process id.
    pub fn pid(&self) -> i32 {
        self.serve.id().cast_signed()
    }

    /// The process id of its `proxy`, or of the `runner` or `guard` of its first sidecar.
    #[track_caller]
    pub fn pid_of(&self, process: &str) -> i32 {
        match process {
            "proxy" => self.pid(),
            "runner" => self.sidecars()[0].runner,
            "guard" => self.sidecars()[0].guard,
            other => panic!("a session has no {other}"),
        }
    }

    /// Its sidecars, one per kind.
    #[track_caller]
    pub fn sidecars(&self) -> Vec<Sidecar> {
        let mut sidecars = Vec::new();
        eventually("every kind has a guard and a runner", || {
            sidecars = match Backend::chosen() {
                Backend::Local => Sidecar::of(self.pid()),
                Backend::Engine { .. } => Sidecar::in_containers(&self.workspace()),
            };
            sidecars.len() == self.kinds
        });
        sidecars
    }

    /// Maps a pid that a tool or the proxy reported to this machine's namespace. Panics if there is
    /// no such process.
    #[track_caller]
    pub fn process(&self, pid: i32) -> i32 {
        self.living_pid(pid).unwrap_or_else(|| panic!("no process of the session is {pid}"))
    }

    /// All processes of the session, also in containers, without the proxy.
    pub fn processes(&self) -> Vec<i32> {
        let mut all = descendants(self.pid());
        if Backend::chosen().is_engine() {
            all.extend(in_containers(&self.workspace()));
        }
        all
    }

    /// [`Session::process`], or `None` if the process is gone.
    #[track_caller]
    pub(crate) fn living_pid(&self, pid: i32) -> Option<i32> {
        match Backend::chosen() {
            Backend::Local => Some(pid),
            Backend::Engine { .. } => numbered_in_containers(&self.workspace(), pid),
        }
    }

    /// Opens a connection to the proxy.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(&self.address)
    }

    /// A POST with credentials and version 2, without a body.
    pub fn post(&self, path: &str) -> Request {
        Request::new(format!("POST {path} HTTP/1.1"))
            .header("Host", "localhost")
            .header("Authorization", format!("Bearer {}", self.token))
            .header("X-Aifo-Proto", "2")
            .header("Content-Type", "application/x-www-form-urlencoded")
    }

    /// A call of a tool in the workspace root.
    pub fn exec<A: AsRef<OsStr>>(&self, tool: &str, args: impl IntoIterator<Item = A>) -> Request {
        let call = self.post("/exec").field("tool", tool).field("cwd", self.workspace());
        args.into_iter().fold(call, |call, arg| call.field("arg", arg.as_ref()))
    }

    /// Sends a request on a new connection.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Connection {
        let mut connection = self.connect();
        connection.send(request.encode());
        connection
    }

    /// Sends a request and reads the complete response.
    #[track_caller]
    pub fn answer(&self, request: &Request) -> Answer {
        self.send(request).answer()
    }

    /// Sends a signal request for an exec.
    #[track_caller]
    pub fn signal(&self, id: &str, name: &str) -> Answer {
        self.answer(&self.post("/signal").field("exec_id", id).field("signal", name))
    }

    /// The shim with a tool name, configured for this session, in the workspace.
    #[track_caller]
    pub fn shim(&self, tool: &str) -> Command {
        let link = self.scratch.path().join("shims").join(tool);
        match symlink(&binaries().shim, &link) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => panic!("no link for '{tool}': {e}"),
            _ => {}
        }
        let mut shim = Command::new(link);
        shim.env_clear()
            .env("PATH", self.scratch.path().join("shims"))
            .env("AIFO_TOOLEEXEC_URL", &self.url)
            .env("AIFO_TOOLEEXEC_TOKEN", &self.token)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        shim
    }

    /// Sends a signal to the proxy and waits for its end.
    #[track_caller]
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        send_signal(self.pid(), signal);
        let mut status = None;
        eventually("the proxy has ended", || {
            status = self.serve.try_wait().expect("the proxy is our child");
            status.is_some()
        });
        status.expect("the loop ends with a status")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Ok(None) = self.serve.try_wait() {
            send_signal(self.pid(), Signal::SIGTERM);
            let patience = std::time::Instant::now();
            while let Ok(None) = self.serve.try_wait() {
                if patience.elapsed() > crate::DEADLINE {
                    let _ = self.serve.kill();
                    let _ = self.serve.wait();
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        // Only a killed proxy leaves its directory.
        if let Some(session) = self.name() {
            Backend::chosen().remove(&session);
        }
        if std::thread::panicking() {
            eprintln!("--- log of the session ---\n{}", self.log());
        }
    }
}

/// A unique exec id: [`tagged_processes`](crate::tagged_processes) searches the whole machine.
pub fn fresh_id() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!("t{}.{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}
