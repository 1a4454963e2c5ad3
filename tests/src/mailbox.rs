//! A mailbox: the daemon, its directory, and its clients.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Outcome, Running, SessionSetup, Signal, Tool, eventually};

/// PATH of the machine's commands.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs that the script needs, apart from the shell.
const SCRIPT_NEEDS: [&str; 9] =
    ["cat", "date", "dd", "mv", "readlink", "rm", "sh", "sleep", "touch"];

/// A mailbox with a running daemon. Drop kills the daemon.
#[derive(Debug)]
pub struct Mailbox {
    setup: SessionSetup,
    daemon: Running,
    directory: PathBuf,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxAnswer {
    /// The content of the exit file, digits.
    pub exit: String,
    /// The command's stdout.
    pub stdout: Vec<u8>,
    /// The command's stderr, as text.
    pub stderr: String,
    /// The reason of a refusal or an abnormal ending.
    pub reason: Option<String>,
}

/// A setup with the fake tools and the machine's commands in PATH.
pub fn host() -> SessionSetup {
    let setup = SessionSetup::new();
    let path = format!("{}:{PATH}", setup.tools().display());
    setup.env("PATH", &path).tool("fake", Tool::Fake)
}

impl Mailbox {
    /// Serves these commands from the default directory.
    #[track_caller]
    pub fn start(commands: &[&str]) -> Self {
        Self::of(host(), commands)
    }

    /// Starts `aifo-coder mailbox` with these arguments, in the default directory.
    #[track_caller]
    pub fn of(setup: SessionSetup, args: &[&str]) -> Self {
        let daemon = Self::daemon(&setup, args);
        let directory = setup.workspace().join(".swe-swe/proxy");
        Mailbox { setup, daemon, directory }
    }

    /// Starts another program as the daemon; it prints what `aifo-coder mailbox` prints.
    #[track_caller]
    pub fn served_by(setup: SessionSetup, program: &mut Command) -> Self {
        let directory = setup.workspace().join("mailbox");
        let daemon = Running::start(program);
        daemon.expect("[proxy] Container script: ");
        Mailbox { setup, daemon, directory }
    }

    /// Starts a daemon and waits until it is ready.
    #[track_caller]
    pub fn daemon(setup: &SessionSetup, args: &[&str]) -> Running {
        let daemon = Running::start(setup.coder().arg("proxy").args(args));
        daemon.expect("[proxy] Container script: ");
        daemon
    }

    /// The daemon's setup.
    pub fn setup(&self) -> &SessionSetup {
        &self.setup
    }

    /// The daemon.
    pub fn running(&self) -> &Running {
        &self.daemon
    }

    /// The mailbox directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The client of a command, in the workspace and without input.
    pub fn client(&self, command: &str) -> Command {
        let mut client = Command::new(self.file(command));
        client.current_dir(self.setup.workspace()).env_clear().env("PATH", PATH);
        client.stdin(Stdio::null());
        client
    }

    /// Runs a command through its client, to its end.
    #[track_caller]
    pub fn run(&self, command: &str, args: &[&str]) -> Outcome {
        Running::start(self.client(command).args(args)).finish()
    }

    /// A PATH without inotify-tools: links to the programs that the script needs.
    pub fn path_without_inotify(&self) -> PathBuf {
        let dir = self.setup.scratch().join("poor");
        fs::create_dir_all(&dir).expect("the scratch directory is writable");
        for name in SCRIPT_NEEDS {
            let places = PATH.split(':').map(|place| Path::new(place).join(name));
            let program = places.into_iter().find(|program| program.is_file());
            let program = program.unwrap_or_else(|| panic!("'{name}' is not in PATH"));
            // Fails if an earlier call created it.
            let _ = std::os::unix::fs::symlink(program, dir.join(name));
        }
        dir
    }

    /// Writes a request by a rename, as clients must.
    pub fn place(&self, stem: &str, request: &[u8]) {
        let draft = self.file(&format!("{stem}.req.tmp"));
        fs::write(&draft, request).expect("the directory is writable");
        fs::rename(draft, self.file(&format!("{stem}.req"))).expect("the directory is writable");
    }

    /// Waits for the response to a request.
    #[track_caller]
    pub fn answer(&self, stem: &str) -> MailboxAnswer {
        let exit = self.file(&format!("{stem}.exit"));
        eventually(&format!("'{stem}' is answered"), || exit.exists());
        let read = |part: &str| fs::read(self.file(&format!("{stem}.{part}"))).unwrap_or_default();
        let text = |part: &str| String::from_utf8_lossy(&read(part)).into_owned();
        MailboxAnswer {
            exit: text("exit"),
            stdout: read("stdout"),
            stderr: text("stderr"),
            reason: Some(text("reason")).filter(|reason| !reason.is_empty()),
        }
    }

    /// Runs a request to its end, as a client that follows `spec/mailbox.md`: locks its liveness file, and
    /// removes its files after the response.
    #[track_caller]
    pub fn request(&self, stem: &str, request: &[u8]) -> MailboxAnswer {
        let _alive = self.locked_liveness_file(stem);
        self.place(stem, request);
        let answer = self.answer(stem);
        for part in ["alive", "stdout", "stderr", "exit", "reason"] {
            // The last one may not exist.
            let _ = fs::remove_file(self.file(&format!("{stem}.{part}")));
        }
        answer
    }

    /// Creates and locks the liveness file of a request. Drop releases the lock.
    pub fn locked_liveness_file(&self, stem: &str) -> File {
        let alive = File::create(self.file(&format!("{stem}.alive")));
        let alive = alive.expect("the directory is writable");
        alive.lock().expect("its file system has locks");
        alive
    }

    /// The names in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The names that belong to requests.
    pub fn leftovers(&self) -> Vec<String> {
        let mut names = self.names();
        let clients: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_suffix(".pid"))
            .flat_map(|command| ["", ".pid", ".mailbox"].map(|end| format!("{command}{end}")))
            .collect();
        names.retain(|name| !clients.contains(name));
        names
    }

    /// Waits until no request has files left.
    #[track_caller]
    pub fn assert_clean(&self) {
        eventually("the directory is clean", || self.leftovers().is_empty());
    }

    /// Ends the daemon with SIGTERM. Returns the setup.
    #[track_caller]
    pub fn stop(self) -> (SessionSetup, Outcome) {
        self.daemon.signal(Signal::SIGTERM);
        (self.setup, self.daemon.finish())
    }

    /// Kills the daemon.
    #[track_caller]
    pub fn kill(self) -> SessionSetup {
        self.daemon.signal(Signal::SIGKILL);
        let ended = self.daemon.finish();
        assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32));
        self.setup
    }
}
